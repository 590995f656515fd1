package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"palyra/internal/agent/files"
	"palyra/internal/agent/watch"
	"palyra/internal/call"
	"palyra/internal/call/approval"
	"palyra/internal/call/dispatch"
	"palyra/internal/call/dualcontrol"
	"palyra/internal/call/policy"
	"palyra/internal/call/policyadmin"
	"palyra/internal/core/access"
	"palyra/internal/core/config"
	"palyra/internal/core/event"
	"palyra/internal/core/limit"
	"palyra/internal/core/progress"
	"palyra/internal/core/reason"
	"palyra/internal/core/statedir"
	"palyra/internal/core/tool"
	"palyra/internal/core/version"
	"palyra/internal/egress"
	"palyra/internal/evidence/attest"
	"palyra/internal/evidence/journal"
	"palyra/internal/exec/builtin"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/program/lend"
	"palyra/internal/exec/upstream"
	"palyra/internal/exec/upstream/oauth"
	"palyra/internal/exec/upstream/packages"
	"palyra/internal/exec/workspace"
	"palyra/internal/identity"
	"palyra/internal/identity/ca"
	"palyra/internal/identity/login"
	"palyra/internal/identity/login/resource"
	"palyra/internal/identity/pairing"
	"palyra/internal/identity/passkeys"
	"palyra/internal/identity/token"
	"palyra/internal/identity/tpm"
	"palyra/internal/ops/audit"
	"palyra/internal/ops/backup"
	"palyra/internal/ops/changesets"
	"palyra/internal/ops/journalkey"
	"palyra/internal/ops/quota"
	"palyra/internal/ops/telemetry"
	"palyra/internal/run"
	"palyra/internal/run/model/providers"
	"palyra/internal/surface/api"
	"palyra/internal/surface/api/people"
	"palyra/internal/surface/authzen"
	"palyra/internal/surface/console"
	"palyra/internal/surface/hook"
	mcpserver "palyra/internal/surface/mcp"
	"palyra/internal/surface/notify"
	"palyra/internal/surface/resume"
	"palyra/internal/vault"
	"palyra/internal/vault/kek"
)

// gateway is the daemon with its parts.
type gateway struct {
	cfg       *config.Config
	origins   config.Origins
	log       *slog.Logger
	startedAt time.Time

	parts      *parts
	authority  *ca.Authority
	stores     stores
	journal    *journal.Log
	kek        *kek.Ring
	vault      *vault.Service
	lending    *lend.Desk
	wrapper    *vault.Wrapper
	registry   *access.Registry
	identity   *identity.Service
	passkeys   *passkeys.Keeper
	tokens     *token.Service
	installed  *watch.Watcher
	notary     *attest.Notary
	workspaces *workspace.Set
	changes    *changesets.ChangeSets
	isolation  isolation
	policies   *policyadmin.Admin
	// calls has the calls that continue without their clients. Once holding is closed, responses
	// do not wait for calls any more.
	calls   *resume.Calls
	holding chan struct{}
	hooks   *hook.Service
	mcp     *mcpserver.Server
	// lookAgain ends the API streams that policy no longer allows. It is set once the API is
	// served.
	lookAgain func()
	engine    *policy.Engine
	desk      *approval.Desk
	changing  *dualcontrol.Gate
	pairings  *pairing.Host
	router    *dispatch.Router
	upstreams *upstream.Manager
	packages  *packages.Service
	guests    guests
	skills    skills
	// fetcher performs HTTP requests for guests.
	fetcher   builtin.Fetcher
	mcpLogins *oauth.Service
	turns     *limit.Queue
	limiter   *limit.Limiter
	pipeline  *call.Pipeline
	models    providers.Set
	runs      *run.Manager
	tls       *tls.Config
	auditor   *audit.Auditor
	logins    *login.Service
	issuers   *resource.Service
	authzen   *authzen.Service
	notify    *notify.Service
	chatUsers *notify.Users
	quotas    *quota.Quotas
	commits   *telemetry.Commits
	metrics   *telemetry.Metrics
	console   *console.Console
	listeners listeners
	// own holds the gateway's listening addresses, which no program or tool may reach.
	own *egress.Gateway
	// stopping is true once the gateway has been ordered to stop.
	stopping atomic.Bool
}

// parts holds the close functions of opened parts; they run in reverse order.
type parts struct{ closers []func(context.Context) error }

func (p *parts) add(fn func(context.Context) error) { p.closers = append(p.closers, fn) }

func (p *parts) close(ctx context.Context) error {
	var errs []error
	for i := len(p.closers) - 1; i >= 0; i-- {
		errs = append(errs, p.closers[i](ctx))
	}
	return errors.Join(errs...)
}

// build creates the parts in dependency order. If a part fails, the parts already opened are
// closed.
func build(ctx context.Context, o Options) (_ *gateway, err error) {
	if o.wall == nil {
		o.wall = time.Now
	}
	g := &gateway{cfg: o.Config, origins: o.Origins, log: o.Log, startedAt: time.Now().UTC(), parts: &parts{}, own: &egress.Gateway{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.parts.close(context.WithoutCancel(ctx)))
		}
	}()
	w := &startWatch{log: o.Log}
	ctx, end := w.begin(ctx)
	defer end()
	for _, step := range []struct {
		name string
		do   func(context.Context, *gateway, Options) error
	}{
		{"state directory", openState},
		{"keys", openKeys},
		{"store", openStore},
		{"vault", openVault},
		{"members", openMembers},
		{"restored backup", startRestored},
		{"sandbox", openSandbox},
		{"WASM runtime", openGuests},
		{"policy", openPolicy},
		{"skills", openSkills},
		{"secrets", openSecrets},
		{"approvals", openApprovals},
		{"pairing", openPairing},
		{"pipeline", openPipeline},
		{"calls", openCalls},
		{"MCP", openMCP},
		{"hooks", openHooks},
		{"runs", openRuns},
		{"logins", openLogins},
		{"oauth issuers", openIssuers},
		{"authzen", openAuthZEN},
		{"metrics", openMetrics},
		{"notifications", openNotify},
	} {
		w.next(step.name)
		if err := step.do(ctx, g, o); err != nil {
			return nil, fmt.Errorf("starting: %s: %w", step.name, err)
		}
	}
	return g, nil
}

// startInterval is the interval of progress messages during a long start.
const startInterval = 5 * time.Second

// startWatch logs the current step of a long start, because an operator could otherwise assume
// that a start with a large journal hangs.
type startWatch struct {
	log   *slog.Logger
	meter progress.Meter
	step  atomic.Pointer[string]
}

// begin watches until end is called. Operations under the returned ctx count journal events.
func (w *startWatch) begin(ctx context.Context) (_ context.Context, end func()) {
	w.next("")
	return progress.With(ctx, &w.meter), w.meter.Watch(startInterval, func(n progress.Count) {
		attrs := []any{slog.String("step", *w.step.Load())}
		if n.Total > 0 {
			attrs = append(attrs, slog.Int64("events", n.Done), slog.Int64("total", n.Total))
		}
		w.log.InfoContext(ctx, "still starting", attrs...)
	})
}

// next begins the next step and resets the count.
func (w *startWatch) next(step string) {
	w.step.Store(&step)
	w.meter.Expect(0)
}

func openState(_ context.Context, g *gateway, _ Options) error {
	if err := ownConfiguration(g.cfg); err != nil {
		return err
	}
	lock, err := takeState(g.cfg.StateDir)
	if err != nil {
		return err
	}
	g.parts.add(func(context.Context) error { return lock.Release() })
	return nil
}

func openKeys(ctx context.Context, g *gateway, _ Options) error {
	authority, created, err := openAuthority(g.cfg)
	if err != nil {
		return err
	}
	if created {
		g.log.InfoContext(ctx, "certificate authority created", slog.String("trust_domain", authority.TrustDomain()))
	}
	g.authority = authority
	return nil
}

// openAuthority opens the certificate authority, or creates it.
func openAuthority(cfg *config.Config) (*ca.Authority, bool, error) {
	return ca.Open(statedir.Authority(cfg.StateDir), authorityOptions(cfg))
}

func authorityOptions(cfg *config.Config) ca.Options {
	o := ca.Options{TrustDomain: cfg.TrustDomain, ServerHosts: cfg.Listen.ServerNames}
	if cfg.Keys.Store == config.KeysInTPM {
		o.Module = tpm.New(cfg.Keys.TPMDevice)
	}
	return o
}

// keyPlaces returns the location of each key of the gateway, including the key of the local
// operator's device.
func keyPlaces(authority *ca.Authority, cfg *config.Config) []ca.KeyPlace {
	return append(authority.Places(), identity.LocalKey(statedir.Operator(cfg.StateDir)))
}

func openStore(ctx context.Context, g *gateway, o Options) (err error) {
	g.commits = telemetry.NewCommits(g.log)
	if g.quotas, err = quota.New(g.cfg.Quotas, g.log); err != nil {
		return err
	}
	g.stores, err = openStores(ctx, g.cfg, g.authority, watchers{now: o.wall, committed: g.commits.Note, wrote: g.quotas.Wrote, log: g.log})
	if err != nil {
		return err
	}
	g.parts.add(g.stores.close)
	if err := g.quotas.Restore(ctx, g.stores.usage); err != nil {
		return err
	}
	g.journal, err = journalkey.Open(ctx, g.stores.journal, g.authority, journal.Options{Logger: g.log})
	if err != nil {
		return err
	}
	return g.journal.Record(ctx, event.Opened, journal.Daemon, "", opened(g.authority))
}

// openedPayload records the build that opened the journal, and the locations of its keys.
type openedPayload struct {
	Version string            `json:"version"`
	Keys    map[string]string `json:"keys"`
}

func opened(authority *ca.Authority) openedPayload {
	keys := make(map[string]string)
	for _, p := range authority.Places() {
		keys[p.Key] = p.Place
	}
	return openedPayload{version.Get().Version, keys}
}

// startRestored ends the credentials and pending work of a state directory restored from a backup,
// before any of it takes effect.
func startRestored(ctx context.Context, g *gateway, o Options) error {
	r, started, err := backup.Start(ctx, backup.Parts{
		StateDir: g.cfg.StateDir, Journal: g.journal, Approvals: g.stores.approvals, EndLogins: g.identity.Logins.EndAllLogins,
		Now: approval.NewClock(g.stores.journal.Head().At, o.wall).Now,
	})
	if started {
		g.log.WarnContext(ctx, "the gateway was restored from a backup and is frozen: review valid members and devices, then run `palyra thaw`",
			slog.String("note", backup.Why(r.MadeAt)))
	}
	if err != nil {
		return err
	}
	last, err := g.journal.List(ctx, journal.Filter{Code: string(event.Restored), Newest: true, Limit: 1})
	if err != nil || len(last) == 0 {
		return err
	}
	if r, err = journal.ParseRestored(&last[0]); err != nil {
		return err
	}
	g.identity.Keys.SetRestoredAt(r.RestoredAt)
	return nil
}

func openPolicy(ctx context.Context, g *gateway, o Options) error {
	var err error
	if g.workspaces, err = openWorkspaces(g.cfg); err != nil {
		return err
	}
	g.changes = changesets.New(changesets.Config{
		Declared: g.cfg.Workspaces, Workspaces: g.workspaces, History: g.isolation.history, Journal: g.journal, Log: g.log, Guard: guard(g),
		Forbidden: func(by access.Caller, f tool.CommitFacts) error { return forbidden(g, by, f) },
	})
	if err := g.changes.Recover(ctx); err != nil {
		return err
	}
	tools, process, err := allTools(g, o.tools)
	if err != nil {
		return err
	}
	g.engine = &policy.Engine{}
	g.router, err = dispatch.New(dispatch.Config{
		Tools: tools, Timeout: g.cfg.ExecutionTimeout(), Log: g.log,
		Snapshot: func() string { return g.engine.Current().SnapshotDigest() },
	})
	if err != nil {
		return err
	}
	g.policies = policyadmin.New(policyadmin.Config{
		Settings: g.cfg, Store: g.stores.policies, Guard: guard(g), Grants: g.stores.grants, Journal: g.journal, Engine: g.engine,
		Members: g.registry, Provenance: g.identity.Directory.History, TakesTwo: func() bool { return g.changing.DualControl().On }, Tools: g.router, Cut: g.identity.OpenWork.Cut, Swapped: func() { swapped(g) }, Log: g.log,
	})
	return openUpstreams(ctx, g, process)
}

// openUpstreams creates the manager of upstream servers. It registers their tools as last
// approved, because the policies loaded next may name them. It connects to no server.
func openUpstreams(ctx context.Context, g *gateway, process builtin.ProcessPolicy) error {
	denied, err := egress.ParseRules(g.cfg.HTTP.DeniedHosts)
	if err != nil {
		return fmt.Errorf("http.denied_hosts: %w", err)
	}
	empty := statedir.Empty(g.cfg.StateDir)
	if err := os.MkdirAll(empty, 0o755); err != nil { //nolint:gosec // it stays empty, and sandboxes of other users see it
		return fmt.Errorf("making an empty directory: %w", err)
	}
	if empty, err = filepath.EvalSymlinks(empty); err != nil {
		return fmt.Errorf("looking at the empty directory: %w", err)
	}
	protected := make(map[string][]string)
	for name, w := range process.Workspaces {
		protected[name] = w.Protected
	}
	g.mcpLogins = oauth.New(oauth.Config{
		May: func(by access.Caller, p access.Permission) error {
			return g.engine.Current().Access().Permit(policy.AccessRequest{Caller: by, Permission: p})
		},
		Journal: func(ctx context.Context, e event.Draft) error {
			_, err := g.journal.Append(ctx, e)
			return err
		},
		Denied: denied, Gateway: g.own,
	})
	cfg := upstream.Config{
		Standing: standing(g), Guard: guard(g),
		Store: g.stores.upstreams, Router: g.router, Policies: g.policies.Active, Lender: g.lending, Logins: g.mcpLogins, Prefixes: g.packages, Enabled: process.Enabled,
		SearchPath: process.SearchPath, Toolchains: func() []command.Toolchain { return g.isolation.toolchains.Now().Toolchains },
		Limits: process.Limits, Required: process.Required, Workspaces: g.workspaces, Protected: protected, History: g.isolation.history,
		State: statedir.Upstreams(g.cfg.StateDir), StateLimit: g.cfg.ProcessRunner.CacheLimitBytes,
		Empty: empty, Denied: denied, OwnHosts: ownHosts(g.cfg), Gateway: g.own, Version: version.Get().Version, Log: g.log,
	}
	if g.isolation.watch != nil {
		cfg.Runner = g.isolation.watch
	}
	g.upstreams = upstream.New(cfg)
	if err := g.upstreams.Load(ctx); err != nil {
		return err
	}
	kept := map[string][]string{}
	for _, s := range g.upstreams.List() {
		if p := s.Server.Package; p != nil {
			kept[s.Server.Name] = []string{p.Prefix}
		}
	}
	if err := g.packages.Sweep(kept); err != nil {
		g.log.WarnContext(ctx, "packages that no upstream server uses are not removed", slog.String("error", err.Error()))
	}
	return nil
}

// ownHosts returns the names and addresses of the gateway.
func ownHosts(cfg *config.Config) []string {
	list := slices.Clone(cfg.Listen.ServerNames)
	for _, address := range []string{cfg.Listen.API, cfg.Listen.Metrics} {
		if host, _, err := net.SplitHostPort(address); err == nil && host != "" {
			list = append(list, host)
		}
	}
	if name, err := os.Hostname(); err == nil {
		list = append(list, name)
	}
	if addresses, err := net.InterfaceAddrs(); err == nil {
		for _, a := range addresses {
			if p, is := a.(*net.IPNet); is {
				list = append(list, p.IP.String())
			}
		}
	}
	return list
}

func openWorkspaces(cfg *config.Config) (*workspace.Set, error) {
	declared := make([]workspace.Declaration, len(cfg.Workspaces))
	for i, w := range cfg.Workspaces {
		declared[i] = workspace.Declaration{Name: w.Name, Path: w.Path, ReadOnly: w.ReadOnly}
	}
	return workspace.NewSet(declared, private(cfg)...)
}

// private lists the directories that no workspace may overlap: write access to them would change
// permissions or impersonate another component.
func private(c *config.Config) []workspace.Private {
	list := []workspace.Private{{Name: "state_dir", Path: c.StateDir}}
	for _, p := range []workspace.Private{
		{Name: "policy.dir", Path: c.Policy.Dir},
		{Name: "the configuration file", Path: c.Source},
		{Name: "client.credentials", Path: c.Client.Credentials},
	} {
		if p.Path != "" {
			list = append(list, p)
		}
	}
	for _, m := range c.Models {
		if m.APIKeyFile != "" {
			list = append(list, workspace.Private{Name: fmt.Sprintf("api_key_file of model %q", m.Name), Path: m.APIKeyFile})
		}
	}
	if c.Vault.PassphraseFile != "" {
		list = append(list, workspace.Private{Name: "vault.passphrase_file", Path: c.Vault.PassphraseFile})
	}
	if c.OIDC.ClientSecretFile != "" {
		list = append(list, workspace.Private{Name: "oidc.client_secret_file", Path: c.OIDC.ClientSecretFile})
	}
	if c.Console.KeyFile != "" {
		list = append(list, workspace.Private{Name: "console.key_file", Path: c.Console.KeyFile})
	}
	for _, s := range c.Secrets {
		list = append(list, workspace.Private{Name: fmt.Sprintf("file of secret %q", s.Name), Path: s.File})
	}
	return list
}

// allTools returns the daemon's own tools after others, and the policy of process.run.
func allTools(g *gateway, others []tool.Runnable) ([]tool.Runnable, builtin.ProcessPolicy, error) {
	cfg, err := builtinConfig(g.cfg, g.workspaces, g.isolation)
	if err != nil {
		return nil, cfg.Process, err
	}
	cfg.HTTP.Gateway, cfg.Process.Reach.Rules.Gateway = g.own, g.own
	g.turns = cfg.Process.Turns
	g.lending = lend.New(cfg.MaxTimeout, g.log)
	cfg.Lender = g.lending
	if g.fetcher, err = builtin.NewFetcher(cfg); err != nil {
		return nil, cfg.Process, err
	}
	tools := slices.Concat(others, hook.NewTools(g.workspaces, guards(g.cfg)).All())
	for _, t := range builtin.New(cfg) {
		tools = append(tools, t)
	}
	if g.cfg.WASM.Enabled && g.cfg.WASM.AllowInlineModules {
		tools = append(tools, g.guests.inline(g.cfg.WASM))
	}
	g.packages = newPackages(g, cfg.Process)
	return append(tools, packages.Install{Service: g.packages}, changesets.Tool{Of: g.changes, Version: version.Get().Version}), cfg.Process, nil
}

// newPackages creates the installer of upstream servers' packages.
func newPackages(g *gateway, process builtin.ProcessPolicy) *packages.Service {
	cfg := packages.Config{
		Dir: statedir.Packages(g.cfg.StateDir), Ready: func() error { return g.upstreams.Runs() }, SearchPath: process.SearchPath,
		Toolchains: func() []command.Toolchain { return g.isolation.toolchains.Now().Toolchains },
		Limits:     process.Limits, Required: process.Required, Lender: g.lending, Gateway: g.own, Version: version.Get().Version,
	}
	if g.isolation.watch != nil {
		cfg.Runner = g.isolation.watch
	}
	return packages.New(cfg)
}

func openApprovals(ctx context.Context, g *gateway, o Options) error {
	people := dualcontrol.People{Members: g.registry, History: g.identity.Directory.History, LiveDevice: liveDevice(g.identity.Directory), Session: sessionDevice(g.identity.Directory), Engine: g.engine}
	var err error
	g.desk, err = approval.NewDesk(approval.Config{
		Store: g.stores.approvals, Log: g.log,
		Judge: dualcontrol.Judge{Calls: call.Judge{Evaluator: g.engine, LiveDevice: votesGoOn(g)}, People: people},
		Now:   approval.NewClock(g.stores.journal.Head().At, o.wall).Now,
		Guard: guard(g),
		Limits: approval.Limits{
			Timeout:             g.cfg.Approvals.DefaultTimeout,
			PendingPerRun:       g.cfg.Approvals.MaxPendingPerRun,
			PendingPerPrincipal: g.cfg.Approvals.MaxPendingPerPrincipal,
			CreatedPerMinute:    g.cfg.Approvals.MaxCreatedPerMinutePerRun,
			CreatedPerPrincipal: g.cfg.Approvals.MaxCreatedPerMinutePerPrincipal,
			Cooldown:            cooldown(g.cfg.Approvals.Cooldown),
		},
	})
	if err != nil {
		return err
	}
	g.changing = dualcontrol.New(dualcontrol.Config{Requests: g.desk.Requests, Records: g.desk.Records, People: people, Journal: g.journal, SwitchedOff: !g.cfg.DualControl, Log: g.log})
	if err := g.changing.Begin(ctx); err != nil {
		return err
	}
	if _, frozen := g.desk.Freezer.Frozen(ctx); frozen {
		g.router.Freeze()
		g.log.WarnContext(ctx, "the gateway is frozen; `palyra thaw` lets calls run again")
	}
	return g.desk.Records.MarkRunsGone(ctx)
}

// openPairing creates the host of pairings, which gets the server's certificate later.
func openPairing(_ context.Context, g *gateway, _ Options) (err error) {
	g.pairings, err = pairing.NewHost(pairing.Config{
		Issuer: g.identity.Pairings, Approvals: people.Asker{Gate: g.changing, Members: g.registry}, Journal: g.journal,
		Server: func() (pairing.Server, error) { return pairingServer(g) },
	})
	return err
}

func openPipeline(ctx context.Context, g *gateway, o Options) error {
	closed, err := call.CloseAmbiguous(ctx, g.stores.calls)
	if err != nil {
		return err
	}
	if closed > 0 {
		g.log.WarnContext(ctx, "calls were interrupted by the last stop; their outcome is unknown", slog.Int("calls", closed))
	}
	g.auditor = audit.New(g.journal, g.log)
	// Refusals of one principal are combined into one event per minute.
	g.quotas.Refused = func(principal string) {
		g.auditor.Refused(context.Background(), principal, api.CallToolProcedure, reason.QuotaExceeded)
	}
	stages := call.Config{
		Evaluator: g.engine, Approver: g.desk.Requests, Grants: g.desk.Grants, Editor: g.desk.Edits, Dispatcher: g.router, Notary: g.notary, Ledger: g.stores.calls,
		MaxCallsPerRun: g.cfg.MaxCallsPerRun, MaxCallsPerSession: g.cfg.MaxCallsPerSession, SessionIdle: g.cfg.Sessions.Idle,
		LiveDevice: votesGoOn(g), Standing: standing(g), Looked: g.auditor.Looked, Log: g.log, Quota: g.quotas,
	}
	if o.wrap != nil {
		stages = o.wrap(stages)
	}
	if g.pipeline, err = call.New(stages); err != nil {
		return err
	}
	g.upstreams.Serve(g.pipeline)
	g.changes.Serve(g.pipeline)
	return nil
}

// openHooks creates the handler of agents' hooks.
func openHooks(_ context.Context, g *gateway, _ Options) (err error) {
	g.hooks, err = hook.New(hook.Config{Calls: g.calls, Past: g.pipeline, Announced: g.mcp.Announced, Stopping: g.holding, Log: g.log})
	return err
}

// guards returns the files that no agent may change with its own tools: files that control agents
// and the gateway.
func guards(cfg *config.Config) []files.Guarded {
	home, err := os.UserHomeDir()
	if err != nil {
		home = "" // without a home directory, only the files guarded on every system apply
	}
	m := files.Machine{Home: home, OS: runtime.GOOS, Getenv: os.Getenv}
	gateway := files.Gateway{StateDir: cfg.StateDir, Config: cfg.Source, Policies: cfg.Policy.Dir}
	if own, err := os.Executable(); err == nil {
		for _, name := range []string{"palyrad", "palyra", "palyra-hook", "palyra-wasm"} {
			gateway.Programs = append(gateway.Programs, filepath.Join(filepath.Dir(own), name))
		}
	}
	return m.Guards(gateway)
}

// cooldown converts the setting "0s" (off) to the desk's value for off: the desk's zero means the
// default.
func cooldown(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

// openRuns creates the manager of runs, and ends the runs interrupted by the last stop.
func openRuns(ctx context.Context, g *gateway, _ Options) error {
	g.models = providers.OpenAll(ctx, g.cfg.Models, g.lending, g.log)
	tellSecrets(ctx, g.cfg.Secrets, g.log)
	cfg := run.Config{
		Calls: g.pipeline, Models: g.models.ByName, Catalog: catalog(g.engine, g.router), Store: g.stores.runs, Approvals: g.desk.Records, Log: g.log, Admit: g.quotas.Admit,
		Limits: run.Limits{
			Budget:             run.Budget{Calls: g.cfg.MaxCallsPerRun, Tokens: g.cfg.Runs.MaxTokens, WallClock: g.cfg.Runs.MaxDuration},
			ActivePerPrincipal: g.cfg.Runs.MaxActivePerPrincipal, ParallelCalls: g.cfg.Runs.ParallelCalls,
			AbandonedAfter: g.cfg.Runs.AbandonedAfter,
		},
	}
	if len(g.cfg.Models) > 0 {
		cfg.DefaultModel = g.cfg.Models[0].Name
	}
	for _, w := range g.cfg.Workspaces {
		cfg.Workspaces = append(cfg.Workspaces, run.Workspace{Name: w.Name, ReadOnly: w.ReadOnly})
	}
	var err error
	if g.runs, err = run.New(cfg); err != nil {
		return err
	}
	closed, err := run.CloseInterrupted(ctx, g.stores.runs, g.log)
	if closed > 0 {
		g.log.WarnContext(ctx, "runs were interrupted by the last stop; `palyra runs list` shows them", slog.Int("runs", closed))
	}
	return err
}

// openLogins creates the login service. The identity provider is not contacted yet.
func openLogins(_ context.Context, g *gateway, _ Options) (err error) {
	c := loginConfig(g.cfg)
	c.Members, c.Log = g.identity.Logins, g.log
	c.Refused = func(ctx context.Context, source string) {
		g.auditor.Refused(ctx, source, api.CompleteLoginProcedure, reason.LoginRefused)
	}
	g.logins, err = login.New(c)
	return err
}

func openMetrics(_ context.Context, g *gateway, _ Options) (err error) {
	if g.limiter, err = limit.NewLimiter(rateLimits(g.cfg)); err != nil {
		return err
	}
	g.limiter.Watch(api.LimitPairing, g.pairings.Lockout())
	g.limiter.Watch(api.LimitLogin, g.logins.Lockout())
	g.metrics = telemetry.New(telemetry.Config{
		Commits: g.commits, Problems: control{g}.Problems, Journal: g.journal, Load: g.stores.load, Reserve: g.stores.reserve,
		Calls: g.pipeline, Dispatch: g.router, Approvals: g.desk, Runs: g.runs.Roster, Limits: g.limiter, Turns: g.turns,
	})
	return nil
}

// catalog lists the tools that policy could ever permit to a caller.
func catalog(engine *policy.Engine, router *dispatch.Router) func(access.Caller) []tool.Descriptor {
	return func(caller access.Caller) []tool.Descriptor {
		listed := make(map[string]bool)
		for _, entry := range engine.Current().Catalog().Tools(caller) {
			listed[entry.Tool] = true
		}
		return slices.DeleteFunc(router.Descriptors(), func(d tool.Descriptor) bool {
			// Only its agent can run an external tool, and changesets.UndoTool is not available to
			// clients.
			return !listed[d.Name] || d.Executor == tool.External || d.Name == changesets.UndoTool
		})
	}
}

// offered finds one tool of the catalog.
func offered(engine *policy.Engine, router *dispatch.Router) func(access.Caller, string) (tool.Descriptor, bool) {
	return func(caller access.Caller, name string) (tool.Descriptor, bool) {
		d, ok := router.Descriptor(name)
		return d, ok && d.Executor != tool.External && name != changesets.UndoTool && engine.Current().Catalog().Lists(caller, name)
	}
}
