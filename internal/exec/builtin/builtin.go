// Package builtin implements the daemon's own tools: files of a workspace, HTTP, programs and
// shell lines in the sandbox, and two without effect (echo and sleep). They are part of palyrad
// and, like any other tool, run only with a permit. Each tool plans a call without effect and
// then runs exactly that plan.
package builtin

import (
	"context"
	"crypto/x509"
	"time"

	"palyra/internal/core/limit"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/exec/builtin/pure"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/workspace"
	"palyra/internal/exec/workspace/overlay"
)

// Tool is one of this package's tools.
type Tool interface {
	Descriptor() tool.Descriptor
	// Plan determines the effects of a call. It has no effect itself; a refusal is a
	// *reason.Error.
	Plan(ctx context.Context, p tool.Proposal) (tool.Plan, error)
	// Prepare plans the call once more and holds the inspected files open, so that the run
	// matches the plan.
	Prepare(ctx context.Context, p tool.Proposal) (tool.Prepared, error)
}

// Config configures the tools.
type Config struct {
	Workspaces *workspace.Set
	// Runner starts programs; nil means that no sandbox is available, and process.run and
	// shell.run are refused.
	Runner sandbox.Runner
	// Sandbox is the measured status of Runner. If it is not available, both tools refuse calls
	// before any approval is requested.
	Sandbox sandbox.Status
	Process ProcessPolicy
	HTTP    HTTPPolicy
	// Lender provides secrets in addition to the secrets of Process and HTTP; nil means none.
	Lender Lender
	// MaxTimeout is the maximum timeout of a call; 0 is two minutes.
	MaxTimeout time.Duration
	// Version is the daemon's version for reports.
	Version string
}

// ProcessPolicy holds the operator's settings for process.run and shell.run. Its zero value allows
// nothing.
type ProcessPolicy struct {
	Enabled bool
	// AllowedExecutables are base names, which refer to programs of SearchPath, or absolute
	// paths. An empty list allows every program that is not denied.
	AllowedExecutables []string
	// AllowInterpreters allows (true) or refuses (false) interpreters that run files. If it is
	// nil, policy decides on interpreters and shells in a sandbox of Tier C; in other tiers they
	// are refused. In Tier C a shell is treated like a compiler, and a person must approve the
	// call. With true, shells and inline code are still refused. Programs that start others (env,
	// timeout, sudo) are always refused, because rules could not match the started program.
	AllowInterpreters *bool
	Limits            sandbox.Limits
	// SearchPath lists absolute directories for looking up names; an empty list selects the
	// default directories.
	SearchPath []string
	// Toolchains returns the currently installed toolchains outside of the system directories.
	// Their programs are looked up after SearchPath. nil means none.
	Toolchains func() []command.Toolchain
	// Author returns the current author for git commits. nil means none.
	Author func() command.Author
	// Egress is the restriction of the programs' network.
	Egress egress.Mode
	// Reach lists the hosts that programs may reach in the mode egress.Strict. A call may request
	// fewer. In the mode egress.Preflight its rules must allow the hosts that a call names, but
	// nothing enforces them while the program runs.
	Reach egress.Reach
	// Resolver and Interfaces default to the system's.
	Resolver   egress.Resolver
	Interfaces InterfaceLister
	// Required are the sandbox layers without which no program runs.
	Required []string
	// Turns limits the number of programs that run at once, not counting their child processes. nil
	// selects a limit of DefaultConcurrent.
	Turns *limit.Queue
	// Workspaces are the settings of workspaces by name; a missing workspace has the zero value.
	Workspaces map[string]WorkspacePolicy
	// History stores the files that commits replace.
	History overlay.History
	// Caches are the names of tools whose caches are mounted in runs. OpenCaches returns the
	// caches of a workspace and a function that ends their use. Either both are set or neither.
	Caches     []string
	OpenCaches func(workspace string) ([]sandbox.Cache, func(), error)
}

// DefaultConcurrent is the default number of programs that run at once.
const DefaultConcurrent = 32

// WorkspacePolicy configures how programs write to a workspace.
type WorkspacePolicy struct {
	// Direct makes programs write to the workspace itself instead of a copy.
	Direct bool
	// Protected are additional patterns of protected paths (overlay.Config).
	Protected []string
}

// HTTPPolicy holds the operator's settings for http.fetch.
type HTTPPolicy struct {
	// Allowed lists the allowed hosts; an empty list allows every public host. A private address
	// requires a rule that names the address or its block.
	Allowed []egress.Rule
	// Denied takes precedence over Allowed.
	Denied []egress.Rule
	// Gateway is the listener of the gateway, which is never reachable.
	Gateway *egress.Gateway
	// MaxBytes is the maximum size of the response body; 0 is 4 MiB.
	MaxBytes int64
	// Timeout limits one call, redirects included; 0 is 30 s.
	Timeout time.Duration
	// Secrets are the secrets that calls may use by placeholder.
	Secrets []egress.Secret
	// Roots are the trusted certificate authorities; nil selects the system's.
	Roots *x509.CertPool
	// Resolver and Interfaces default to the system's.
	Resolver   egress.Resolver
	Interfaces InterfaceLister
}

// New returns all tools, sorted by name.
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
