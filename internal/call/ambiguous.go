package call

import (
	"context"
	"fmt"

	"palyra/internal/call/record"
	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
)

// CloseAmbiguous gives every call that was decided and has no attestation its
// end: the daemon stopped while it ran, so what it did is unknown. It is
// called on start, before any call is let in, and never runs anything again.
// It returns how many calls it closed.
func CloseAmbiguous(ctx context.Context, ledger Ledger) (int, error) {
	open, err := ledger.OpenCalls(ctx)
	if err != nil {
		return 0, fmt.Errorf("listing open calls: %w", err)
	}
	if len(open) == 0 {
		return 0, nil
	}
	entry := Entry{}
	for _, o := range open {
		story, err := storyOf(ctx, ledger, o.ProposalID)
		if err != nil {
			return 0, fmt.Errorf("reading open call %s: %w", o.ProposalID, err)
		}
		payload, err := canonical.Marshal(record.Ambiguous{
			ProposalID: o.ProposalID, Reason: reason.OutcomeUnknown, Message: unknown(story).Message,
		})
		if err != nil {
			return 0, err
		}
		entry.Drafts = append(entry.Drafts, event.Draft{
			Code: event.Ambiguous, Session: o.Session, Run: o.Run, Actor: "service:palyrad",
			Subject: o.ProposalID, Payload: payload,
		})
	}
	if _, err := ledger.Record(ctx, entry); err != nil {
		return 0, fmt.Errorf("closing open calls: %w", err)
	}
	return len(open), nil
}

// unknown says of a call without an end what is known all the same: what it
// changed in its copy of a workspace is lost unless it was allowed.
func unknown(s record.Story) *reason.Error {
	if s.Ambiguous != nil && s.Ambiguous.Reason == reason.AttestationFailed {
		return reason.Errorf(reason.AttestationFailed, "%s", s.Ambiguous.Message)
	}
	e := reason.Errorf(reason.OutcomeUnknown, "the gateway stopped while the call ran")
	switch gate := s.Gate(); {
	case s.AtGate:
		e.Message += "; its changes waited to be committed, and nothing of them was applied to the workspace"
	case gate != nil && gate.Allowed:
		e.Message += "; its changes were allowed, and may or may not have been applied to the workspace"
	case gate != nil:
		e.Message += "; its changes were refused, and nothing of them was applied to the workspace"
	}
	return e
}
