package call

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"palyra/internal/call/session"
	"palyra/internal/core/access"
)

// Config is the configuration of a Pipeline. All fields except Looked, Log and Quota are
// required.
type Config struct {
	Evaluator  Evaluator
	Approver   Approver
	Grants     Grants
	Editor     Editor
	Dispatcher Dispatcher
	Notary     Notary
	Ledger     Ledger
	// MaxCallsPerRun is the budget of a run of the gateway, MaxCallsPerSession the budget of
	// all other calls of a session; every proposal counts.
	MaxCallsPerRun     int
	MaxCallsPerSession int
	// SessionIdle is the time without a call after which a session ends.
	SessionIdle time.Duration
	// LiveDevice reports whether a device is not revoked; votes of a revoked device do not
	// count.
	LiveDevice func(id string) bool
	// Standing returns an error if a caller may not proceed: its credential was revoked or has
	// expired, or its permissions were reduced, since it authenticated. It is called at the
	// decision of a call, immediately before the call starts, and before its changes are
	// committed.
	Standing func(access.Caller) error
	// Looked receives calls that were evaluated or explained but not made; nil discards them.
	// It must not block.
	Looked func(Look)
	// Log receives the causes of INTERNAL errors, which are not returned to callers; nil
	// discards them.
	Log *slog.Logger
	// Quota bounds the bytes of callers; nil bounds nothing.
	Quota Quota
}

// New returns a pipeline, or an error if the configuration is not complete.
func New(cfg Config) (*Pipeline, error) {
	if cfg.Evaluator == nil || cfg.Approver == nil || cfg.Grants == nil || cfg.Editor == nil || cfg.Dispatcher == nil || cfg.Notary == nil || cfg.Ledger == nil || cfg.LiveDevice == nil || cfg.Standing == nil {
		return nil, errors.New("creating the pipeline: a stage is missing")
	}
	if cfg.MaxCallsPerRun <= 0 || cfg.MaxCallsPerSession <= 0 || cfg.SessionIdle <= 0 {
		return nil, errors.New("max_calls_per_run, max_calls_per_session and sessions.idle must be positive")
	}
	s := &services{Config: cfg, sessions: session.NewBook(pastSessions{cfg.Ledger}, cfg.SessionIdle), waiting: &waitingCalls{byID: make(map[string]*waiting)}}
	return &Pipeline{
		services: s, DryRuns: &DryRuns{s}, keyed: &keyedCalls{live: make(map[claimKey]*liveCall)},
		History: &History{ledger: cfg.Ledger, sessions: s.sessions, underWay: &callsUnderWay{live: make(map[*call]context.CancelCauseFunc)}},
	}, nil
}
