package call

import (
	"context"
	"slices"
	"sync"
	"time"

	"palyra/internal/call/policy"
	"palyra/internal/call/record"
	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/journal"
)

// keyedCalls holds the calls with an idempotency key that are under way.
type keyedCalls struct {
	mu   sync.Mutex
	live map[claimKey]*liveCall
}

type claimKey struct {
	principal access.Principal
	key       string
}

// liveCall is the call of a key, which several clients may follow.
type liveCall struct {
	digest string
	*Live
}

func newKeyedCalls() *keyedCalls {
	return &keyedCalls{live: make(map[claimKey]*liveCall)}
}

// callOnce makes a call with a key run at most once: the first submission
// starts it, a retry follows it or gets what the journal has of it.
func (p *Pipeline) callOnce(ctx context.Context, s *Submission, observe func(Event)) (*Outcome, error) {
	digest, err := s.Digest()
	if err != nil {
		return &Outcome{}, err
	}
	key := claimKey{s.Caller.Principal, s.IdempotencyKey}
	live, first := p.keyed.join(key, digest)
	if live.digest != digest {
		return &Outcome{}, keyTaken(s.IdempotencyKey)
	}
	if first {
		past, found, err := p.past(ctx, key, digest)
		switch {
		case err != nil:
			p.keyed.leave(key, live)
			live.End(Outcome{}, err)
		case found && unstarted(past.Story):
			p.start(key, live, s, past.proposalID)
		case found:
			outcome, err := p.replay(ctx, s, past, live.Add)
			p.keyed.leave(key, live)
			live.End(outcome, err)
		default:
			p.start(key, live, s, "")
		}
	}
	outcome, ended, err := live.Follow(ctx, observe)
	if !ended {
		err = reason.Errorf(reason.Cancelled, "the client left; the call goes on under its idempotency key: %w", ctx.Err())
	}
	return &outcome, err
}

// start runs the call on a goroutine of its own, which goes on without its clients,
// also while it waits for an approval: a lost connection loses neither the answer
// nor the result. To stop such a call, cancel it.
//
// replaces is the earlier proposal with the same key, if there was one that never
// started.
func (p *Pipeline) start(key claimKey, live *liveCall, s *Submission, replaces string) {
	claim := &Claim{Principal: key.principal, Key: key.key, Digest: live.digest, At: time.Now().UTC(), Replaces: replaces}
	// The caller of start is counted in, so the count cannot be zero here.
	p.calls.Add(1)
	go func() {
		defer p.calls.Done()
		outcome, err := p.handle(context.Background(), s, claim, live.Add)
		p.keyed.leave(key, live)
		live.End(*outcome, err)
	}()
}

// pastCall is what the journal has of an earlier call.
type pastCall struct {
	record.Story
	proposalID string
	// result is the result's bytes, when the call has one.
	result []byte
}

// past returns what the journal has of the key's call.
func (p *Pipeline) past(ctx context.Context, key claimKey, digest string) (past pastCall, found bool, err error) {
	claim, found, err := p.Ledger.Claimed(ctx, key.principal, key.key)
	if err != nil || !found {
		return pastCall{}, false, err
	}
	if claim.Digest != digest {
		return pastCall{}, false, keyTaken(key.key)
	}
	past.proposalID = claim.ProposalID
	past.Story, err = storyOf(ctx, p.Ledger, claim.ProposalID)
	if err == nil && past.Attested != nil && past.Attested.ResultBlob != "" {
		past.result, err = p.Ledger.Blob(ctx, past.Attested.ResultBlob)
	}
	return past, true, err
}

// mostEvents is more than one call ever has.
const mostEvents = 100

func storyOf(ctx context.Context, ledger Ledger, proposalID string) (record.Story, error) {
	events, err := ledger.Events(ctx, journal.Filter{Subject: proposalID, Limit: mostEvents})
	if err != nil {
		return record.Story{}, err
	}
	return record.Tell(events)
}

func keyTaken(key string) error {
	return reason.Errorf(reason.IdempotencyMismatch, "idempotency key %q belongs to a call with another tool or input", key)
}

// Digest covers what makes two submissions of a caller the same call.
func (s *Submission) Digest() (string, error) {
	input := s.Input
	if text, err := canonical.JSON(input); err == nil {
		input = text
	}
	parts := map[string]string{
		"tool": s.Tool, "input": canonical.Digest(input), "session": s.Session, "run": s.Run, "channel": s.Channel,
	}
	if s.Reason != "" {
		parts["reason"] = tool.RedactText(s.Reason)
	}
	return canonical.DigestOf(parts)
}

func (k *keyedCalls) join(key claimKey, digest string) (*liveCall, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if live, ok := k.live[key]; ok {
		return live, false
	}
	live := &liveCall{digest, NewLive()}
	k.live[key] = live
	return live, true
}

func (k *keyedCalls) leave(key claimKey, live *liveCall) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.live[key] == live {
		delete(k.live, key)
	}
}

// passing are refusals that say nothing about the call itself. A call with a key
// does not end with its client, so that CANCELLED is somebody's order to end it: a
// retry does not undo that. UNAUTHENTICATED is of the credential that began the call; a
// retry comes with another.
var passing = []reason.Code{
	reason.ShuttingDown, reason.GatewayFrozen, reason.ApprovalLimit, reason.JournalUnavailable, reason.FactsChanged,
	reason.VaultLocked, reason.Unauthenticated,
}

// unstarted reports whether the call did not start for a passing reason, such as a
// freeze or a stop of the gateway, so that a retry may run: it was refused before
// it was decided, or it was decided and its attestation says that its tool was never
// started. A call that was decided and has no attestation is never run again.
func unstarted(s record.Story) bool {
	switch {
	case s.Decided == nil:
		return s.Refused == nil || slices.Contains(passing, s.Refused.Reason)
	case s.Attested == nil:
		return false
	}
	report := s.Attested.Report
	return report.Outcome == tool.Refused && slices.Contains(passing, reason.Code(report.Reason))
}

// deniedNow reports whether the policies in force deny the caller a call that ran, by the facts
// under which it ran. A call that people edited is judged by the arguments that they gave it, as
// the journal keeps them.
func (p *Pipeline) deniedNow(ctx context.Context, s *Submission, past record.Story) bool {
	_, input, err := p.Dispatcher.Check(s.Tool, s.Input)
	if err != nil {
		return true // there is no such tool any more
	}
	for _, e := range past.Edits {
		if e.CallDigest != past.Decided.CallDigest {
			continue
		}
		if input, err = p.kept(ctx, e.Arguments, e.ArgumentsBlob); err != nil {
			return true // what ran cannot be read, so that it cannot be judged
		}
	}
	for _, e := range slices.Backward(past.Evaluations) {
		if e.Request.Commit != nil || e.Request.Injection != nil {
			continue
		}
		request := e.Request
		request.Caller, request.Args, request.Time = s.Caller, input, time.Now().UTC()
		return p.Evaluator.Current().Evaluate(request, nil).Effect() == policy.Deny
	}
	return true // there is nothing to judge it by
}

// replay tells the story of an earlier call again, unless policy denies the caller by now what
// the call did.
func (p *Pipeline) replay(ctx context.Context, s *Submission, past pastCall, observe func(Event)) (Outcome, error) {
	if past.Proposed != nil {
		observe(Event{Proposed: &Proposed{
			ProposalID: past.Proposed.ProposalID, CallID: past.Proposed.CallID, Session: past.Session, Run: past.Run,
			Tool: past.Proposed.Tool, InputDigest: past.Proposed.ArgumentsDigest, Replayed: true,
		}})
	}
	if past.Refused != nil {
		return Outcome{}, reason.Errorf(past.Refused.Reason, "%s", past.Refused.Message).WithRemedy("%s", past.Refused.Remedy)
	}
	if past.Decided.Allowed && past.Attested != nil && p.deniedNow(ctx, s, past.Story) {
		return Outcome{}, reason.Errorf(reason.PolicyDenied, "the call ran, and policy denies it by now, so that its result is not shown again").
			WithRemedy("Attestation %s says what it did. An operator sees with `palyra policy explain %s` which rule denies it.", past.Attested.AttestationID, past.Proposed.ProposalID)
	}
	observe(Event{Decision: past.Decided, Restricted: func() bool { return true }})
	outcome := Outcome{Decision: *past.Decided}
	if !past.Decided.Allowed {
		return outcome, nil
	}
	if past.Attested == nil {
		return outcome, unknown(past.Story)
	}
	outcome.Report = past.Attested.Report
	outcome.Report.Result = past.result
	outcome.Attestation = Attestation{
		Envelope: past.Attested.Signed(), Seq: past.AttestedSeq,
	}
	if past.Attested.ResultNotKept {
		return outcome, reason.Errorf(reason.NotFound, "the call ran and is attested; its result was too large to keep and was sent once, to who called first").
			WithRemedy("Look at attestation %s, which has the digest of the result; repeat the call under another key if that is safe.", past.Attested.AttestationID)
	}
	observe(Event{Result: &outcome.Report, Follows: true})
	observe(Event{Attestation: &outcome.Attestation, Restricted: outcome.Attestation.Envelope.NamesFiles})
	return outcome, nil
}
