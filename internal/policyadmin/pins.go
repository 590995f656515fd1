package policyadmin

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"palyra/internal/canonical"
	"palyra/internal/event"
	"palyra/internal/journal"
	"palyra/internal/policy"
	"palyra/internal/reason"
	"palyra/internal/tool"
)

// definition is a tool as this palyrad has it.
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

// definitions are the tools of the router, by name, and the pins by tool.
func (p *Admin) definitions(ctx context.Context) ([]definition, map[string]pin, error) {
	list := p.use.Tools.Descriptors()
	now := make([]definition, len(list))
	for i, d := range list {
		text, err := canonical.Marshal(d)
		if err != nil {
			return nil, nil, fmt.Errorf("encoding the definition of %s: %w", d.Name, err)
		}
		now[i] = definition{d, canonical.Digest(text), text}
	}
	stored, err := p.use.Store.Pins(ctx)
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

// pinned is a policy set and the tool definitions that it was built from.
type pinned struct {
	set *policy.Set
	// suspended are the tools whose changed definition the policies do not fit,
	// with what is wrong. Their old definition is in the set.
	suspended map[string]error
}

// builder makes a policy set from tool definitions. The tools in suspended
// exist for the policies, and may not be called.
type builder func(tools []tool.Descriptor, suspended map[string]error) (*policy.Set, error)

// choose builds a set from the definitions as they are now. When the policies
// do not fit one that changed since it was pinned, the pin takes its place and
// the tool is suspended, so that one tool does not keep the others from
// running. Policies that do not load with the pins either are at fault
// themselves.
func choose(now []definition, pins map[string]pin, build builder) (pinned, error) {
	set, err := build(resolve(now, pins, nil), nil)
	if err == nil {
		return pinned{set: set}, nil
	}
	suspended := make(map[string]error)
	for _, d := range now {
		if p, ok := pins[d.Name]; ok && p.Digest != d.digest {
			suspended[d.Name] = err
		}
	}
	if len(suspended) == 0 {
		return pinned{}, err
	}
	set, pinsErr := build(resolve(now, pins, suspended), suspended)
	if pinsErr != nil {
		return pinned{}, err
	}
	for _, name := range slices.Sorted(maps.Keys(suspended)) {
		without := maps.Clone(suspended)
		delete(without, name)
		better, err := build(resolve(now, pins, without), without)
		if err != nil {
			suspended[name] = err
			continue
		}
		set, suspended = better, without
	}
	return pinned{set: set, suspended: suspended}, nil
}

// resolve takes the pins of the tools in old, and what is there now of all
// others.
func resolve(now []definition, pins map[string]pin, old map[string]error) []tool.Descriptor {
	list := make([]tool.Descriptor, 0, len(now))
	for _, d := range now {
		if old[d.Name] == nil {
			list = append(list, d.Descriptor)
		} else {
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

// pinChanges are the rows and events of what changed.
type pinChanges struct {
	pins   []Pin
	events []event.Draft
}

func (c *pinChanges) note(code event.Code, name string, payload any) error {
	draft, err := event.DraftOf(code, journal.Daemon, name, payload)
	c.events = append(c.events, draft)
	return err
}

// compare finds what has to be stored and journaled of one tool; nothing when
// it is as it was.
func (c *pinChanges) compare(d definition, was Pin, refused error) error {
	switch {
	case refused != nil && was.Refused == d.digest:
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

// keepPins makes a choice durable.
func (p *Admin) keepPins(ctx context.Context, now []definition, pins map[string]pin, chosen pinned) error {
	var changes pinChanges
	for _, d := range now {
		if err := changes.compare(d, pins[d.Name].Pin, chosen.suspended[d.Name]); err != nil {
			return err
		}
	}
	if len(changes.pins) == 0 {
		return nil
	}
	return p.use.Store.PutPins(context.WithoutCancel(ctx), changes.pins, changes.events...)
}

// suspend makes the router refuse the tools, and says so when that is new. The
// caller holds p.mu.
func (p *Admin) suspend(ctx context.Context, suspended map[string]error) {
	refusals := make(map[string]*reason.Error, len(suspended))
	for name, cause := range suspended {
		refusals[name] = reason.Errorf(reason.ToolSuspended, "tool %s is suspended: its definition changed, and the policies do not fit the new one", name)
		if p.suspended[name] == nil {
			p.use.Log.ErrorContext(ctx, "a tool is suspended; correct the policy and run `palyra policy reload`",
				slog.String("tool", name), slog.String("error", cause.Error()))
		}
	}
	for name := range p.suspended {
		if suspended[name] == nil {
			p.use.Log.InfoContext(ctx, "a suspended tool may be called again", slog.String("tool", name))
		}
	}
	p.suspended = suspended
	p.use.Tools.Suspend(refusals)
}

// Suspended names the tools that wait for a policy that fits them.
func (p *Admin) Suspended() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.suspended))
}
