// Package upstream puts the tools of other MCP servers behind the gateway: it starts
// or dials them, pins what they say about themselves, and runs calls of them as an
// executor like any other. What such a server says is a claim: it never loosens a
// policy unless an operator marked the server as trusted.
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
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/upstream/declared"
	"palyra/internal/exec/upstream/oauth"
	"palyra/internal/exec/workspace"
	"palyra/internal/exec/workspace/overlay"
	"palyra/internal/vault"
)

// Router has the tools that may be called.
type Router interface {
	SetTools(source string, tools []tool.Runnable) error
	// Suspended says why the policies keep a tool from being called, nil where they do not.
	Suspended(name string) *reason.Error
}

// Policies are made anew when the tools changed.
type Policies interface {
	Rebuild(ctx context.Context, actor string) error
}

// Runner runs programs in a sandbox, and says what it can do at present.
type Runner interface {
	sandbox.Runner
	Status() sandbox.Status
}

// Lender lends secrets of the vault to calls (builtin.Lender).
type Lender interface {
	Offers(ctx context.Context, p tool.Proposal, limit int, wanted func(egress.Secret) bool) (list []egress.Secret, more bool, err error)
	Lend(c tool.Call, offers []egress.Secret) (lent []egress.Secret, end func())
	Injectable(ctx context.Context, p tool.Proposal, name string) (tool.Injection, error)
	// InjectUntil leases secrets to a program that outlives the call which starts it.
	InjectUntil(ctx context.Context, c tool.Call, list []tool.Injection, program string, until time.Time, over func()) (values [][]byte, end func(), err error)
}

// Logins are the gateway's logins at upstream servers (oauth.Service).
type Logins interface {
	// Ready says early that nobody logged in, and Use lends a login to a call.
	Ready(ctx context.Context, c access.Caller, server declared.Server) (vault.Ref, error)
	Use(ctx context.Context, c access.Caller, server declared.Server, call string, rejected int) (*oauth.Login, error)
}

// Prefixes are what was installed for servers (packages.Service).
type Prefixes interface {
	Find(server, digest string) (declared.Package, error)
	// Open is what a sandbox shows of a prefix.
	Open(server string, p declared.Package) (sandbox.Toolchain, error)
	// Check refuses a prefix that is not what was installed.
	Check(server string, p declared.Package) error
	// Keep removes all prefixes of a server but those that are named.
	Keep(server string, digests ...string) error
}

// Config is what a Manager works with.
type Config struct {
	Store    Store
	Router   Router
	Policies Policies
	Lender   Lender
	// Standing says why a caller may not go on, as it does to the pipeline.
	Standing func(access.Caller) error
	// Logins are the gateway's logins at servers; nil for none.
	Logins Logins
	// Prefixes are what was installed for servers; nil for none.
	Prefixes Prefixes
	// Runner starts the programs of servers. They need Tier C; without it such
	// servers are unavailable.
	Runner Runner
	// Enabled is the setting process_runner.enabled.
	Enabled bool
	// SearchPath, Toolchains, Limits and Required are those of process.run.
	SearchPath []string
	Toolchains func() []sandbox.Toolchain
	Limits     sandbox.Limits
	Required   []string
	Workspaces *workspace.Set
	// Protected are further patterns of protected paths, by workspace.
	Protected map[string][]string
	History   overlay.History
	// State is the directory below which programs keep state, "" for none, and StateLimit
	// how many bytes each may have there, 0 for any number.
	State      string
	StateLimit int64
	// Empty is an empty directory that programs without a workspace see.
	Empty string
	// Denied are the hosts that no URL may lead to, whoever added it.
	Denied []egress.Rule
	// OwnHosts are names and addresses of the gateway: no server sends anybody there.
	OwnHosts []string
	// Gateway is where the gateway itself listens, which no server is and reaches.
	Gateway *egress.Gateway
	// Roots, Resolver and Interfaces are the system's when nil.
	Roots      *x509.CertPool
	Resolver   egress.Resolver
	Interfaces func() ([]netip.Addr, error)
	// Idle is how long an instance that nobody calls goes on, ConnectTime how long
	// one may take to answer for the first time. 0 is 10 minutes and 30 seconds.
	Idle, ConnectTime time.Duration
	// LingerTime is how long the stream of an answer stays open after its call has
	// returned, so that its connection can be used again. 0 is 100 ms.
	LingerTime time.Duration
	Version    string
	Log        *slog.Logger
}

// mostServers is how many servers there may be, and mostInstances how many instances
// of all of them together.
const (
	mostServers   = 64
	mostInstances = 64
)

// Manager has the upstream servers of a gateway.
type Manager struct {
	use       Config
	resolver  *sandbox.Resolver
	processes sync.WaitGroup
	asking    asking
	// watcher hears of resources; nil hears nothing.
	watcher Watcher

	// keeping lets what is kept of a server be read and written as one.
	keeping sync.Mutex
	// changing lets one change of servers happen at a time: it has the policies made
	// anew, which takes a while.
	changing sync.Mutex

	mu      sync.Mutex
	servers map[string]*kept
	slots   map[slotKey]*slot
	closed  bool
}

// kept is a server with what is known of it at present.
type kept struct {
	declared.Kept

	digest string
	// changes are what waits for somebody to approve it.
	changes []declared.Change
	// stale says that the server told of changes since it was looked at.
	stale bool
	// stray is a line of a log that its program wrote among its messages, "" for none.
	stray string
	// problem is why it was of no use when it was needed last, nil if it was.
	problem *reason.Error
}

// slotKey is whose instance of which server.
type slotKey struct {
	server string
	owner  access.Principal
}

// slot is the place of one instance. One goroutine at a time has it.
type slot struct {
	held chan struct{}
	// asking is held by who has people asked whether the server may start.
	asking   chan struct{}
	instance *instance
	// current is instance for those who only look.
	current atomic.Pointer[instance]
	// failures counts those since the last success; until then nobody tries again.
	failures int
	until    time.Time
	last     *reason.Error
}

// good reports whether there is an instance that a call can use which needs one made of
// l. The caller holds the slot.
func (s *slot) good(l launch) bool {
	in := s.instance
	return in != nil && in.alive() && in.made == l.key() && !in.wroteSince()
}

// set puts an instance into the slot. The caller holds it.
func (s *slot) set(in *instance) {
	s.instance = in
	s.current.Store(in)
}

// New returns a Manager without servers; Load reads them.
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
		c.Toolchains = func() []sandbox.Toolchain { return nil }
	}
	if len(c.SearchPath) == 0 {
		c.SearchPath = sandbox.SearchPath()
	}
	return &Manager{use: c, resolver: new(sandbox.Resolver), servers: map[string]*kept{}, slots: map[slotKey]*slot{}}
}

// Load reads the servers and sets their tools as they were approved, before policies
// are loaded: these may name them. No server is reached for that.
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

// setTools gives the router the tools of a server as they were approved.
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

// find returns a server as it is now.
func (m *Manager) find(name string) (kept, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, ok := m.servers[name]
	if !ok {
		return kept{}, reason.Errorf(reason.NotFound, "there is no upstream server %q", name).WithRemedy("`palyra mcp list` shows those that there are.")
	}
	return *k, nil
}

// offers reports whether a server has a tool of that name.
func (m *Manager) offers(server, name string) bool {
	k, err := m.find(server)
	return err == nil && slices.ContainsFunc(slices.Concat(k.Approved.Definitions, k.Seen.Definitions), func(d declared.Definition) bool { return d.Kind == declared.KindTool && d.Name == name })
}

// usable is why a tool of a server cannot be called, nil when it can.
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

// Runs is why no program of a server can run here.
func (m *Manager) Runs() error {
	if !m.use.Enabled || m.use.Runner == nil {
		return reason.Errorf(reason.SandboxDisabled, "running programs is switched off, and this upstream server is one")
	}
	status := m.use.Runner.Status()
	switch {
	case !status.Available:
		return reason.Errorf(reason.SandboxUnavailable, "no sandbox can be built for the upstream server: %s", status.Problem).WithRemedy("%s", status.Remedy)
	case status.Tier != sandbox.TierC:
		return reason.Errorf(reason.SandboxUnavailable, "programs of upstream servers run in Tier C, and this machine gives Tier %s", status.Tier).
			WithRemedy("Install bubblewrap and allow user namespaces (`palyrad doctor`), or run the server elsewhere and add it by its URL.")
	}
	if missing := status.Lacking(m.use.Required); len(missing) > 0 {
		return reason.Errorf(reason.SandboxUnavailable, "the machine lacks layers that the settings require: %s", strings.Join(missing, ", "))
	}
	return nil
}

// launchFor finds what an instance for a call is made of. Nothing is started.
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
		return l, reason.Errorf(reason.UpstreamLogin, "this gateway cannot log in at upstream servers, and %s needs that", s.Name)
	}
	l.login, err = m.use.Logins.Ready(ctx, p.Caller, s)
	return l, err
}

// local finds the program and the workspace.
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
		// The program is one of the package, and no other of that name.
		search = prefix.Bins
		l.chains = append([]sandbox.Toolchain{prefix}, l.chains...)
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
	if _, inside := sandbox.Inside(s.Command[0], root.Path(), ""); inside {
		return m.inWorkspace(l, root)
	}
	return m.outside(l, search)
}

// outside finds a program of the machine or of a package.
func (m *Manager) outside(l *launch, search []string) error {
	program, err := m.resolver.ResolveExecutable(l.argv[0], search)
	if _, inside := sandbox.Inside(l.argv[0], "", ""); err != nil && inside && l.server.Workspace == "" {
		return reason.Errorf(reason.SpawnFailed, "the program %q of the upstream server %s is below a workspace, and the server has none", l.argv[0], l.server.Name).
			WithRemedy("Add the server with --workspace.")
	}
	l.program = program.Executable
	return err
}

// secretsFor are the secrets of a server that the caller may use, all or none.
func (m *Manager) secretsFor(ctx context.Context, s declared.Server, p tool.Proposal) ([]egress.Secret, error) {
	wanted := s.Placeholders()
	if len(wanted) == 0 {
		return nil, nil
	}
	if m.use.Lender == nil {
		return nil, reason.Errorf(reason.NotFound, "this gateway has no vault, and the upstream server %s needs secrets of one", s.Name)
	}
	offers, _, err := m.use.Lender.Offers(ctx, p, len(wanted), func(o egress.Secret) bool { return slices.Contains(wanted, o.Name) })
	if err != nil {
		return nil, err
	}
	for _, name := range wanted {
		if !slices.ContainsFunc(offers, func(o egress.Secret) bool { return o.Name == name }) {
			return nil, reason.Errorf(reason.PermissionDenied, "the upstream server %s needs the secret vault://%s, which %s may not use or which is not there", s.Name, name, p.Caller.Principal).
				WithRemedy("Have it put with `palyra vault put %s`, with the hosts and the header that it is for, and let policy lease it to the caller.", name)
		}
	}
	slices.SortFunc(offers, func(a, b egress.Secret) int { return strings.Compare(a.Name, b.Name) })
	return offers, nil
}

// Run ends instances that nobody calls any more until ctx ends, and then all of them.
// No call may be under way then.
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

// EndIdle ends all instances on which no call is under way.
func (m *Manager) EndIdle() {
	m.sweep(func(in *instance) bool { return in.idleFor(0) })
}

// Notices are what an operator should know of the servers.
func (m *Manager) Notices() (list []string) {
	for _, s := range m.List() {
		name := s.Server.Name
		if s.Problem != "" {
			list = append(list, "the upstream server "+name+" is of no use: "+firstLine(s.Problem)+"; see `palyra mcp show "+name+"`")
		}
		if n := len(s.Changes); n > 0 {
			list = append(list, fmt.Sprintf("the upstream server %s says something else than what was approved (%s); its tools concerned are suspended: see `palyra mcp show %s`, then `palyra mcp approve %s`", name, text.Plural(n, "definition"), name, name))
		}
	}
	return list
}

// firstLine leaves out the findings that follow the message of policies which do not load.
func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// sweep ends the instances that should, unless a call has their slot.
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

var errIdle = errors.New("nobody calls the server")

// errReduced ends the instances of a caller that may do less than before.
var errReduced = errors.New("whose it is may do less than before")

// Ended is an instance that EndOf ended.
type Ended struct {
	Server   string `json:"server"`
	Instance string `json:"instance"`
	// Shared is true for one that ends after the calls of others.
	Shared bool `json:"shared,omitempty"`
}

// EndOf ends the instances that belong to a caller, without the time to end by themselves:
// it may do less than before, or one of its credentials ended. A shared one that a call of
// it started ends when the calls of others on it have. It waits for none. What goes on in
// its name starts others.
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

// kill ends an instance without the time to end by itself, and does not wait for it.
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

// drop ends all instances of a server, waiting for the calls that go on.
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

// lookAgain notes that a server told of changes. The next call looks before it runs.
func (m *Manager) lookAgain(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := m.servers[name]; k != nil {
		k.stale = true
	}
}

// saw compares what a server says with what was approved, and keeps it. What is seen
// of a server for the first time is approved by that.
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
		m.use.Log.WarnContext(ctx, "an upstream server says something else of its tools than what was approved: they are suspended until `palyra mcp approve`",
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
