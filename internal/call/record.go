package call

import (
	"context"
	"errors"
	"log/slog"

	"palyra/internal/call/record"
	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
	"palyra/internal/core/tool"
)

// refuse records why a call ended before its decision, and returns that error. If the refusal
// cannot be recorded, refuse returns the error of the journal.
func (c *call) refuse(ctx context.Context, cause error) error {
	known := c.because(ctx, cause)
	if known.Code == reason.JournalUnavailable {
		return cause
	}
	err := c.drafts.draftRedacted(event.Refused, record.Refused{ // its message may quote the input
		ProposalID: c.ids.ID, CallID: c.sub.CallID, Principal: c.sub.Caller.Principal.String(), Tool: text.Clip(c.sub.Tool, longestName),
		Reason: known.Code, Message: known.Message, Remedy: known.NextStep(), GatewaySession: c.sessionID(),
	})
	if err != nil {
		return err
	}
	if err := c.drafts.flush(ctx); err != nil {
		return err
	}
	if reason.Of(cause) == reason.Internal {
		return known
	}
	return cause
}

// longestName bounds a journaled tool name, in bytes: a caller may send one of any length.
const longestName = 192

// because returns the reason of an error, for the record and the caller. An error without a reason
// gets the reason with which the call's context ended. If the context has not ended, the reason is
// INTERNAL, and the cause is logged here, since it is not returned to callers.
func (s *scope) because(ctx context.Context, err error) *reason.Error {
	known := &reason.Error{}
	if errors.As(err, &known) && known.Code != reason.Internal {
		return known
	}
	if ended := cut(ctx, nil); ended != nil && errors.As(ended, &known) {
		return known
	}
	if s.Log != nil {
		s.Log.ErrorContext(ctx, "a call failed with an internal error", slog.String("proposal", s.ids.ID),
			slog.String("tool", text.Clip(s.sub.Tool, longestName)), slog.String("error", err.Error()))
	}
	return reason.Fault(err)
}

// drafts are the events of a call that are not durable yet, for its next durable write.
type drafts struct {
	ledger Ledger
	// of is the proposal that the events belong to.
	of *tool.Proposal
	Entry
	// stored, unless nil, is called once the call is a durable member of its session.
	stored func()
}

// draftRedacted drafts a payload without the secrets that it may repeat from the input.
func (d *drafts) draftRedacted(code event.Code, payload any) error {
	return d.add(newRedacted(code, d.of, payload))
}

// draft adds an event to the next durable write.
func (d *drafts) draft(code event.Code, payload any) error {
	return d.add(newDraft(code, d.of, payload))
}

func (d *drafts) add(draft event.Draft, err error) error {
	if err == nil {
		d.Drafts = append(d.Drafts, draft)
	}
	return err
}

func (d *drafts) flush(ctx context.Context) error {
	_, err := d.record(ctx)
	return err
}

// record makes the events durable, and returns the sequence number of the last one.
func (d *drafts) record(ctx context.Context) (int64, error) {
	if len(d.Drafts) == 0 {
		return 0, nil
	}
	entry := d.Entry
	d.Entry = Entry{}
	seq, err := d.ledger.Record(context.WithoutCancel(ctx), entry)
	if err == nil && entry.Member != nil {
		d.stored()
	}
	return seq, unwritten(err)
}

// unwritten returns an error of the store, by default with the reason JournalUnavailable.
func unwritten(err error) error {
	if reason.Of(err) != reason.Internal {
		return err
	}
	return reason.Errorf(reason.JournalUnavailable, "writing the journal: %w", err)
}

func newDraft(code event.Code, p *tool.Proposal, payload any) (event.Draft, error) {
	text, err := canonical.Marshal(payload)
	if err != nil {
		return event.Draft{}, err
	}
	return event.Draft{
		Code: code, Session: p.Session, Run: p.Run, Actor: p.Caller.Principal.String(), Subject: p.ID, Payload: text,
	}, nil
}

func newRedacted(code event.Code, p *tool.Proposal, payload any) (event.Draft, error) {
	d, err := newDraft(code, p, payload)
	if err == nil {
		d.Payload, _, err = tool.Redact(d.Payload, nil)
	}
	return d, err
}

// cut returns the cause of the end of the call if it has ended, otherwise err.
func cut(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	known := &reason.Error{}
	switch cause := context.Cause(ctx); {
	case errors.As(cause, &known):
		return known
	case errors.Is(cause, context.DeadlineExceeded):
		return reason.Errorf(reason.TimedOut, "the call reached its deadline while it waited")
	default:
		return reason.Errorf(reason.Cancelled, "the call was cancelled while it waited: %w", cause)
	}
}
