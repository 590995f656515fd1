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

// propose checks the input, and drafts and reports the proposal.
func (c *call) propose(ctx context.Context) error {
	if ctx.Err() != nil {
		return leftEarly(ctx, "before the call began")
	}
	descriptor, input, err := c.Dispatcher.Check(c.sub.Tool, c.sub.Input)
	if err != nil {
		return err
	}
	c.proposal.Tool, c.proposal.Input = descriptor, input
	if c.reason, err = requesterReason(c.sub.Reason); err != nil {
		return err
	}
	// Every call may return a result, which must be stored.
	if err := c.Ledger.Ready(ctx); err != nil {
		return err
	}
	if err := c.addProposed(); err != nil {
		return err
	}
	c.observe(Event{Proposed: &Proposed{
		ProposalID: c.proposal.ID, CallID: c.sub.CallID, Session: c.proposal.Session, Run: c.proposal.Run,
		Tool: descriptor.Name, InputDigest: canonical.Digest(input),
	}})
	if c.Dispatcher.Frozen() {
		return reason.Errorf(reason.GatewayFrozen, "an operator froze the gateway")
	}
	return nil
}

func (c *call) addProposed() error {
	arguments, redactions, err := tool.Redact(c.proposal.Input, c.proposal.Tool.SecretPaths)
	if err != nil {
		return err
	}
	size, head := c.Ledger.Head()
	c.journal = attest.Journal{Size: size, HeadSHA256: hex.EncodeToString(head[:])}
	payload := record.Proposed{
		ProposalID:           c.proposal.ID,
		CallID:               c.sub.CallID,
		Principal:            c.sub.Caller.Principal.String(),
		OnBehalfOf:           c.sub.Caller.OnBehalfOf.String(),
		DeviceID:             c.sub.Caller.DeviceID,
		Surface:              c.sub.Caller.Surface,
		Transport:            c.sub.Caller.Transport,
		Channel:              c.proposal.Channel,
		Tool:                 c.proposal.Tool.Name,
		ToolDefinitionDigest: c.Dispatcher.Digest(c.proposal.Tool.Name),
		ArgumentsDigest:      canonical.Digest(c.proposal.Input),
		Redactions:           redactions,
		IdempotencyKey:       c.sub.IdempotencyKey,
		GatewaySession:       c.sessionID(),
		OpenWorld:            c.proposal.Tool.OpenWorld,
		Journal:              &c.journal,
	}
	if len(redactions) > 0 {
		// Together with the other arguments, an unsalted digest would confirm guesses of the
		// secret.
		payload.ArgumentsSalt = rand.Text()
		payload.ArgumentsDigest = canonical.Digest(append([]byte(payload.ArgumentsSalt), c.proposal.Input...))
	}
	c.argumentsDigest = payload.ArgumentsDigest
	if len(arguments) > inlineArguments || takesContent(c.proposal.Tool) {
		payload.ArgumentsBlob = canonical.Digest(arguments)
		c.pending.Blobs = append(c.pending.Blobs, arguments)
	} else {
		payload.Arguments = arguments
	}
	return c.draft(event.Proposed, payload)
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
