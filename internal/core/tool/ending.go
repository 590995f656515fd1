package tool

import (
	"context"
	"errors"
	"time"

	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
)

// Failure is the description of a failed call for a model, under the name "error".
type Failure struct {
	Reason  reason.Code `json:"reason"`
	Message string      `json:"message"`
	Remedy  string      `json:"remedy"`
}

// Succeed ends a report with a result.
func (r Report) Succeed(result any) Report {
	text, err := canonical.Marshal(result)
	if err != nil {
		return r.Fail(context.Background(), reason.Errorf(reason.Internal, "encoding the result: %w", err))
	}
	r.Outcome, r.Result = Succeeded, text
	return r.Finish()
}

// Fail ends a report with an error and a matching result.
func (r Report) Fail(ctx context.Context, err error) Report {
	r, said := r.Because(ctx, err)
	if text, err := canonical.Marshal(map[string]any{"error": said}); err == nil {
		r.Result = text
	}
	return r.Finish()
}

// Because sets the outcome and the reason from an error, without a result.
func (r Report) Because(ctx context.Context, err error) (Report, Failure) {
	known := cause(ctx, err)
	r.Reason, r.Message, r.Remedy = string(known.Code), known.Message, known.NextStep()
	if known.Code == reason.Internal {
		r.Cause = err
	}
	switch code := known.Code; {
	case code == reason.TimedOut:
		r.Outcome = TimedOut
	case code == reason.Cancelled, code == reason.GatewayFrozen, code == reason.ShuttingDown, code == reason.Unauthenticated && ctx.Err() != nil:
		r.Outcome = Stopped
	default:
		r.Outcome = Failed
	}
	return r, Failure{Reason: known.Code, Message: r.Message, Remedy: r.Remedy}
}

// cause returns the reason of an error. If the context has ended, the end of the context is the
// reason.
func cause(ctx context.Context, err error) *reason.Error {
	var known *reason.Error
	switch {
	case ctx.Err() == nil && errors.As(err, &known):
		return known
	case ctx.Err() == nil:
		return reason.Fault(err)
	case errors.As(context.Cause(ctx), &known):
		return known
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return reason.Errorf(reason.TimedOut, "the call exceeded its deadline")
	}
	return reason.Errorf(reason.Cancelled, "the call was cancelled")
}

// Finish sets the end time, and the duration unless it is already known.
func (r Report) Finish() Report {
	r.FinishedAt = time.Now().UTC()
	if r.Usage.Wall == 0 {
		r.Usage.Wall = r.FinishedAt.Sub(r.StartedAt)
	}
	return r
}
