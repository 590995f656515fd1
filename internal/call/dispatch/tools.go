package dispatch

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// SetTools replaces all tools of one source, such as an upstream server, atomically; an empty
// list removes them. After an error nothing is changed. The caller must rebuild the policies
// (policyadmin.Rebuild): a tool that they do not include is denied.
func (c *Catalog) SetTools(source string, tools []tool.Runnable) error {
	list := make([]*entry, 0, len(tools))
	for _, t := range tools {
		e, err := entryOf(t)
		if err != nil {
			return err
		}
		list = append(list, e)
	}
	c.setting.Lock()
	defer c.setting.Unlock()
	all := &toolset{revision: c.Revision() + 1, byName: make(map[string]*entry)}
	sources := maps.Clone(c.sources)
	if sources[source] = list; len(list) == 0 {
		delete(sources, source)
	}
	for _, entries := range sources {
		for _, e := range entries {
			if _, taken := all.byName[e.descriptor.Name]; taken {
				return fmt.Errorf("two tools are named %q; rename one", e.descriptor.Name)
			}
			all.byName[e.descriptor.Name] = e
			all.sorted = append(all.sorted, e.descriptor)
		}
	}
	slices.SortFunc(all.sorted, func(a, b tool.Descriptor) int { return strings.Compare(a.Name, b.Name) })
	c.sources = sources
	c.tools.Store(all)
	return nil
}

func entryOf(t tool.Runnable) (*entry, error) {
	d := t.Descriptor()
	digest, err := d.Digest()
	if err != nil {
		return nil, fmt.Errorf("tool %q: %w", d.Name, err)
	}
	schema, err := d.CompileInput()
	if err != nil {
		return nil, fmt.Errorf("tool %q: input schema: %w", d.Name, err)
	}
	return &entry{tool: t, descriptor: d, digest: digest, schema: schema}, nil
}

// Descriptors lists all tools by name. The caller owns the list.
func (c *Catalog) Descriptors() []tool.Descriptor { return slices.Clone(c.tools.Load().sorted) }

// Descriptor finds one tool by its name.
func (c *Catalog) Descriptor(name string) (tool.Descriptor, bool) {
	e, ok := c.tools.Load().byName[name]
	if !ok {
		return tool.Descriptor{}, false
	}
	return e.descriptor, true
}

// Revision changes whenever the tools change. A caller that caches data derived from
// Descriptors must read Revision first.
func (c *Catalog) Revision() uint64 {
	if all := c.tools.Load(); all != nil {
		return all.revision
	}
	return 0
}

// Suspend prevents calls of the named tools, each with the error for its callers, and allows
// all others. It replaces the previous suspensions.
func (c *Catalog) Suspend(tools map[string]*reason.Error) {
	tools = maps.Clone(tools)
	c.suspended.Store(&tools)
}

// Unusable returns the reason why calls of the named tool cannot run at present: it is
// suspended, or the tool reports an error. It returns nil for usable tools.
func (c *Catalog) Unusable(name string) error {
	e, err := c.find(name)
	if err != nil {
		return err
	}
	if t, ok := e.tool.(interface{ Unusable() error }); ok {
		return t.Unusable()
	}
	return nil
}

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

// New returns a router. It fails if cfg is not valid, two tools have the same name, or a schema
// does not compile.
func New(cfg Config) (*Router, error) {
	if cfg.Snapshot == nil || cfg.Timeout <= 0 {
		return nil, errors.New("dispatch needs a snapshot function and a positive timeout")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	r := &Router{Catalog: Catalog{sources: make(map[string][]*entry)}, snapshot: cfg.Snapshot, timeout: cfg.Timeout, log: cfg.Log}
	if err := r.SetTools("", cfg.Tools); err != nil {
		return nil, err
	}
	return r, nil
}
