// Package builtin holds the daemon's own tools: files of a workspace, HTTP,
// programs and lines for a shell in the sandbox, and two that do nothing (echo and sleep). They are part
// of palyrad, and run only by a permit like any other tool. Each is a small type
// that plans a call without effect and then runs exactly what it planned.
package builtin

import (
	"context"
	"crypto/x509"
	"time"

	"palyra/internal/core/limit"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/exec/builtin/pure"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/workspace"
	"palyra/internal/exec/workspace/overlay"
)

// Tool is one of this package's tools.
type Tool interface {
	Descriptor() tool.Descriptor
	// Plan works out what a call would do. It has no effect; a refusal is a
	// *reason.Error.
	Plan(ctx context.Context, p tool.Proposal) (tool.Plan, error)
	// Prepare plans the call once more and holds what it looked at, so that what
	// runs is what was planned.
	Prepare(ctx context.Context, p tool.Proposal) (tool.Prepared, error)
}

// Config is what the tools need.
type Config struct {
	Workspaces *workspace.Set
	// Runner starts programs; nil means that there is no sandbox, and
	// process.run and shell.run are refused.
	Runner sandbox.Runner
	// Sandbox is what a probe of Runner measured. Both are refused, before anybody is
	// asked, when it is not available.
	Sandbox sandbox.Status
	Process ProcessPolicy
	HTTP    HTTPPolicy
	// Lender has secrets beside those of Process and HTTP; nil means none.
	Lender Lender
	// MaxTimeout is the longest that a call may ask for; 0 is two minutes.
	MaxTimeout time.Duration
	// Version is the daemon's version for reports.
	Version string
}

// ProcessPolicy is what the operator allows process.run and shell.run. Its zero value
// allows nothing.
type ProcessPolicy struct {
	Enabled bool
	// AllowedExecutables are base names, which mean programs of SearchPath, or
	// absolute paths. Empty means every program that is not denied.
	AllowedExecutables []string
	// AllowInterpreters lets interpreters run files (true), or refuses them
	// (false). Where it is not set, policy decides on interpreters and shells if
	// the sandbox is of Tier C; elsewhere they are refused.
	AllowInterpreters *bool
	Limits            sandbox.Limits
	// SearchPath lists absolute directories in which names are looked up;
	// empty means the usual ones.
	SearchPath []string
	// Toolchains are what people installed beside the system, as of now; their
	// programs are looked for after those of SearchPath. nil means none.
	Toolchains func() []sandbox.Toolchain
	// Author is whom git names in commits, as of now. nil means nobody.
	Author func() sandbox.Author
	// Egress is how far the network of programs is bounded.
	Egress egress.Mode
	// Reach is what programs may reach in the mode egress.Strict. A call may ask
	// for less of it. In the mode egress.Preflight its rules have to allow the
	// hosts that a call names, and hold nothing while the program runs.
	Reach egress.Reach
	// Resolver and Interfaces are the system's when nil.
	Resolver   egress.Resolver
	Interfaces InterfaceLister
	// Required are layers without which nothing runs.
	Required []string
	// Turns has a place for each program that may run at once, those that a
	// program starts not counted. Nil is DefaultConcurrent places.
	Turns *limit.Queue
	// Workspaces are the settings of workspaces by name; one that is missing has
	// the zero value.
	Workspaces map[string]WorkspacePolicy
	// History keeps what commits replace.
	History overlay.History
	// Caches are the tools whose caches runs see. OpenCaches returns those of a
	// workspace and a function that ends their use; both are empty together.
	Caches     []string
	OpenCaches func(workspace string) ([]sandbox.Cache, func(), error)
}

// DefaultConcurrent is how many programs run at once unless the operator says
// otherwise.
const DefaultConcurrent = 32

// WorkspacePolicy is how programs write to one workspace.
type WorkspacePolicy struct {
	// Direct lets programs write to the files themselves instead of a copy.
	Direct bool
	// Protected are further patterns of protected paths (overlay.Config).
	Protected []string
}

// HTTPPolicy is what the operator allows http.fetch.
type HTTPPolicy struct {
	// Allowed empty means any public host. Private addresses need a rule that
	// names the address or its block.
	Allowed []egress.Rule
	// Denied wins over Allowed.
	Denied []egress.Rule
	// Gateway is never reached.
	Gateway *egress.Gateway
	// MaxBytes bounds the response body; 0 is 4 MiB.
	MaxBytes int64
	// Timeout bounds one call, redirects included; 0 is 30 s.
	Timeout time.Duration
	// Secrets are what calls may use by their placeholders.
	Secrets []egress.Secret
	// Roots are the certificate authorities that are trusted; nil means the
	// system's.
	Roots *x509.CertPool
	// Resolver and Interfaces are the system's when nil.
	Resolver   egress.Resolver
	Interfaces InterfaceLister
}

// New returns all tools in the order of their names.
func New(cfg Config) []Tool {
	cfg = withDefaults(cfg)
	files := files{set: cfg.Workspaces, version: cfg.Version, policies: cfg.Process.Workspaces}
	programs := newProcess(cfg)
	return []Tool{
		pure.Echo{Version: cfg.Version},
		fsList{files}, fsPatch{files}, fsRead{files}, fsSearch{files}, fsWrite{files},
		newFetch(cfg),
		programs,
		listSecrets{lender: cfg.Lender, known: cfg.HTTP.Secrets, version: cfg.Version},
		newShell(programs),
		sleep{version: cfg.Version, most: cfg.MaxTimeout},
	}
}

func withDefaults(cfg Config) Config {
	if cfg.MaxTimeout <= 0 {
		cfg.MaxTimeout = 2 * time.Minute
	}
	return cfg
}
