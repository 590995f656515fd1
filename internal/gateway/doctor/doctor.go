// Package doctor examines everything that a gateway needs: settings, state
// directory, store, policies, tools, models, sandbox. It does so whether a daemon
// runs or not, and changes nothing.
package doctor

import (
	"context"
	"errors"
	"net"
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

// Exam is one thing that the doctor looked at.
type Exam struct {
	Name string `json:"check"`
	// Result is ok, warning, failed or skipped. A gateway with a failed exam
	// does not start, or lacks something that it is configured for.
	Result string `json:"result"`
	Detail string `json:"detail"`
	Remedy string `json:"remedy,omitempty"`
	// TookMS is in milliseconds.
	TookMS int64 `json:"took_ms"`
}

// finding is what an exam found.
type finding struct{ result, detail, remedy string }

func fine(detail string) finding             { return finding{result: OK, detail: detail} }
func doubtful(detail, remedy string) finding { return finding{Warning, detail, remedy} }
func skipped(detail string) finding          { return finding{result: Skipped, detail: detail} }

// broken is the finding of an error; a reason carries its next step along.
func broken(err error) finding {
	f := finding{result: Failed, detail: err.Error()}
	var known *reason.Error
	if errors.As(err, &known) {
		f.remedy = known.NextStep()
	}
	return f
}

// Config is the gateway that is examined: its settings, and the parts that a
// daemon would be built of.
type Config struct {
	Settings *config.Config
	// Authority opens the certificate authority for reading, and Places says where the
	// keys of the gateway live.
	Authority func() (*ca.Authority, error)
	Places    func(*ca.Authority) []ca.KeyPlace
	// Vault says how the vault's key is, without making or changing anything.
	Vault func(context.Context) (kek.Status, error)
	// OpenStore opens the store for reading.
	OpenStore func(ctx context.Context) (Store, error)
	// Reserve is how much of the disk is held for operators, and how much should
	// be, in bytes.
	Reserve func() (held, size int64, err error)
	Listen  func(ctx context.Context, address, key string) (net.Listener, error)
	// Workspaces says what is wrong with the declared workspaces.
	Workspaces func() error
	// Tools are the definitions of the daemon's own tools.
	Tools func() ([]tool.Descriptor, error)
	// Sandboxes returns the backends that the settings allow, best first; Lowest is
	// the lowest rung of the isolation ladder that they allow.
	Sandboxes func(places.Places) []sandbox.Step
	Lowest    sandbox.Isolation
	// Groups says how a palyrad that is started where the doctor runs would come by
	// control groups for programs, "" where it would not move, and why it would come
	// by none. It moves nothing.
	Groups func(ctx context.Context) (how string, err error)
	// Worker is the path of the program that runs WebAssembly guests, and Guests tries
	// whether it starts in a sandbox, with a directory for what it keeps; it returns its engine.
	Worker func() string
	Guests func(ctx context.Context, tierC sandbox.Runner, dir string) (engine string, err error)
}

// Store is what is read of a store.
type Store interface {
	journal.Source
	access.MemberStore
	Devices(ctx context.Context) ([]identity.Device, error)
	Bindings(ctx context.Context) ([]identity.Binding, error)
	Passkeys(ctx context.Context) ([]passkey.Passkey, error)
	Provenance(ctx context.Context) (provenance.History, error)
	Ceilings(ctx context.Context) ([]policyadmin.Ceiling, error)
	// Older reports whether an older release left the store, which lacks what a start
	// adds.
	Older() bool
	Close(ctx context.Context) error
}

// patient is the examined gateway, with what the exams so far have found out. The
// state directory is only read, but for one file that is written to measure the
// disk and removed again.
type patient struct {
	Config
	// running is true when a daemon holds the state directory.
	running bool
	// made is true when the state directory holds a gateway already.
	made bool
	// chosen is the sandbox of the exam "sandbox", for those of its layers.
	chosen sandbox.Choice
}

// Examine looks at everything that a gateway of this configuration stands on,
// with no daemon or beside one. It changes nothing.
func Examine(ctx context.Context, c Config) []Exam {
	p := &patient{Config: c}
	var exams []Exam
	for _, exam := range []struct {
		name string
		look func(context.Context) finding
	}{
		{"state directory", p.stateDir},
		{"daemon", p.daemon},
		{"disk space", p.space},
		{"disk reserve", p.reserveLeft},
		{"disk writes", p.writes},
		{"keys", p.keys},
		{"key places", p.places},
		{"operator key", p.operatorKey},
		{"dual control", p.dualControl},
		{"presence", p.presence},
		{"vault", p.vault},
		{"journal", p.journal},
		{"restored backup", p.restored},
		{"clock", p.clock},
		{"listen.api", p.apiPort},
		{"listen.metrics", p.metricsPort},
		{"listen.agents", p.agentsPort},
		{"listen.console", p.consolePort},
		{"console.origin", p.consoleOrigin},
		{"workspaces", p.workspaces},
		{"policy", p.policy},
		{"models", p.models},
		{"secrets", p.secrets},
	} {
		exams = append(exams, timed(ctx, exam.name, exam.look))
	}
	return append(exams, p.sandboxes(ctx)...)
}

func timed(ctx context.Context, name string, look func(context.Context) finding) Exam {
	began := time.Now()
	f := look(ctx)
	return Exam{name, f.result, f.detail, f.remedy, time.Since(began).Milliseconds()}
}
