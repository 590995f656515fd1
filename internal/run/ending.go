package run

import (
	"context"
	"errors"

	"palyra/internal/core/access"
	"palyra/internal/core/reason"
)

// ending describes the end of a run. As the cause of a context, it is the reason why the run's
// work was stopped.
type ending struct {
	state State
	// why is nil for a completed run.
	why *reason.Error
	// by is the principal that cancelled the run.
	by access.Principal
	// cause is the underlying error of the reason INTERNAL, for the log.
	cause error
}

var completed = &ending{state: Completed}

func failed(why *reason.Error) *ending { return &ending{state: Failed, why: why} }

func cancelled(by access.Principal, text string) *ending {
	message := "cancelled by " + by.String()
	if text != "" {
		message += ": " + text
	}
	return &ending{state: Cancelled, by: by, why: reason.Errorf(reason.Cancelled, "%s", message)}
}

func interrupted() *ending {
	return &ending{state: Interrupted, why: reason.Errorf(reason.RunInterrupted, "the gateway stopped while the run was active")}
}

// Error returns why the run ended.
func (e *ending) Error() string {
	if e.why == nil {
		return string(e.state)
	}
	return e.why.Message
}

// Unwrap returns the reason. For an interrupted run it is SHUTTING_DOWN, not RUN_INTERRUPTED.
// The ending is the cause of the calls' contexts, and an approval stays pending only when that
// cause is SHUTTING_DOWN.
func (e *ending) Unwrap() error {
	switch {
	case e.state == Interrupted:
		return reason.Errorf(reason.ShuttingDown, "the gateway is stopping")
	case e.why == nil:
		return nil
	}
	return e.why
}

// endOf returns the end of a run whose work in ctx failed with err.
func endOf(ctx context.Context, err error) *ending {
	if ctx.Err() != nil {
		if cut := (&ending{}); errors.As(context.Cause(ctx), &cut) {
			return cut
		}
	}
	if reason.Of(err) == reason.ShuttingDown {
		return interrupted()
	}
	known := &reason.Error{}
	if errors.As(err, &known) && known.Code != reason.Internal {
		return failed(known)
	}
	end := failed(reason.Fault(err))
	end.cause = err
	return end
}
