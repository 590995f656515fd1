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

// refuse records why a call ended before it was decided and returns the
// error. A refusal that cannot be recorded is an outage of the journal.
func (c *call) refuse(ctx context.Context, cause error) error {
	known := c.because(ctx, cause)
	if known.Code == reason.JournalUnavailable {
		return cause
	}
	if err := c.draftRefused(known); err != nil {
		return err
	}
	if err := c.flush(ctx); err != nil {
		return err
	}
	if reason.Of(cause) == reason.Internal {
		return known
	}
	return cause
}

// longestName is how much of a tool's name is journaled, in bytes: a caller may
// send any.
const longestName = 192

// because returns the reason of an error, for the record and the caller. An error
// without a reason gets that of the call's ended context. Otherwise it is INTERNAL,
// and its cause is logged here, since callers are not told it.
func (a *authorization) because(ctx context.Context, err error) *reason.Error {
	known := &reason.Error{}
	if errors.As(err, &known) && known.Code != reason.Internal {
		return known
	}
	if ended := cut(ctx, nil); ended != nil && errors.As(ended, &known) {
		return known
	}
	if a.Log != nil {
		a.Log.ErrorContext(ctx, "a call met a fault of the gateway", slog.String("proposal", a.proposal.ID),
			slog.String("tool", text.Clip(a.sub.Tool, longestName)), slog.String("error", err.Error()))
	}
	return reason.Fault(err)
}

// draftRefused drafts the refusal, whose message may quote the input.
func (c *call) draftRefused(why *reason.Error) error {
	return c.draftRedacted(event.Refused, record.Refused{
		ProposalID: c.proposal.ID, CallID: c.sub.CallID, Principal: c.sub.Caller.Principal.String(), Tool: text.Clip(c.sub.Tool, longestName),
		Reason: why.Code, Message: why.Message, Remedy: why.NextStep(), GatewaySession: c.sessionID(),
	})
}

// draftRedacted drafts a payload without the secrets that it may repeat from
// the input.
func (a *authorization) draftRedacted(code event.Code, payload any) error {
	return a.add(newRedacted(code, a.proposal, payload))
}

// draft adds an event to the next durable write.
func (a *authorization) draft(code event.Code, payload any) error {
	return a.add(newDraft(code, a.proposal, payload))
}

func (a *authorization) add(d event.Draft, err error) error {
	if err == nil {
		a.pending.Drafts = append(a.pending.Drafts, d)
	}
	return err
}

func (a *authorization) flush(ctx context.Context) error {
	_, err := a.record(ctx)
	return err
}

func (a *authorization) record(ctx context.Context) (int64, error) {
	if len(a.pending.Drafts) == 0 {
		return 0, nil
	}
	entry := a.pending
	a.pending = Entry{}
	seq, err := a.Ledger.Record(context.WithoutCancel(ctx), entry)
	if err == nil && entry.Member != nil {
		a.counted.Stored()
	}
	return seq, unwritten(err)
}

// unwritten gives an error of the store that has no reason the one that says
// that nothing was written.
func unwritten(err error) error {
	if reason.Of(err) != reason.Internal {
		return err
	}
	return reason.Errorf(reason.JournalUnavailable, "writing the journal: %w", err)
}

func newDraft(code event.Code, p tool.Proposal, payload any) (event.Draft, error) {
	text, err := canonical.Marshal(payload)
	if err != nil {
		return event.Draft{}, err
	}
	return event.Draft{
		Code: code, Session: p.Session, Run: p.Run, Actor: p.Caller.Principal.String(), Subject: p.ID, Payload: text,
	}, nil
}

func newRedacted(code event.Code, p tool.Proposal, payload any) (event.Draft, error) {
	d, err := newDraft(code, p, payload)
	if err == nil {
		d.Payload, _, err = tool.Redact(d.Payload, nil)
	}
	return d, err
}
