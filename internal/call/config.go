package call

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"palyra/internal/call/approval"
	"palyra/internal/call/dispatch"
	"palyra/internal/call/policy"
	"palyra/internal/call/session"
	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/attest"
	"palyra/internal/evidence/journal"
)

// Evaluator returns the policy verdict.
type Evaluator interface {
	Evaluate(ctx context.Context, r policy.Request, grants []policy.Grant) (policy.Verdict, error)
	Current() *policy.Set
}

// Approver requests approvals, and consumes their answers.
type Approver interface {
	Resolve(ctx context.Context, ask *approval.Ask, observe func(*approval.Record)) (approval.Answer, error)
	Consume(ctx context.Context, a approval.Answer, extra ...event.Draft) error
	// Release returns an answer that its call will not use.
	Release(a approval.Answer)
	// Recheck is called immediately before the call starts, so that a revocation or a freeze
	// takes precedence over an existing decision.
	Recheck(ctx context.Context, a approval.Answer) error
}

// Grants finds standing grants, and returns their answers.
type Grants interface {
	Find(ctx context.Context, q approval.GrantQuery) ([]approval.Grant, error)
	Answer(ctx context.Context, grantID string, ask approval.Ask) (approval.Answer, error)
}

// Editor edits calls that wait for an approval.
type Editor interface {
	// MayEdit checks whether the caller may edit the call of a record in the displayed version.
	// Edit replaces the call.
	MayEdit(ctx context.Context, caller access.Caller, id string, version int64, digest string) (approval.Record, error)
	Edit(ctx context.Context, caller access.Caller, id string, a approval.Amendment) (approval.Record, error)
}

// Dispatcher checks inputs, plans calls and runs decided calls.
type Dispatcher interface {
	Check(name string, input []byte) (tool.Descriptor, []byte, error)
	// Digest returns the digest of a tool's definition.
	Digest(name string) string
	Plan(ctx context.Context, p tool.Proposal) (tool.Plan, error)
	// Resolved returns the normalized effect of a planned call, independent of the form of its
	// arguments.
	Resolved(ctx context.Context, p tool.Proposal, plan tool.Plan) (tool.Resolved, error)
	Run(ctx context.Context, d *dispatch.Decided) tool.Report
	// Effectless reports whether a tool cannot have an effect.
	Effectless(name string) bool
	Frozen() bool
}

// Notary signs attestations.
type Notary interface {
	Sign(ctx context.Context, e attest.Execution) (attest.Envelope, error)
}

// Ledger is the journal together with the rows that are committed with it.
type Ledger interface {
	// Record makes an entry durable, completely or not at all. It returns the sequence number
	// of the last event.
	Record(ctx context.Context, e Entry) (int64, error)
	// Ready checks whether results can be stored. It returns reason.VaultLocked while the
	// encryption key is locked.
	Ready(ctx context.Context) error
	// Events returns a page of the events that match the filter. Blob returns the blob of a
	// digest.
	Events(ctx context.Context, f journal.Filter) ([]journal.Event, error)
	Blob(ctx context.Context, digest string) ([]byte, error)
	// Head returns the number of durable events and the hash of the newest one, from memory.
	Head() (size int64, hash [32]byte)
	PastCalls
	PastSessions
}

// Quota bounds the bytes that callers send and store.
type Quota interface {
	// Begin counts n bytes of input until end is called, or refuses them with QUOTA_EXCEEDED.
	// It counts its own refusals.
	Begin(c access.Caller, p access.Precedence, n int64) (end func(), err error)
}

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
