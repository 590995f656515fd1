// Package catalog makes the tools of installed skills, named SKILL/TOOL. It plans their calls
// from the requests of the manifest and the operator's limits, runs their guests, and answers the
// guests' requests.
//
// Guests make requests with the code of http.fetch (builtin.Fetcher), limited by the grant: a
// second client would have separate rules for redirects, addresses and placeholders. Tools of
// quarantined and disabled skills stay listed, so that policy explains why they do not run. The
// package and its status are checked again when a call is prepared.
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

// Packages provides the installed packages (registry.Registry).
type Packages interface {
	// Load returns the package of a version that may run. It checks the file, its signature, the
	// publisher's key and the status on every call.
	Load(ctx context.Context, skill, version string) (*skill.Package, error)
}

// Config configures the tools.
type Config struct {
	Packages Packages
	Guests   guest.Runner
	// Ready returns the reason why no guest can run, nil if guests can run.
	Ready func() error
	// Limits are the operator's limits. Fuel is the default of a tool, and FuelCeiling the
	// maximum that a tool may request.
	Limits      guest.Limits
	FuelCeiling uint64
	// ModuleBytes is the maximum size of a module.
	ModuleBytes int64
	// Wildcards allows skills to reach more than single hosts.
	Wildcards bool
	// BytesOut is the maximum number of bytes that one call may send.
	BytesOut int64
	Web      Web
	Lender   Lender
	Storage  Storage
	// StorageBytes is the maximum storage of a skill for each user; 0 disables storage.
	StorageBytes int64
	Version      string
	Log          *slog.Logger
}

// Web makes the requests of guests.
type Web interface {
	// Fetch makes one request for a decided call with the rules of http.fetch. If within names
	// hosts, it reaches only these. It uses only the secrets of within, and sends at most the
	// bytes of its budget.
	Fetch(ctx context.Context, c tool.Call, input json.RawMessage, within egress.Reach) tool.Report
}

// Catalog makes tools. It is safe for concurrent use.
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

// checked caches data from a tool's module. The package with the module never changes.
type checked struct {
	mu     sync.Mutex
	module *guest.Module
}

// Tools returns the tools of a skill whose package has the digest.
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

// Unusable returns the reason why no call can run, nil if calls can run.
func (t Tool) Unusable() error { return t.use.Ready() }

// limits returns the limits of the operator or of the manifest, whichever are narrower.
func (t Tool) limits() (guest.Limits, error) {
	l, q := t.use.Limits, t.skill.Quotas
	if t.is.Fuel > 0 {
		l.Fuel = t.is.Fuel
	}
	if l.Fuel > t.use.FuelCeiling {
		return l, reason.Errorf(reason.QuotaExceeded, "%s requests %d units of fuel, but wasm_runtime.fuel_ceiling is %d", t.name(), l.Fuel, t.use.FuelCeiling).
			WithRemedy("Have an operator raise wasm_runtime.fuel_ceiling, or install a version that requests less.")
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

// bounds returns the limits of the tool's module.
func (t Tool) bounds(l guest.Limits) module.Limits {
	s := module.DefaultLimits()
	s.ModuleBytes, s.TableElements, s.MemoryPages = int(t.use.ModuleBytes), uint64(l.TableElements), uint64(l.MemoryBytes)>>16
	return s
}
