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

// keyedCalls holds the active calls that have an idempotency key.
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

// callOnce runs a call with a key at most once: the first submission starts it; a retry follows
// the live call or gets the journaled result.
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
		err = reason.Errorf(reason.Cancelled, "the client disconnected; the call continues under its idempotency key: %w", ctx.Err())
	}
	return &outcome, err
}

// start runs the call in its own goroutine, independently of its clients, also while it waits
// for an approval. A lost connection therefore loses neither the answer nor the result. To stop
// such a call, cancel it.
//
// replaces is the earlier proposal with the same key that never started, or "" if none exists.
func (p *Pipeline) start(key claimKey, live *liveCall, s *Submission, replaces string) {
	claim := &Claim{Principal: key.principal, Key: key.key, Digest: live.digest, At: time.Now().UTC(), Replaces: replaces}
	// The caller of start is counted, so the count cannot be zero here.
	p.underWay.calls.Add(1)
	go func() {
		defer p.underWay.calls.Done()
		outcome, err := p.handle(context.Background(), s, claim, live.Add)
		p.keyed.leave(key, live)
		live.End(*outcome, err)
	}()
}

// pastCall is an earlier call as journaled.
type pastCall struct {
	record.Story
	proposalID string
	// result has the bytes of the result, if the call has one.
	result []byte
}

// past returns the earlier call of the key from the journal.
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

// mostEvents is an upper bound on the events of one call.
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

// passing lists the refusals that do not depend on the call itself. A call with a key does not
// end with its client, so CANCELLED is a deliberate order to end it, which a retry does not
// undo. UNAUTHENTICATED concerns the credential that started the call; a retry may use another
// one.
var passing = []reason.Code{
	reason.ShuttingDown, reason.GatewayFrozen, reason.ApprovalLimit, reason.JournalUnavailable, reason.FactsChanged,
	reason.VaultLocked, reason.Unauthenticated,
}

// unstarted reports whether the call did not start for a passing reason, such as a freeze or a
// stop of the gateway, so that a retry may run. Either it was refused before the decision, or
// it was decided and its attestation states that its tool was never started. A call that was
// decided and has no attestation is never run again.
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

// deniedNow reports whether the policies in force deny the caller an earlier call, by the facts
// under which it ran. An edited call is judged by its edited arguments, as stored in the
// journal.
func (p *Pipeline) deniedNow(ctx context.Context, s *Submission, past record.Story) bool {
	_, input, err := p.Dispatcher.Check(s.Tool, s.Input)
	if err != nil {
		return true // the tool does not exist any more
	}
	for _, e := range past.Edits {
		if e.CallDigest != past.Decided.CallDigest {
			continue
		}
		if input, err = keptArguments(ctx, p.Ledger, e.Arguments, e.ArgumentsBlob); err != nil {
			return true // the arguments are unreadable, so the call cannot be judged
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
	return true // the call cannot be judged without its facts
}

// replay sends the events of an earlier call again, unless policy now denies it.
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
		return Outcome{}, reason.Errorf(reason.PolicyDenied, "replaying the call: it ran, but policy now denies it, so its result is not returned again").
			WithRemedy("Inspect attestation %s for its effect. Ask an operator to run `palyra policy explain %s`, which shows the denying rule.", past.Attested.AttestationID, past.Proposed.ProposalID)
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
		return outcome, reason.Errorf(reason.NotFound, "replaying the call: it ran and is attested, but its result was too large to store and was sent only to the first caller").
			WithRemedy("Inspect attestation %s, which has the digest of the result. Repeat the call under another key if that is safe.", past.Attested.AttestationID)
	}
	observe(Event{Result: &outcome.Report, Follows: true})
	observe(Event{Attestation: &outcome.Attestation, Restricted: outcome.Attestation.Envelope.NamesFiles})
	return outcome, nil
}

// keptArguments returns the arguments from the event, or from the blob that the event refers to.
func keptArguments(ctx context.Context, ledger Ledger, arguments []byte, blob string) ([]byte, error) {
	if blob != "" {
		return ledger.Blob(ctx, blob)
	}
	return arguments, nil
}

// unknown returns the reason for the end of an interrupted call. It states the fate of the
// call's workspace changes as far as the journal has it: they are lost unless they were
// allowed.
func unknown(s record.Story) *reason.Error {
	if s.Ambiguous != nil && s.Ambiguous.Reason == reason.AttestationFailed {
		return reason.Errorf(reason.AttestationFailed, "%s", s.Ambiguous.Message)
	}
	e := reason.Errorf(reason.OutcomeUnknown, "the gateway stopped while the call ran")
	switch gate := s.Gate(); {
	case s.AtGate:
		e.Message += "; its changes were waiting for a commit and were not applied to the workspace"
	case gate != nil && gate.Allowed:
		e.Message += "; its changes were allowed and may have been applied to the workspace in full, in part or not at all"
	case gate != nil:
		e.Message += "; its changes were refused and were not applied to the workspace"
	}
	return e
}

// Digest covers the fields that make two submissions of a caller the same call.
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
