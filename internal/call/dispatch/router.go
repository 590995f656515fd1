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

	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
	"palyra/internal/core/tool"
)

// Catalog has the tools of all sources, and their suspensions. It is safe for concurrent use. Calls
// under way keep the tool that they found.
type Catalog struct {
	// tools is built from sources, which setting guards.
	tools   atomic.Pointer[toolset]
	setting sync.Mutex
	sources map[string][]*entry
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

// find returns a tool that may be called.
func (c *Catalog) find(name string) (*entry, error) {
	e, ok := c.tools.Load().byName[name]
	if !ok {
		return nil, c.unknown(name)
	}
	if suspended := c.Suspended(name); suspended != nil {
		return nil, suspended
	}
	return e, nil
}

// Suspended returns the error of a suspended tool, otherwise nil.
func (c *Catalog) Suspended(name string) *reason.Error {
	if suspended := c.suspended.Load(); suspended != nil {
		return (*suspended)[name]
	}
	return nil
}

func (c *Catalog) unknown(name string) error {
	e := reason.Errorf(reason.UnknownTool, "tool %q does not exist", name)
	if near := text.Nearest(name, slices.Sorted(maps.Keys(c.tools.Load().byName))); near != "" {
		return e.WithRemedy("Did you mean %q? List all tools with `palyra tools`.", near)
	}
	return e
}

// Check finds the tool and returns its descriptor with the canonical form of the input, or a
// refusal: UNKNOWN_TOOL, TOOL_SUSPENDED, or an input error.
func (c *Catalog) Check(name string, input []byte) (tool.Descriptor, []byte, error) {
	e, err := c.find(name)
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

// Effectless reports whether the named tool is Pure.
func (c *Catalog) Effectless(name string) bool {
	e, known := c.tools.Load().byName[name]
	if !known {
		return false
	}
	_, pure := e.tool.(tool.Pure)
	return pure
}

// Digest returns the digest of a tool's definition, which policies can pin; "" if unknown.
func (c *Catalog) Digest(name string) string {
	if e := c.tools.Load().byName[name]; e != nil {
		return e.digest
	}
	return ""
}

// Router finds tools and runs decided calls.
//
// A router MUST plan a call again and redeem its permit before the executor starts, and MUST report
// exactly one outcome. It MUST NOT run a call of a suspended tool or of a frozen gateway.
type Router struct {
	// Catalog has the tools. The tools of New have the source "".
	Catalog
	snapshot func() string
	timeout  time.Duration
	log      *slog.Logger
	brake    brake
}

// Plan determines the effects of the call and fills the common fields of its binding.
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

// Resolver is a Tool that can detect calls with different arguments and the same effect. For
// example, calls that read "a.txt" and "./a.txt" have the same tool.Resolved. Calls of a tool
// that is not a Resolver are the same only if their canonical arguments are.
type Resolver interface {
	tool.Runnable
	// Resolve is called for a planned call. It has no effect.
	Resolve(ctx context.Context, p tool.Proposal, plan tool.Plan) (tool.Resolved, error)
}

// Resolved returns the normalized effect of a planned call, independent of the form of its
// arguments.
func (r *Router) Resolved(ctx context.Context, p tool.Proposal, plan tool.Plan) (tool.Resolved, error) {
	e, err := r.find(p.Tool.Name)
	if err != nil {
		return tool.Resolved{}, err
	}
	if t, ok := e.tool.(Resolver); ok {
		ctx, end := tool.Isolate(ctx)
		defer end()
		return t.Resolve(ctx, p, plan)
	}
	return tool.Resolved{Act: e.descriptor.Name, What: map[string]any{"arguments": canonical.Digest(p.Input)}}, nil
}

// Frozen reports whether calls are prevented from starting.
func (r *Router) Frozen() bool {
	r.brake.mu.Lock()
	defer r.brake.mu.Unlock()
	return r.brake.frozen
}
