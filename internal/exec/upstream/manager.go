// Package upstream puts the tools of other MCP servers behind the gateway. It starts or dials the
// servers, pins their definitions, and runs their calls like any other executor. The statements
// of a server are claims: they never loosen a policy unless an operator marked the server as
// trusted.
//
// A server that wrote to its workspace is ended before its changes are judged. Freezing it
// would not be sufficient: the directory below a mounted overlay must not change, so the server
// could not get a new layer.
//
// The state directory of a server is not its HOME. Node and Python load code from a home
// directory, so code that a compromised server wrote there would run at each start. Each
// principal has a state directory and a process of its own.
//
// A shared server outlives the caller whose call started it: it has no credentials of that caller,
// and ending it would fail the calls of others.
package upstream

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/change"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/upstream/declared"
	"palyra/internal/exec/upstream/oauth"
	"palyra/internal/exec/workspace"
	"palyra/internal/exec/workspace/overlay"
	"palyra/internal/vault"
)

// Router registers the tools that can be called.
type Router interface {
	SetTools(source string, tools []tool.Runnable) error
	// Suspended returns the reason why the policies block a tool, nil if they do not.
	Suspended(name string) *reason.Error
}

// Policies are rebuilt after the tools change.
type Policies interface {
	Rebuild(ctx context.Context, actor string) error
}

// Runner runs programs in a sandbox and reports its current capabilities.
type Runner interface {
	sandbox.Runner
	Status() sandbox.Status
}

// Lender lends vault secrets to calls (builtin.Lender).
type Lender interface {
	Offers(ctx context.Context, p tool.Proposal, limit int, wanted func(egress.Secret) bool) (list []egress.Secret, more bool, err error)
	Lend(c tool.Call, offers []egress.Secret) (lent []egress.Secret, end func())
	Injectable(ctx context.Context, p tool.Proposal, name string) (tool.Injection, error)
	// InjectUntil leases secrets to a program that outlives the call which starts it.
	InjectUntil(ctx context.Context, c tool.Call, list []tool.Injection, program string, until time.Time, over func()) (values [][]byte, end func(), err error)
}

// Logins are the gateway's logins at upstream servers (oauth.Service).
type Logins interface {
	// Ready returns an error early if the login is missing. Use lends a login to a call.
	Ready(ctx context.Context, c access.Caller, server declared.Server) (vault.Ref, error)
	Use(ctx context.Context, c access.Caller, server declared.Server, call string, rejected int) (*oauth.Login, error)
}

// Prefixes are the packages installed for servers (packages.Service).
type Prefixes interface {
	Find(server, digest string) (declared.Package, error)
	// Open returns the mounts of a prefix for a sandbox.
	Open(server string, p declared.Package) (command.Toolchain, error)
	// Check returns an error if the content of a prefix differs from the installation.
	Check(server string, p declared.Package) error
	// Keep removes all prefixes of a server except the given ones.
	Keep(server string, digests ...string) error
}

// Config configures a Manager.
type Config struct {
	Store Store
	// Guard permits changes that require two people; nil permits none of them.
	Guard    change.Guard
	Router   Router
	Policies Policies
	Lender   Lender
	// Standing returns an error if a caller is suspended or no longer valid. The pipeline uses
	// the same check.
	Standing func(access.Caller) error
	// Logins are the gateway's logins at servers; nil for none.
	Logins Logins
	// Prefixes are the packages installed for servers; nil for none.
	Prefixes Prefixes
	// Runner starts the programs of servers. They require Tier C; without it such servers are
	// unavailable.
	Runner Runner
	// Enabled is the setting process_runner.enabled.
	Enabled bool
	// SearchPath, Toolchains, Limits and Required are the settings of process.run.
	SearchPath []string
	Toolchains func() []command.Toolchain
	Limits     sandbox.Limits
	Required   []string
	Workspaces *workspace.Set
	// Protected are additional patterns of protected paths, by workspace.
	Protected map[string][]string
	History   overlay.History
	// State is the parent of the programs' state directories, "" for none. StateLimit is the
	// maximum size of each in bytes, 0 for no limit.
	State      string
	StateLimit int64
	// Empty is the empty directory that programs without a workspace get.
	Empty string
	// Denied are the hosts that no URL may lead to, regardless of who added it.
	Denied []egress.Rule
	// OwnHosts are names and addresses of the gateway. Pages that servers ask users to open must
	// not be there.
	OwnHosts []string
	// Gateway is the listener of the gateway. A server must not be this listener, and must not
	// reach it.
	Gateway *egress.Gateway
	// Roots, Resolver and Interfaces default to the system's.
	Roots      *x509.CertPool
	Resolver   egress.Resolver
	Interfaces func() ([]netip.Addr, error)
	// Idle is how long an instance may be unused, 10 minutes by default. ConnectTime is the
	// timeout of the first answer, 30 seconds by default.
	Idle, ConnectTime time.Duration
	// LingerTime is how long the stream of an answer stays open after its call has returned, so
	// that its connection can be reused. The default is 100 ms.
	LingerTime time.Duration
	Version    string
	Log        *slog.Logger
}

// mostServers is the maximum number of servers, and mostInstances of the instances of all
// servers.
const (
	mostServers   = 64
	mostInstances = 64
)

// Manager manages the upstream servers of a gateway.
type Manager struct {
	use      *Config
	catalog  *catalog
	launcher launcher
	Pool     *Pool
	asker    *asker
	watchers *watchers
	states   states

	// changing serializes changes of servers: each rebuilds the policies, which takes a while.
	changing sync.Mutex
}

// New returns a Manager without servers; Load adds them.
func New(c Config) *Manager {
	if c.Idle <= 0 {
		c.Idle = 10 * time.Minute
	}
	if c.ConnectTime <= 0 {
		c.ConnectTime = connectTime
	}
	if c.LingerTime <= 0 {
		c.LingerTime = lingerTime
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Toolchains == nil {
		c.Toolchains = func() []command.Toolchain { return nil }
	}
	if len(c.SearchPath) == 0 {
		c.SearchPath = command.SearchPath()
	}
	m := &Manager{
		use: &c, catalog: &catalog{store: c.Store, log: c.Log, servers: map[string]*kept{}}, launcher: launcher{&c, new(command.Resolver)},
		asker: &asker{ownHosts: c.OwnHosts, log: c.Log}, states: states{c.State, c.StateLimit},
	}
	m.watchers = &watchers{catalog: m.catalog}
	m.Pool = &Pool{
		starter:  &starter{use: &c, catalog: m.catalog, asker: m.asker, watchers: m.watchers, states: m.states},
		standing: c.Standing, slots: map[slotKey]*slot{},
	}
	return m
}

// Load reads the servers from the store and registers their approved tools. It must run before
// policies load, because policies may name these tools. It connects to no server.
func (m *Manager) Load(ctx context.Context) error {
	list, err := m.use.Store.Upstreams(ctx)
	if err != nil {
		return err
	}
	for _, k := range list {
		digest, err := k.Server.Digest()
		if err != nil {
			return err
		}
		one := &kept{Kept: k, digest: digest, changes: k.Pending()}
		if err := m.setTools(one.Server, one.Approved); err != nil {
			return fmt.Errorf("the tools of the upstream server %s: %w", k.Server.Name, err)
		}
		m.catalog.put(one)
	}
	m.states.sweep(m.use.Log, func(server string) bool { _, err := m.catalog.find(server); return err == nil })
	return nil
}

// setTools registers the approved tools of a server with the router.
func (m *Manager) setTools(s declared.Server, approved declared.Sight) error {
	digest, err := s.Digest()
	if err != nil {
		return err
	}
	var tools []tool.Runnable
	if len(s.Inject) > 0 {
		tools = append(tools, startTool(m, s, digest))
	}
	if len(approved.Definitions) > 0 {
		for _, t := range passings(m, s) {
			tools = append(tools, t)
		}
	}
	for _, t := range ownTools(m, s, digest, approved) {
		tools = append(tools, t)
	}
	for _, d := range approved.Definitions {
		if d.Kind != declared.KindTool {
			continue
		}
		t, err := describedTool(m, s, digest, d)
		if err != nil {
			return err
		}
		tools = append(tools, t)
	}
	return m.use.Router.SetTools(source(s.Name), tools)
}

func source(name string) string { return "upstream server " + name }

// Runs returns the reason why programs of servers cannot run here, nil if they can.
func (m *Manager) Runs() error {
	if !m.use.Enabled || m.use.Runner == nil {
		return reason.Errorf(reason.SandboxDisabled, "running programs is disabled (process_runner.enabled), and this upstream server is a program")
	}
	status := m.use.Runner.Status()
	switch {
	case !status.Available:
		return reason.Errorf(reason.SandboxUnavailable, "the sandbox of the upstream server is not available: %s", status.Problem).WithRemedy("%s", status.Remedy)
	case status.Tier != sandbox.TierC:
		return reason.Errorf(reason.SandboxUnavailable, "programs of upstream servers require Tier C, and this machine provides Tier %s", status.Tier).
			WithRemedy("Install bubblewrap and allow user namespaces (`palyrad doctor`), or run the server elsewhere and add it by its URL.")
	}
	if missing := status.Lacking(m.use.Required); len(missing) > 0 {
		return reason.Errorf(reason.SandboxUnavailable, "the machine lacks layers that the settings require: %s", strings.Join(missing, ", "))
	}
	return nil
}

// Run ends idle instances until ctx ends, and then all instances. No call may be in progress
// when ctx ends.
func (m *Manager) Run(ctx context.Context) error {
	ticker := time.NewTicker(m.use.Idle / 4)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			m.Pool.sweep(func(in *instance) bool { return in.idleFor(m.use.Idle) && !m.watchers.watched(in) })
			m.Pool.endOversized()
			continue
		case <-ctx.Done():
		}
		m.Pool.close()
		return nil
	}
}

// Notices returns the warnings about servers for operators.
func (m *Manager) Notices() (list []string) {
	for _, s := range m.List() {
		name := s.Server.Name
		if s.Problem != "" {
			list = append(list, "the upstream server "+name+" is not available: "+firstLine(s.Problem)+"; see `palyra mcp show "+name+"`")
		}
		if n := len(s.Changes); n > 0 {
			list = append(list, fmt.Sprintf("the definitions of the upstream server %s differ from the approved ones (%s), and the affected tools are suspended: see `palyra mcp show %s`, then `palyra mcp approve %s`", name, text.Plural(n, "definition"), name, name))
		}
	}
	return list
}

// firstLine removes the findings that follow the message of a policy load error.
func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

var errIdle = errors.New("the server was idle")

// errReduced ends the instances of a caller that lost permissions.
var errReduced = errors.New("the owner of the instance lost permissions")

// Ended describes an instance that EndOf ended.
type Ended struct {
	Server   string `json:"server"`
	Instance string `json:"instance"`
	// Shared is true for an instance that ends after the calls of other principals.
	Shared bool `json:"shared,omitempty"`
}

func digestOf(text []byte) string {
	if text == nil {
		return ""
	}
	return canonical.Digest(text)
}
