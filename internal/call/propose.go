package call

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"strings"
	"unicode/utf8"

	"palyra/internal/call/record"
	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/attest"
)

// inlineArguments is the largest input, in bytes, that is written into the journal. A larger
// input is stored as a blob that the journal names by digest, and so is every input for which
// takesContent is true.
const inlineArguments = 16 << 10

// proposed is a call with checked input, whose proposal is drafted.
type proposed struct {
	proposal tool.Proposal
	// reason is the requester's reason in its stored form.
	reason string
	// argumentsDigest is the digest of the input in the evidence.
	argumentsDigest string
	// journal is the newest durable event at the time of the proposal.
	journal attest.Journal
}

// propose checks the input, and drafts and reports the proposal.
func (c *call) propose(ctx context.Context) (*proposed, error) {
	if ctx.Err() != nil {
		return nil, leftEarly(ctx, "before the call began")
	}
	p, err := c.check()
	if err != nil {
		return nil, err
	}
	// Every call may return a result, which must be stored.
	if err := c.Ledger.Ready(ctx); err != nil {
		return nil, err
	}
	if err := c.draftProposed(p); err != nil {
		return nil, err
	}
	c.observe(Event{Proposed: &Proposed{
		ProposalID: p.proposal.ID, CallID: c.sub.CallID, Session: p.proposal.Session, Run: p.proposal.Run,
		Tool: p.proposal.Tool.Name, InputDigest: canonical.Digest(p.proposal.Input),
	}})
	if c.Dispatcher.Frozen() {
		return nil, reason.Errorf(reason.GatewayFrozen, "an operator froze the gateway")
	}
	return p, nil
}

// check returns the proposal with checked input and reason, as far as it was found.
func (c *call) check() (p *proposed, err error) {
	p = &proposed{proposal: c.ids}
	p.proposal.Tool, p.proposal.Input, err = c.Dispatcher.Check(c.sub.Tool, c.sub.Input)
	if err == nil {
		p.reason, err = requesterReason(c.sub.Reason)
	}
	return p, err
}

// draftProposed drafts the proposal, and sets its journal and its digest of the arguments.
func (c *call) draftProposed(p *proposed) error {
	stored, err := c.drafts.storeArguments(&p.proposal)
	if err != nil {
		return err
	}
	p.argumentsDigest = stored.ArgumentsDigest
	size, head := c.Ledger.Head()
	p.journal = attest.Journal{Size: size, HeadSHA256: hex.EncodeToString(head[:])}
	return c.drafts.draft(event.Proposed, record.Proposed{
		ProposalID:           p.proposal.ID,
		CallID:               c.sub.CallID,
		Principal:            c.sub.Caller.Principal.String(),
		OnBehalfOf:           c.sub.Caller.OnBehalfOf.String(),
		DeviceID:             c.sub.Caller.DeviceID,
		Surface:              c.sub.Caller.Surface,
		Transport:            c.sub.Caller.Transport,
		Channel:              p.proposal.Channel,
		Tool:                 p.proposal.Tool.Name,
		ToolDefinitionDigest: c.Dispatcher.Digest(p.proposal.Tool.Name),
		StoredArguments:      stored,
		IdempotencyKey:       c.sub.IdempotencyKey,
		GatewaySession:       c.sessionID(),
		OpenWorld:            p.proposal.Tool.OpenWorld,
		Journal:              &p.journal,
	})
}

// storeArguments returns the stored form of arguments; a blob joins the next durable write.
func (d *drafts) storeArguments(p *tool.Proposal) (record.StoredArguments, error) {
	arguments, redactions, err := tool.Redact(p.Input, p.Tool.SecretPaths)
	if err != nil {
		return record.StoredArguments{}, err
	}
	s := record.StoredArguments{ArgumentsDigest: canonical.Digest(p.Input), Redactions: redactions}
	if len(redactions) > 0 {
		// Together with the other arguments, an unsalted digest would confirm a guessed secret.
		s.ArgumentsSalt = rand.Text()
		s.ArgumentsDigest = canonical.Digest(append([]byte(s.ArgumentsSalt), p.Input...))
	}
	if len(arguments) > inlineArguments || takesContent(p.Tool) {
		s.ArgumentsBlob = canonical.Digest(arguments)
		d.Blobs = append(d.Blobs, arguments)
	} else {
		s.Arguments = arguments
	}
	return s, nil
}

// takesContent reports whether a tool's arguments may contain file content, for example content
// to write or to send. Tools that only read take none. The journal keeps its events permanently
// and in plain text, so it stores only the digest of such arguments.
func takesContent(d tool.Descriptor) bool {
	return slices.ContainsFunc(d.Capabilities, func(c tool.Capability) bool { return c != tool.FilesystemRead && c != tool.SecretsRead })
}

// MaxReason bounds the reason of a requester, in characters.
const MaxReason = 1024

// requesterReason returns the requester's reason for the call in its stored form: character
// sequences that look like keys are redacted. It is not part of the call digest and does not
// reach the tool.
func requesterReason(said string) (string, error) {
	said = strings.TrimSpace(said)
	if n := utf8.RuneCountInString(said); n > MaxReason {
		return "", reason.Errorf(reason.InvalidInput, "the reason for the call has %d characters, at most %d are allowed", n, MaxReason)
	}
	return tool.RedactText(strings.ToValidUTF8(said, "\uFFFD")), nil
}
