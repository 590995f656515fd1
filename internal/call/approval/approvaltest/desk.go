package approvaltest

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/oklog/ulid/v2"

	"palyra/internal/call/approval"
	"palyra/internal/core/access"
	"palyra/internal/core/change"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// Desk is a running desk on an embedded store.
type Desk struct {
	*approval.Desk
	Store *Store
	Judge *Judge
}

// FailNext makes the store's next Update fail with err.
func (d *Desk) FailNext(err error) { d.Store.FailNext(err) }

// NewDesk returns a running desk whose judge is satisfied by one vote. It stops when the test
// ends.
func NewDesk(t testing.TB) *Desk {
	t.Helper()
	return NewDeskOn(t, NewStore(t), approval.Limits{})
}

// NewDeskOn is NewDesk on a store with existing data, with limits.
func NewDeskOn(t testing.TB, store *Store, limits approval.Limits) *Desk {
	t.Helper()
	judge := &Judge{Need: 1}
	d := &Desk{Desk: Open(t, store, judge, limits), Store: store, Judge: judge}
	Start(t, d.Desk)
	return d
}

// Open returns a desk that is not running yet.
func Open(t testing.TB, store approval.Store, judge approval.Judge, limits approval.Limits) *approval.Desk {
	t.Helper()
	return must.Get(approval.NewDesk(approval.Config{Guard: change.Unguarded, Store: store, Judge: judge, Limits: limits}))(t)
}

// Start runs the desk until the test ends or the returned function is called.
func Start(t testing.TB, d *approval.Desk) (stop func()) {
	t.Helper()
	return must.Run(t, d.Run)
}

// Judge is an approval.Judge that counts votes: Need users must allow, every user except the
// requester may decide, and only members of Broad may grant broadly.
type Judge struct {
	mu   sync.Mutex
	Need int
	// Role, if set, counts only votes of users who have it.
	Role  access.Role
	Broad map[access.Principal]bool
	err   error
	calls int
}

var _ approval.Judge = (*Judge)(nil)

// Set changes the judge while the desk runs.
func (j *Judge) Set(change func(*Judge)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	change(j)
}

// Fail makes every later ruling fail with err; nil restores it.
func (j *Judge) Fail(err error) { j.Set(func(j *Judge) { j.err = err }) }

// Calls returns the number of rulings.
func (j *Judge) Calls() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.calls
}

// Judge allows if enough different users voted.
func (j *Judge) Judge(_ context.Context, _ approval.Record, votes []approval.Vote) (approval.Ruling, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.calls++
	if j.err != nil {
		return approval.Ruling{}, j.err
	}
	users := map[access.Principal]bool{}
	for _, v := range votes {
		if v.Allow && (j.Role == "" || (access.Member{Roles: v.Roles}).Holds(j.Role)) {
			users[v.User] = true
		}
	}
	if missing := j.Need - len(users); missing > 0 {
		return approval.Ruling{Missing: fmt.Sprintf("%d more", missing)}, nil
	}
	return approval.Ruling{Allowed: true}, nil
}

// MayDecide permits every user except the requester to decide.
func (j *Judge) MayDecide(_ context.Context, c access.Caller, r approval.Record) error {
	if c.Principal == r.RequestedBy || c.Principal.Kind != access.KindUser {
		return reason.Errorf(reason.PermissionDenied, "%s may not decide approval %s", c.Principal, r.ID)
	}
	return nil
}

// MayGrantBroad permits the members of Broad to grant broadly.
func (j *Judge) MayGrantBroad(_ context.Context, c access.Caller) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.Broad[c.Principal] {
		return reason.Errorf(reason.PermissionDenied, "%s may not grant broadly", c.Principal)
	}
	return nil
}

// Caller returns a user at the command line.
func Caller(name string, roles ...access.Role) access.Caller {
	return access.Caller{
		Principal: access.User(name), OnBehalfOf: access.User(name), Roles: roles,
		DeviceID: "device-" + name, Surface: access.SurfaceCLI, Paired: true, Present: true,
	}
}

// Ask returns an ask of agent:builder, on behalf of user:owner, to run a program in session s1
// and run r1. The changes are applied to its binding and proposal before the digest is
// computed.
func Ask(t testing.TB, changes ...func(*approval.Ask)) approval.Ask {
	t.Helper()
	ask := approval.Ask{
		Proposal: tool.Proposal{
			ID:     ulid.Make().String(),
			Caller: access.Caller{Principal: access.Agent("builder"), OnBehalfOf: access.User("owner"), DeviceID: "device-1"},
			Tool: tool.Descriptor{
				Name: "process.run", Title: "Run a program", Capabilities: []tool.Capability{tool.ProcessExec},
				Executor: tool.TierCBubblewrap,
			},
			Session: "s1", Run: "r1",
			Input: json.RawMessage(`{"argv":["make","test"]}`),
		},
		Plan: tool.Plan{
			Binding: tool.Binding{
				Principal: "agent:builder", OnBehalfOf: "user:owner", Tool: "process.run",
				ToolDefinitionDigest: "sha256:def", Arguments: json.RawMessage(`{"argv":["make","test"]}`),
				Cwd: "default:.", Argv: []string{"make", "test"}, Environment: []string{"LANG=C"},
				Executable:     tool.Executable{Path: "/usr/bin/make", SHA256: "sha256:make"},
				Operands:       []tool.Operand{{Path: "Makefile", SHA256: "sha256:makefile"}},
				SandboxProfile: "c/rw/default", Egress: []string{"strict"},
			},
			Facts:   tool.Facts{Workspace: "default", SandboxTier: "c"},
			Preview: tool.Preview{Summary: "Run make test in default."},
			Subject: "process.run:/usr/bin/make@default",
		},
		SnapshotDigest: "sha256:snapshot", Request: json.RawMessage(`{"request":1}`), Severity: "medium",
	}
	for _, change := range changes {
		change(&ask)
	}
	prompt := must.Get(approval.NewPrompt(ask.Proposal, ask.Plan, ask.Severity))(t)
	prompt.RequesterReason = ask.Prompt.RequesterReason
	ask.Prompt = prompt
	ask.CallDigest = must.Get(ask.Plan.Binding.Digest())(t)
	return ask
}

// Pending is a call that waits at a desk.
type Pending struct {
	// Records receives every record passed to the observer; it holds 64.
	Records chan approval.Record
	// Done receives the outcome.
	Done chan Outcome
	// Leave ends the call's context.
	Leave context.CancelCauseFunc
}

// Outcome is the result of Resolve.
type Outcome struct {
	Answer approval.Answer
	Err    error
}

// Resolve starts to wait for an ask in its own goroutine.
func Resolve(d *approval.Desk, ask approval.Ask) *Pending {
	ctx, cancel := context.WithCancelCause(context.Background())
	p := &Pending{Records: make(chan approval.Record, 64), Done: make(chan Outcome, 1), Leave: cancel}
	go func() {
		answer, err := d.Requests.Resolve(ctx, &ask, func(r *approval.Record) {
			select {
			case p.Records <- *r:
			default:
			}
		})
		p.Done <- Outcome{answer, err}
	}()
	return p
}
