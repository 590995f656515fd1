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
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/change"
	"palyra/internal/core/event"
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
	use       Config
	resolver  *command.Resolver
	processes sync.WaitGroup
	asking    asking
	// watcher is notified of resource changes; it may be nil.
	watcher Watcher

	// keeping makes reading and writing the stored record of a server atomic.
	keeping sync.Mutex
	// changing serializes changes of servers: each rebuilds the policies, which takes a while.
	changing sync.Mutex

	mu      sync.Mutex
	servers map[string]*kept
	slots   map[slotKey]*slot
	closed  bool
}

// kept is the stored record of a server with its current state.
type kept struct {
	declared.Kept

	digest string
	// changes wait for approval.
	changes []declared.Change
	// stale reports that the server announced changes since its last inspection.
	stale bool
	// stray is a log line that its program wrote among its messages, "" for none.
	stray string
	// problem is the reason why the last use failed, nil if it succeeded.
	problem *reason.Error
}

// slotKey identifies a slot by server and owner.
type slotKey struct {
	server string
	owner  access.Principal
}

// slot holds one instance. One goroutine at a time holds the slot.
type slot struct {
	held chan struct{}
	// asking is held by the call that requests approval for the start of the server.
	asking   chan struct{}
	instance *instance
	// current is a copy of instance for readers that do not hold the slot.
	current atomic.Pointer[instance]
	// failures counts the failures since the last success. The server is not retried before
	// until.
	failures int
	until    time.Time
	last     *reason.Error
}

// good reports whether the slot has an instance that a call with launch l can use. The caller
// holds the slot.
func (s *slot) good(l launch) bool {
	in := s.instance
	return in != nil && in.alive() && in.made == l.key() && !in.wroteSince()
}

// set stores an instance in the slot. The caller holds it.
func (s *slot) set(in *instance) {
	s.instance = in
	s.current.Store(in)
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
	return &Manager{use: c, resolver: new(command.Resolver), servers: map[string]*kept{}, slots: map[slotKey]*slot{}}
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
		m.mu.Lock()
		m.servers[k.Server.Name] = one
		m.mu.Unlock()
	}
	m.sweepState()
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
		tools = append(tools, m.starter(s, digest))
	}
	if len(approved.Definitions) > 0 {
		for _, t := range m.passings(s) {
			tools = append(tools, t)
		}
	}
	for _, t := range m.own(s, digest, approved) {
		tools = append(tools, t)
	}
	for _, d := range approved.Definitions {
		if d.Kind != declared.KindTool {
			continue
		}
		t, err := m.describe(s, digest, d)
		if err != nil {
			return err
		}
		tools = append(tools, t)
	}
	return m.use.Router.SetTools(source(s.Name), tools)
}

func source(name string) string { return "upstream server " + name }

// find returns the current record of a server.
func (m *Manager) find(name string) (kept, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, ok := m.servers[name]
	if !ok {
		return kept{}, reason.Errorf(reason.NotFound, "the upstream server %q does not exist", name).WithRemedy("List the servers with `palyra mcp list`.")
	}
	return *k, nil
}

// offers reports whether a server has a tool of that name.
func (m *Manager) offers(server, name string) bool {
	k, err := m.find(server)
	return err == nil && slices.ContainsFunc(slices.Concat(k.Approved.Definitions, k.Seen.Definitions), func(d declared.Definition) bool { return d.Kind == declared.KindTool && d.Name == name })
}

// usable returns the reason why a tool of a server cannot be called, nil if it can.
func (m *Manager) usable(s declared.Server, name string) error {
	k, err := m.find(s.Name)
	if err != nil {
		return err
	}
	if c, is := declared.Suspends(k.changes, name); is {
		return suspended(s.Name+"/"+name, s.Name, c)
	}
	if !s.Remote() {
		return m.Runs()
	}
	return nil
}

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

// launchFor determines the launch of an instance for a call. It starts nothing.
func (m *Manager) launchFor(ctx context.Context, s declared.Server, digest string, p tool.Proposal) (launch, error) {
	l := launch{server: s, digest: digest, owner: p.Caller.Principal, by: p.Caller, mode: sandbox.ReadOnly, root: m.use.Empty}
	if s.Shared {
		l.owner = access.Principal{}
	}
	if !s.Remote() {
		if err := m.local(&l); err != nil {
			return l, err
		}
	}
	var err error
	if l.secrets, err = m.secretsFor(ctx, s, p); err != nil {
		return l, err
	}
	if err := m.injectionsFor(ctx, &l, p); err != nil || s.OAuth == nil {
		return l, err
	}
	if m.use.Logins == nil {
		return l, reason.Errorf(reason.UpstreamLogin, "this gateway cannot log in at upstream servers, and %s requires a login", s.Name)
	}
	l.login, err = m.use.Logins.Ready(ctx, p.Caller, s)
	return l, err
}

// local resolves the program and the workspace.
func (m *Manager) local(l *launch) error {
	s := l.server
	l.chains = m.use.Toolchains()
	search := slices.Clone(m.use.SearchPath)
	for _, chain := range l.chains {
		search = append(search, chain.Bins...)
	}
	if s.Package != nil {
		prefix, err := m.use.Prefixes.Open(s.Name, *s.Package)
		if err != nil {
			return err
		}
		// The program must come from the package, not from a host directory with a program of the
		// same name.
		search = prefix.Bins
		l.chains = append([]command.Toolchain{prefix}, l.chains...)
	}
	l.argv = s.Command
	if s.Workspace == "" {
		return m.outside(l, search)
	}
	root, err := m.use.Workspaces.Open(s.Workspace)
	if err != nil {
		return err
	}
	defer root.Close()
	l.root, l.protected = root.Path(), m.use.Protected[s.Workspace]
	if s.Write && !root.ReadOnly() {
		l.mode = sandbox.CopyOnWrite
	}
	if _, inside := command.Inside(s.Command[0], root.Path(), ""); inside {
		return m.inWorkspace(l, root)
	}
	return m.outside(l, search)
}

// outside resolves a program of the host or of a package.
func (m *Manager) outside(l *launch, search []string) error {
	program, err := m.resolver.ResolveExecutable(l.argv[0], search)
	if _, inside := command.Inside(l.argv[0], "", ""); err != nil && inside && l.server.Workspace == "" {
		return reason.Errorf(reason.SpawnFailed, "the program %q of the upstream server %s is inside a workspace, and the server has none", l.argv[0], l.server.Name).
			WithRemedy("Add the server with --workspace.")
	}
	l.program = program.Executable
	return err
}

// secretsFor returns the secrets of a server that the caller may use: either all of them or an
// error.
func (m *Manager) secretsFor(ctx context.Context, s declared.Server, p tool.Proposal) ([]egress.Secret, error) {
	wanted := s.Placeholders()
	if len(wanted) == 0 {
		return nil, nil
	}
	if m.use.Lender == nil {
		return nil, reason.Errorf(reason.NotFound, "this gateway has no vault, and the upstream server %s requires secrets", s.Name)
	}
	offers, _, err := m.use.Lender.Offers(ctx, p, len(wanted), func(o egress.Secret) bool { return slices.Contains(wanted, o.Name) })
	if err != nil {
		return nil, err
	}
	for _, name := range wanted {
		if !slices.ContainsFunc(offers, func(o egress.Secret) bool { return o.Name == name }) {
			return nil, reason.Errorf(reason.PermissionDenied, "the upstream server %s requires the secret vault://%s, which %s may not use or which does not exist", s.Name, name, p.Caller.Principal).
				WithRemedy("Store it with `palyra vault put %s`, including its hosts and its header, and allow the caller to lease it by policy.", name)
		}
	}
	slices.SortFunc(offers, func(a, b egress.Secret) int { return strings.Compare(a.Name, b.Name) })
	return offers, nil
}

// Run ends idle instances until ctx ends, and then all instances. No call may be in progress
// when ctx ends.
func (m *Manager) Run(ctx context.Context) error {
	ticker := time.NewTicker(m.use.Idle / 4)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			m.sweep(func(in *instance) bool { return in.idleFor(m.use.Idle) && !m.watched(in) })
			m.endOversized()
			continue
		case <-ctx.Done():
		}
		m.mu.Lock()
		m.closed = true
		m.mu.Unlock()
		m.sweep(func(*instance) bool { return true })
		m.processes.Wait()
		return nil
	}
}

// EndIdle ends all instances without a call in progress.
func (m *Manager) EndIdle() {
	m.sweep(func(in *instance) bool { return in.idleFor(0) })
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

// sweep ends the instances that match, except those whose slot is held.
func (m *Manager) sweep(should func(*instance) bool) {
	m.mu.Lock()
	slots := slices.Collect(maps.Values(m.slots))
	m.mu.Unlock()
	var ending sync.WaitGroup
	for _, s := range slots {
		select {
		case s.held <- struct{}{}:
		default:
			continue
		}
		in := s.instance
		if in == nil || !should(in) {
			<-s.held
			continue
		}
		s.set(nil)
		ending.Go(func() {
			in.close(errIdle)
			in.discard()
			<-s.held
		})
	}
	ending.Wait()
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

// EndOf ends the instances of a caller that lost permissions or one of its credentials. These
// instances get no grace period. A shared instance that a call of p started ends after the calls
// of other principals. EndOf does not wait for any instance. Later calls start new instances.
func (m *Manager) EndOf(p access.Principal) (ended []Ended) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.slots {
		in := s.current.Load()
		switch {
		case in == nil || !in.alive():
			continue
		case in.owner == p:
			m.kill(in)
		case in.startedBy == p:
			m.processes.Go(in.retire)
		default:
			continue
		}
		ended = append(ended, Ended{in.server.Name, in.id, in.owner != p})
	}
	return ended
}

// kill ends an instance without a grace period and does not wait for it.
func (m *Manager) kill(in *instance) {
	in.mu.Lock()
	in.over, in.retired = true, true
	in.mu.Unlock()
	if in.pipe == nil {
		m.processes.Go(func() { in.close(errReduced) })
	} else {
		in.stop(errReduced)
	}
}

// drop ends all instances of a server and waits for their calls in progress.
func (m *Manager) drop(ctx context.Context, server string) error {
	m.mu.Lock()
	var slots []*slot
	for k, s := range m.slots {
		if k.server == server {
			slots = append(slots, s)
			delete(m.slots, k)
		}
	}
	m.mu.Unlock()
	for _, s := range slots {
		select {
		case s.held <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if in := s.instance; in != nil {
			s.set(nil)
			in.close(errIdle)
			in.discard()
		}
		<-s.held
	}
	return nil
}

// lookAgain records that a server announced changes. The next call inspects it before it runs.
func (m *Manager) lookAgain(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := m.servers[name]; k != nil {
		k.stale = true
	}
}

// saw compares the definitions of a server with the approved ones and stores them. The first
// definitions of a server are approved implicitly.
func (m *Manager) saw(ctx context.Context, name string, seen declared.Sight, actor string) error {
	m.keeping.Lock()
	defer m.keeping.Unlock()
	k, err := m.find(name)
	if err != nil {
		return err
	}
	now, first := k.Kept, k.SeenAt.IsZero()
	now.Seen, now.SeenAt = seen, time.Now().UTC()
	if first {
		now.Approved, now.ApprovedBy, now.ApprovedAt = seen, actor, now.SeenAt
	}
	if !first && slices.Equal(k.Seen.Unchecked, seen.Unchecked) && slices.EqualFunc(k.Seen.Definitions, seen.Definitions, func(a, b declared.Definition) bool { return a.Key() == b.Key() && a.Digest == b.Digest }) {
		m.noted(name, func(k *kept) { k.stale = false })
		return nil
	}
	draft, err := event.DraftOf(event.UpstreamSeen, actor, name, sighted{
		Server: name, First: first, Changes: notesOf(declared.Differences(k.Seen.Definitions, seen.Definitions)), LeftOut: seen.LeftOut, Unchecked: seen.Unchecked,
	})
	if err != nil {
		return err
	}
	if err := m.use.Store.PutUpstream(context.WithoutCancel(ctx), now, draft); err != nil {
		return err
	}
	m.noted(name, func(k *kept) { k.Kept, k.changes, k.stale = now, now.Pending(), false })
	if changes := now.Pending(); len(changes) > 0 {
		m.use.Log.WarnContext(ctx, "an upstream server changed its definitions: the affected tools are suspended until `palyra mcp approve`",
			slog.String("upstream", name))
	}
	return nil
}

func (m *Manager) noted(name string, note func(*kept)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := m.servers[name]; k != nil {
		note(k)
	}
}

func digestOf(text []byte) string {
	if text == nil {
		return ""
	}
	return canonical.Digest(text)
}
