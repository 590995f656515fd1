package policyadmin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"palyra/internal/call/policy"
	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/journal"
)

// definition is a tool as defined in this palyrad.
type definition struct {
	tool.Descriptor
	digest string
	// text is the descriptor in canonical JSON.
	text []byte
}

// pin is a stored definition.
type pin struct {
	Pin
	descriptor tool.Descriptor
}

// Pins are the tool definitions that policies were written for. Tools whose current definition
// does not fit the policies are suspended.
type Pins struct {
	store PinStore
	tools Tools
	log   *slog.Logger

	mu sync.Mutex
	// suspended are the suspended tools. A new map replaces it on each change.
	suspended map[string]error
}

// definitions returns the tools of the router, by name, and the pins by tool.
func (p *Pins) definitions(ctx context.Context) ([]definition, map[string]pin, error) {
	list := p.tools.Descriptors()
	now := make([]definition, len(list))
	for i, d := range list {
		text, err := canonical.Marshal(d)
		if err != nil {
			return nil, nil, fmt.Errorf("encoding the definition of %s: %w", d.Name, err)
		}
		now[i] = definition{d, canonical.Digest(text), text}
	}
	stored, err := p.store.Pins(ctx)
	if err != nil {
		return nil, nil, err
	}
	pins := make(map[string]pin, len(stored))
	for _, s := range stored {
		decoded := pin{Pin: s}
		if err := json.Unmarshal(s.Definition, &decoded.descriptor); err != nil {
			return nil, nil, fmt.Errorf("reading the pin of %s: %w", s.Tool, err)
		}
		pins[s.Tool] = decoded
	}
	return now, pins, nil
}

// pinned is a policy set with its tool definitions.
type pinned struct {
	set *policy.Set
	// suspended are the tools whose definitions do not fit the policies, with the error. The set
	// has their old definitions. Tools of a new server, whose error is a leftOut, are not in it.
	suspended map[string]error
}

// leftOut is the cause of a suspension of a tool that has no old definition.
type leftOut struct{ error }

func isLeftOut(cause error) bool { return errors.As(cause, new(leftOut)) }

// builder builds a policy set from tool definitions. Suspended tools exist for the policies,
// but may not be called.
type builder func(tools []tool.Descriptor, suspended map[string]error) (*policy.Set, error)

// choose builds a set from the current definitions. If the policies do not fit a definition
// that changed since it was pinned, the pinned definition is used and the tool is suspended, so
// that one tool does not stop the others. If the policies do not load with the pins either,
// choose returns the first error.
//
// The tools of a new upstream server have no pins. If the policies do not fit them, all tools
// of the server are excluded, as if the server did not exist yet.
func choose(now []definition, pins map[string]pin, inForce *policy.Set, build builder) (pinned, error) {
	set, err := build(resolve(now, pins, nil), nil)
	if err == nil {
		return pinned{set: set}, nil
	}
	units := unfit(now, pins, inForce, err)
	if len(units) == 0 {
		return pinned{}, err
	}
	suspended := make(map[string]error)
	for _, unit := range units {
		maps.Copy(suspended, unit)
	}
	set, pinsErr := build(resolve(now, pins, suspended), suspended)
	if pinsErr != nil {
		return pinned{}, err
	}
	for _, name := range slices.Sorted(maps.Keys(units)) {
		without := maps.Clone(suspended)
		maps.DeleteFunc(without, func(tool string, _ error) bool { return units[name][tool] != nil })
		better, err := build(resolve(now, pins, without), without)
		if err == nil {
			set, suspended = better, without
			continue
		}
		for tool, was := range units[name] {
			if isLeftOut(was) {
				suspended[tool] = leftOut{err}
			} else {
				suspended[tool] = err
			}
		}
	}
	return pinned{set: set, suspended: suspended}, nil
}

// unfit returns the tools that may prevent the policies from loading, with the cause: each
// changed tool separately, and the tools of each new upstream server together.
func unfit(now []definition, pins map[string]pin, inForce *policy.Set, cause error) map[string]map[string]error {
	units := make(map[string]map[string]error)
	servers := newServers(now, pins, inForce)
	for _, d := range now {
		p, pinned := pins[d.Name]
		switch server := serverOf(d); {
		case servers[server]:
			if units[server] == nil {
				units[server] = make(map[string]error)
			}
			units[server][d.Name] = leftOut{cause}
		case pinned && p.Digest != d.digest:
			units[d.Name] = map[string]error{d.Name: cause}
		}
	}
	return units
}

// newServers returns the upstream servers without a tool in force. Before the first set, these
// are the servers whose tools were never in force, or did not fit when they were new.
func newServers(now []definition, pins map[string]pin, inForce *policy.Set) map[string]bool {
	known := make(map[string]bool)
	if inForce != nil {
		for _, d := range inForce.View().Config().Tools {
			known[d.Name] = true
		}
	} else {
		for _, d := range now {
			p, pinned := pins[d.Name]
			known[d.Name] = pinned && p.Refused != d.digest
		}
	}
	servers := make(map[string]bool)
	for _, d := range now {
		if server := serverOf(d); server != "" {
			before, seen := servers[server]
			servers[server] = !known[d.Name] && (before || !seen)
		}
	}
	return servers
}

// serverOf returns the upstream server of a tool, "" for other tools.
func serverOf(d definition) string {
	if d.Executor != tool.MCPUpstream {
		return ""
	}
	server, _, _ := strings.Cut(d.Name, "/")
	return server
}

// resolve uses the pins of the tools in old, excludes the left-out tools, and uses the current
// definitions of all others.
func resolve(now []definition, pins map[string]pin, old map[string]error) []tool.Descriptor {
	list := make([]tool.Descriptor, 0, len(now))
	for _, d := range now {
		switch cause := old[d.Name]; {
		case cause == nil:
			list = append(list, d.Descriptor)
		case !isLeftOut(cause):
			list = append(list, pins[d.Name].descriptor)
		}
	}
	return list
}

type toolPinned struct {
	Tool       string          `json:"tool"`
	Digest     string          `json:"definition_digest"`
	WasDigest  string          `json:"was_definition_digest,omitempty"`
	Definition json.RawMessage `json:"definition"`
}

type toolSuspended struct {
	Tool         string `json:"tool"`
	Digest       string `json:"definition_digest"`
	PinnedDigest string `json:"pinned_definition_digest"`
	Message      string `json:"message"`
}

type toolResumed struct {
	Tool   string `json:"tool"`
	Digest string `json:"definition_digest"`
}

// pinChanges are the rows and events of changed pins.
type pinChanges struct {
	pins   []Pin
	events []event.Draft
}

func (c *pinChanges) note(code event.Code, name string, payload any) error {
	draft, err := event.DraftOf(code, journal.Daemon, name, payload)
	c.events = append(c.events, draft)
	return err
}

// compare adds the row and events of one tool if its definition or state changed.
func (c *pinChanges) compare(d definition, was Pin, refused error) error {
	switch {
	case refused != nil && (was.Refused == d.digest || was.Digest == ""):
		return nil
	case refused != nil:
		was.Refused = d.digest
		c.pins = append(c.pins, was)
		return c.note(event.ToolSuspended, d.Name, toolSuspended{d.Name, d.digest, was.Digest, refused.Error()})
	case was.Digest == d.digest && was.Refused == "":
		return nil
	}
	c.pins = append(c.pins, Pin{Tool: d.Name, Digest: d.digest, Definition: d.text})
	if was.Digest != d.digest {
		if err := c.note(event.ToolPinned, d.Name, toolPinned{d.Name, d.digest, was.Digest, d.text}); err != nil {
			return err
		}
	}
	if was.Refused == "" {
		return nil
	}
	return c.note(event.ToolResumed, d.Name, toolResumed{d.Name, d.digest})
}

// keep makes a choice durable.
func (p *Pins) keep(ctx context.Context, now []definition, pins map[string]pin, chosen pinned) error {
	var changes pinChanges
	for _, d := range now {
		if err := changes.compare(d, pins[d.Name].Pin, chosen.suspended[d.Name]); err != nil {
			return err
		}
	}
	if len(changes.pins) == 0 {
		return nil
	}
	return p.store.PutPins(context.WithoutCancel(ctx), changes.pins, changes.events...)
}

// suspend makes the router refuse the tools, and logs changes.
func (p *Pins) suspend(ctx context.Context, suspended map[string]error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	refusals := make(map[string]*reason.Error, len(suspended))
	for name, cause := range suspended {
		refusals[name] = refusal(name, cause)
		if p.suspended[name] == nil {
			p.log.ErrorContext(ctx, "a tool is suspended; correct the policy and run `palyra policy reload`",
				slog.String("tool", name), slog.String("error", cause.Error()))
		}
	}
	for name := range p.suspended {
		if suspended[name] == nil {
			p.log.InfoContext(ctx, "a suspended tool may be called again", slog.String("tool", name))
		}
	}
	p.suspended = suspended
	p.tools.Suspend(refusals)
}

// refusal returns the error for a call of a suspended tool.
func refusal(name string, cause error) *reason.Error {
	if isLeftOut(cause) {
		server, _, _ := strings.Cut(name, "/")
		return reason.Errorf(reason.ToolSuspended, "tool %s is suspended: the policies do not fit the tools of the new upstream server %s, none of whose tools is available", name, server).
			WithRemedy("Ask an operator to correct what `palyra policy check` names, then `palyra policy reload`.")
	}
	return reason.Errorf(reason.ToolSuspended, "tool %s is suspended: its definition changed, and the policies do not fit the new one", name)
}

// current returns the suspended tools with their errors. The caller MUST NOT change the result.
func (p *Pins) current() map[string]error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.suspended
}

// Suspended lists the suspended tools.
func (p *Pins) Suspended() []string {
	return slices.Sorted(maps.Keys(p.current()))
}
