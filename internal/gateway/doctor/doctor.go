// Package doctor examines the requirements of a gateway: settings, state directory, store,
// policies, tools, models, sandbox. It works with or without a running daemon, and changes nothing.
package doctor

import (
	"context"
	"errors"
	"net"
	"runtime"
	"time"

	"palyra/internal/call/policyadmin"
	"palyra/internal/core/access"
	"palyra/internal/core/config"
	"palyra/internal/core/provenance"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/journal"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/places"
	"palyra/internal/identity"
	"palyra/internal/identity/ca"
	"palyra/internal/identity/passkey"
	"palyra/internal/vault/kek"
)

// The results of an examination.
const (
	OK      = "ok"
	Warning = "warning"
	Failed  = "failed"
	Skipped = "skipped"
)

// Check is the result of one examination.
type Check struct {
	Name string `json:"check"`
	// Result is ok, warning, failed or skipped. A gateway with a failed check does not start, or
	// lacks a configured feature.
	Result string `json:"result"`
	Detail string `json:"detail"`
	Remedy string `json:"remedy,omitempty"`
	// TookMS is in milliseconds.
	TookMS int64 `json:"took_ms"`
}

// finding is the result of an examination.
type finding struct{ result, detail, remedy string }

func fine(detail string) finding             { return finding{result: OK, detail: detail} }
func doubtful(detail, remedy string) finding { return finding{Warning, detail, remedy} }
func skipped(detail string) finding          { return finding{result: Skipped, detail: detail} }

// broken returns the finding for an error, with the next step of a reason as its remedy.
func broken(err error) finding {
	f := finding{result: Failed, detail: err.Error()}
	var known *reason.Error
	if errors.As(err, &known) {
		f.remedy = known.NextStep()
	}
	return f
}

// Config is the examined gateway: its settings, and the parts that a daemon would be built from.
type Config struct {
	Settings *config.Config
	// Authority opens the certificate authority for reading, and Places returns the locations of
	// the gateway's keys.
	Authority func() (*ca.Authority, error)
	Places    func(*ca.Authority) []ca.KeyPlace
	// Vault returns the state of the vault's key, without creating or changing anything.
	Vault func(context.Context) (kek.Status, error)
	// OpenStore opens the store for reading.
	OpenStore func(ctx context.Context) (Store, error)
	// Schema returns the schema version of the store, 0 for none, and the version that this palyrad
	// writes.
	Schema func() (have, newest int, err error)
	// Reserve returns the current and the configured disk reserve for operators, in bytes.
	Reserve func() (held, size int64, err error)
	Listen  func(ctx context.Context, address, key string) (net.Listener, error)
	// Workspaces returns the defects of the declared workspaces.
	Workspaces func() error
	// Tools are the definitions of the daemon's own tools.
	Tools func() ([]tool.Descriptor, error)
	// Sandboxes returns the backends that the settings allow, best first; Lowest is
	// the lowest rung of the isolation ladder that they allow.
	Sandboxes func(places.Places) []sandbox.Step
	Lowest    sandbox.Isolation
	// Groups describes how a palyrad started in the doctor's place would obtain control groups for
	// programs. how is "" if it would not move; err is the reason why it would obtain none. Groups
	// moves nothing.
	Groups func(ctx context.Context) (how string, err error)
	// Worker returns the path of the program that runs WebAssembly guests. Guests tests whether it
	// starts in a sandbox, with a directory for its files; it returns its engine.
	Worker func() string
	Guests func(ctx context.Context, tierC sandbox.Runner, dir string) (engine string, err error)
}

// Store is the part of a store that the doctor reads.
type Store interface {
	journal.Source
	access.MemberStore
	Devices(ctx context.Context) ([]identity.Device, error)
	Bindings(ctx context.Context) ([]identity.Binding, error)
	Passkeys(ctx context.Context) ([]passkey.Passkey, error)
	Provenance(ctx context.Context) (provenance.History, error)
	Ceilings(ctx context.Context) ([]policyadmin.Ceiling, error)
	Close(ctx context.Context) error
}

// subject is the examined state directory, with the results of the exams so far. It is only
// read, except for one file that is written to measure the disk and then removed.
type subject struct {
	Config
	// running is true when a daemon holds the state directory.
	running bool
	// made is true if the state directory already contains a gateway.
	made bool
}

// Examine checks every requirement of a gateway with this configuration, with or without a running
// daemon. It changes nothing.
func Examine(ctx context.Context, c Config) []Check {
	p, members, declared := &subject{Config: c}, people{c}, settings{c}
	var exams []Check
	for _, exam := range []struct {
		name string
		look func(context.Context) finding
	}{
		{"platform", func(context.Context) finding { return platformFinding(runtime.GOOS, runtime.GOARCH) }},
		{"state directory", p.stateDir},
		{"daemon", p.daemon},
		{"disk space", p.space},
		{"disk reserve", p.reserveLeft},
		{"disk writes", p.writes},
		{"keys", p.keys},
		{"key places", p.places},
		{"operator key", p.operatorKey},
		{"dual control", members.dualControl},
		{"presence", members.presence},
		{"vault", p.vault},
		{"journal", p.journal},
		{"restored backup", p.restored},
		{"clock", p.clock},
		{"listen.api", p.port("listen.api", c.Settings.Listen.API)},
		{"listen.metrics", p.port("listen.metrics", c.Settings.Listen.Metrics)},
		{"listen.agents", p.port("listen.agents", c.Settings.Listen.Agents)},
		{"listen.console", p.port("listen.console", c.Settings.Listen.Console)},
		{"console.origin", members.consoleOrigin},
		{"workspaces", declared.workspaces},
		{"policy", declared.policy},
		{"models", declared.models},
		{"secrets", declared.secrets},
	} {
		exams = append(exams, timed(ctx, exam.name, exam.look))
	}
	s := &sandboxes{Config: c, running: p.running}
	return append(exams, s.examine(ctx)...)
}

func timed(ctx context.Context, name string, look func(context.Context) finding) Check {
	began := time.Now()
	f := look(ctx)
	return Check{name, f.result, f.detail, f.remedy, time.Since(began).Milliseconds()}
}
