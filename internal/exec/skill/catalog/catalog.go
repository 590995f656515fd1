// Package catalog makes the tools of installed skills: SKILL/TOOL, as dispatch calls them.
// It plans their calls from what the manifest asks for and the operator allows, has their
// guests run, and answers for what these use.
package catalog

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/exec/skill"
	"palyra/internal/exec/wasm/guest"
	"palyra/internal/exec/wasm/module"
)

// Packages has what is installed (registry.Registry).
type Packages interface {
	// Load returns the package of a version that may run. The file, its signature, the
	// publisher's key and the status were looked at just now.
	Load(ctx context.Context, skill, version string) (*skill.Package, error)
}

// Config is what the tools work with.
type Config struct {
	Packages Packages
	Guests   guest.Runner
	// Ready says why no guest can run at present.
	Ready func() error
	// Limits are the operator's. Fuel is that of a tool which states none, FuelCeiling the
	// most that one may state.
	Limits      guest.Limits
	FuelCeiling uint64
	// ModuleBytes bounds a module.
	ModuleBytes int64
	// Wildcards lets skills have more than single hosts.
	Wildcards bool
	// BytesOut is what one call may send.
	BytesOut int64
	Web      Web
	Lender   Lender
	Storage  Storage
	// StorageBytes is the most that a skill may keep for a user; 0 is nothing.
	StorageBytes int64
	Version      string
	Log          *slog.Logger
}

// Web makes the requests of guests.
type Web interface {
	// Fetch makes one request for a decided call, as http.fetch makes them, to the hosts
	// of within alone if it names some, with its secrets and no others, and sends at most
	// the bytes of its budget.
	Fetch(ctx context.Context, c tool.Call, input json.RawMessage, within egress.Reach) tool.Report
}

// Catalog makes tools. It is safe for use by many goroutines.
type Catalog struct{ use Config }

// New returns a catalog.
func New(c Config) *Catalog { return &Catalog{use: c} }

// Tool is one tool of a skill. It is a tool.Runnable.
type Tool struct {
	use    Config
	skill  *skill.Manifest
	is     skill.Tool
	digest string
	output *tool.Schema
	module *checked
}

// checked is what was read of a tool's module: the package that has it never changes.
type checked struct {
	mu     sync.Mutex
	module *guest.Module
}

// Tools are the tools of a skill whose package has the digest.
func (c *Catalog) Tools(m *skill.Manifest, digest string) ([]Tool, error) {
	var list []Tool
	for _, is := range m.Tools {
		t := Tool{use: c.use, skill: m, is: is, digest: digest, module: &checked{}}
		if text := is.OutputSchema(); text != nil {
			var err error
			if t.output, err = tool.CompileSchema(text); err != nil {
				return nil, fmt.Errorf("the output schema of %s: %w", t.name(), err)
			}
		}
		list = append(list, t)
	}
	return list, nil
}

func (t Tool) name() string { return t.skill.ID + "/" + t.is.ID }

// Descriptor implements tool.Runnable.
func (t Tool) Descriptor() tool.Descriptor {
	asked := t.is.Capabilities
	d := tool.Descriptor{
		Name: t.name(), Title: t.skill.Name + ": " + t.is.ID, Description: t.is.Description, InputSchema: t.is.InputSchema(),
		Capabilities: []tool.Capability{}, Executor: tool.TierAWasmtime, Skill: t.skill.ID,
		ReadOnly:  len(asked.HTTP) == 0 && len(asked.Channels) == 0 && asked.StorageBytes == 0,
		OpenWorld: len(asked.HTTP) > 0, Destructive: len(asked.HTTP) > 0,
	}
	if len(asked.HTTP) > 0 {
		d.Capabilities = append(d.Capabilities, tool.Network)
	}
	if len(asked.Secrets) > 0 {
		d.Capabilities = append(d.Capabilities, tool.SecretsRead)
	}
	if len(asked.Channels) > 0 {
		d.Capabilities = append(d.Capabilities, tool.ChannelSend)
	}
	return d
}

// Unusable says why no call can run at present.
func (t Tool) Unusable() error { return t.use.Ready() }

// limits are those of the operator and of the manifest, whichever are narrower.
func (t Tool) limits() (guest.Limits, error) {
	l, q := t.use.Limits, t.skill.Quotas
	if t.is.Fuel > 0 {
		l.Fuel = t.is.Fuel
	}
	if l.Fuel > t.use.FuelCeiling {
		return l, reason.Errorf(reason.QuotaExceeded, "%s asks for %d of fuel, and wasm_runtime.fuel_ceiling is %d", t.name(), l.Fuel, t.use.FuelCeiling).
			WithRemedy("Have an operator raise wasm_runtime.fuel_ceiling, or install a version that asks for less.")
	}
	if q.MemoryBytes > 0 {
		l.MemoryBytes = min(l.MemoryBytes, q.MemoryBytes)
	}
	if q.WallMillis > 0 {
		l.Wall = min(l.Wall, time.Duration(q.WallMillis)*time.Millisecond)
	}
	if q.OutputBytes > 0 {
		l.Output = int(min(int64(l.Output), q.OutputBytes))
	}
	return l, nil
}

// bounds are those of the tool's module.
func (t Tool) bounds(l guest.Limits) module.Limits {
	s := module.DefaultLimits()
	s.ModuleBytes, s.TableElements, s.MemoryPages = int(t.use.ModuleBytes), uint64(l.TableElements), uint64(l.MemoryBytes)>>16
	return s
}
