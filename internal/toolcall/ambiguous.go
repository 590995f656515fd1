package toolcall

import (
	"context"
	"fmt"

	"palyra/internal/canonical"
	"palyra/internal/event"
	"palyra/internal/reason"
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
		payload, err := canonical.Marshal(AmbiguousPayload{
			ProposalID: o.ProposalID, Reason: reason.OutcomeUnknown,
			Message: reason.Lookup(reason.OutcomeUnknown).Sentence,
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
