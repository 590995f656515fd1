// Package dispatch runs permitted calls. It plans the call again and redeems the permit, which
// verifies that the call is still the decided one. It then passes the call to the executor of
// its tool. No other code calls an executor.
package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"palyra/internal/core/reason"
	"palyra/internal/core/text"
	"palyra/internal/core/tool"
)

// Config is the configuration of a Router.
type Config struct {
	Tools []tool.Runnable
	// Snapshot returns the digest of the policy snapshot in force.
	Snapshot func() string
	// Timeout is the maximum duration of a call; it must be positive.
	Timeout time.Duration
	// Log receives alarms, and the tool failures that are not returned to callers; it may be
	// nil.
	Log *slog.Logger
}

// Router finds tools and runs decided calls.
//
// A router MUST plan a call again and redeem its permit before the executor starts, and MUST report
// exactly one outcome. It MUST NOT run a call of a suspended tool or of a frozen gateway.
type Router struct {
	// tools has the tools of all sources. setting guards sources, from which tools is built;
	// the tools of New have the source "".
	tools    atomic.Pointer[toolset]
	setting  sync.Mutex
	sources  map[string][]*entry
	snapshot func() string
	timeout  time.Duration
	log      *slog.Logger
	brake    brake
	// suspended maps suspended tools to the reason.
	suspended atomic.Pointer[map[string]*reason.Error]
}

// toolset is an immutable set of tools.
type toolset struct {
	// revision counts the sets, from 1.
	revision uint64
	byName   map[string]*entry
	// sorted are their descriptors, by name.
	sorted []tool.Descriptor
}

type entry struct {
	tool       tool.Runnable
	descriptor tool.Descriptor
	digest     string
	schema     *tool.Schema
}

// New returns a router. It fails if cfg is not valid, two tools have the same name, or a schema
// does not compile.
func New(cfg Config) (*Router, error) {
	if cfg.Snapshot == nil || cfg.Timeout <= 0 {
		return nil, errors.New("dispatch needs a snapshot function and a positive timeout")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	r := &Router{sources: make(map[string][]*entry), snapshot: cfg.Snapshot, timeout: cfg.Timeout, log: cfg.Log}
	if err := r.SetTools("", cfg.Tools); err != nil {
		return nil, err
	}
	return r, nil
}

// Suspended returns the error of a suspended tool, otherwise nil.
func (r *Router) Suspended(name string) *reason.Error {
	if suspended := r.suspended.Load(); suspended != nil {
		return (*suspended)[name]
	}
	return nil
}

// find returns a tool that may be called.
func (r *Router) find(name string) (*entry, error) {
	e, ok := r.tools.Load().byName[name]
	if !ok {
		return nil, r.unknown(name)
	}
	if suspended := r.Suspended(name); suspended != nil {
		return nil, suspended
	}
	return e, nil
}

// Effectless reports whether the named tool is Pure.
func (r *Router) Effectless(name string) bool {
	e, known := r.tools.Load().byName[name]
	if !known {
		return false
	}
	_, pure := e.tool.(tool.Pure)
	return pure
}

// limit returns the maximum duration of a call of the named tool. It is the configured one, or
// the tool's own for calls that run elsewhere, for which the gateway only waits.
func (r *Router) limit(name string) time.Duration {
	if e := r.tools.Load().byName[name]; e != nil && e.descriptor.Executor == tool.External {
		if t, ok := e.tool.(interface{ Limit() time.Duration }); ok {
			return t.Limit()
		}
	}
	return r.timeout
}

// Check finds the tool and returns its descriptor with the canonical form of the input, or a
// refusal: UNKNOWN_TOOL, TOOL_SUSPENDED, or an input error.
func (r *Router) Check(name string, input []byte) (tool.Descriptor, []byte, error) {
	e, err := r.find(name)
	if err != nil {
		return tool.Descriptor{}, nil, err
	}
	if len(input) == 0 {
		input = []byte("{}")
	}
	canonical, err := e.schema.Check(input)
	if err != nil {
		return e.descriptor, nil, err
	}
	return e.descriptor, canonical, nil
}

// Digest returns the digest of a tool's definition, which policies can pin; "" for an unknown
// tool.
func (r *Router) Digest(name string) string {
	if e := r.tools.Load().byName[name]; e != nil {
		return e.digest
	}
	return ""
}

func (r *Router) unknown(name string) error {
	e := reason.Errorf(reason.UnknownTool, "tool %q does not exist", name)
	if near := text.Nearest(name, slices.Sorted(maps.Keys(r.tools.Load().byName))); near != "" {
		return e.WithRemedy("Did you mean %q? List all tools with `palyra tools`.", near)
	}
	return e
}

// Plan determines the effects of the call and fills the binding fields that are common to all
// tools.
func (r *Router) Plan(ctx context.Context, p tool.Proposal) (plan tool.Plan, err error) {
	e, err := r.find(p.Tool.Name)
	if err != nil {
		return plan, err
	}
	ctx, end := tool.Isolate(ctx)
	defer end()
	plan, err = e.tool.Plan(ctx, p)
	if restricted := (*tool.RestrictedError)(nil); errors.As(err, &restricted) {
		e.bind(&restricted.Plan.Binding, &p)
	}
	if err != nil {
		return tool.Plan{}, err
	}
	e.bind(&plan.Binding, &p)
	return plan, nil
}

// bind fills the fields of a binding that are common to all tools.
func (e *entry) bind(b *tool.Binding, p *tool.Proposal) {
	b.Principal = p.Caller.Principal.String()
	b.OnBehalfOf = p.Caller.OnBehalfOf.String()
	b.Tool = e.descriptor.Name
	b.ToolDefinitionDigest = e.digest
	b.Arguments = p.Input
}

// prepare plans the call again and holds the inspected resources. After an error nothing is
// prepared.
func (r *Router) prepare(ctx context.Context, p *tool.Proposal, prepared *tool.Prepared) error {
	e, err := r.find(p.Tool.Name)
	if err != nil {
		return err
	}
	ctx, end := tool.Isolate(ctx)
	defer end()
	if *prepared, err = e.tool.Prepare(ctx, *p); err != nil {
		*prepared = tool.Prepared{}
		return err
	}
	e.bind(&prepared.Plan.Binding, p)
	return nil
}

// Frozen reports whether calls are prevented from starting.
func (r *Router) Frozen() bool {
	r.brake.mu.Lock()
	defer r.brake.mu.Unlock()
	return r.brake.frozen
}
