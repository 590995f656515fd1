package dispatch

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

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

// Suspended returns the error of a suspended tool, otherwise nil.
func (c *Catalog) Suspended(name string) *reason.Error {
	if suspended := c.suspended.Load(); suspended != nil {
		return (*suspended)[name]
	}
	return nil
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

// Effectless reports whether the named tool is Pure.
func (c *Catalog) Effectless(name string) bool {
	e, known := c.tools.Load().byName[name]
	if !known {
		return false
	}
	_, pure := e.tool.(tool.Pure)
	return pure
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

func (c *Catalog) unknown(name string) error {
	e := reason.Errorf(reason.UnknownTool, "tool %q does not exist", name)
	if near := text.Nearest(name, slices.Sorted(maps.Keys(c.tools.Load().byName))); near != "" {
		return e.WithRemedy("Did you mean %q? List all tools with `palyra tools`.", near)
	}
	return e
}

// Digest returns the digest of a tool's definition, which policies can pin; "" for an unknown
// tool.
func (c *Catalog) Digest(name string) string {
	if e := c.tools.Load().byName[name]; e != nil {
		return e.digest
	}
	return ""
}
