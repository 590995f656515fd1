package call

import (
	"context"
	"fmt"

	"palyra/internal/call/record"
	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
)

// CloseAmbiguous ends every call that was decided and has no attestation. The daemon stopped
// while such a call ran, so its effect is unknown. CloseAmbiguous is called on start, before
// any call is admitted, and never runs anything again. It returns the number of calls that it
// closed.
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
