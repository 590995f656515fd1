package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"palyra/internal/access"
	"palyra/internal/approval"
	"palyra/internal/attest"
	"palyra/internal/builtin"
	"palyra/internal/canonical"
	"palyra/internal/config"
	"palyra/internal/dispatch"
	"palyra/internal/event"
	"palyra/internal/identity"
	"palyra/internal/identity/ca"
	"palyra/internal/journal"
	"palyra/internal/policy"
	"palyra/internal/run"
	"palyra/internal/sqlite"
	"palyra/internal/toolcall"
	"palyra/internal/version"
	"palyra/internal/workspace"
)

// gateway is the daemon with its parts.
type gateway struct {
	opts      Options
	cfg       *config.Config
	log       *slog.Logger
	startedAt time.Time

	parts      *parts
	authority  *ca.Authority
	db         *sqlite.DB
	journal    *journal.Log
	registry   *access.Registry
	identity   *identity.Service
	notary     *attest.Notary
	workspaces *workspace.Set
	box        box
	policies   *policies
	engine     *policy.Engine
	desk       *approval.Desk
	router     *dispatch.Router
	pipeline   *toolcall.Pipeline
	models     models
	runs       *run.Manager
	auditor    *auditor
	quotas     *quotas
	commits    *commits
	metrics    *metrics
	doors      doors
}

// parts closes what was opened, in reverse order.
type parts struct{ closers []func(context.Context) error }

func (p *parts) add(fn func(context.Context) error) { p.closers = append(p.closers, fn) }

func (p *parts) close(ctx context.Context) error {
	var errs []error
	for i := len(p.closers) - 1; i >= 0; i-- {
		errs = append(errs, p.closers[i](ctx))
	}
	return errors.Join(errs...)
}

// build makes the parts in the order in which they need each other. What was
// opened is closed again when a later part fails.
func build(ctx context.Context, o Options) (_ *gateway, err error) {
	if o.wall == nil {
		o.wall = time.Now
	}
	g := &gateway{opts: o, cfg: o.Config, log: o.Log, startedAt: time.Now().UTC(), parts: &parts{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.parts.close(context.WithoutCancel(ctx)))
		}
	}()
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"state directory", g.openState},
		{"keys", g.openKeys},
		{"store", g.openStore},
		{"members", g.openMembers},
		{"sandbox", g.openSandbox},
		{"policy", g.openPolicy},
		{"approvals", g.openDesk},
		{"pipeline", g.openPipeline},
		{"runs", g.openRuns},
	} {
		if err := step.do(ctx); err != nil {
			return nil, fmt.Errorf("starting: %s: %w", step.name, err)
		}
	}
	return g, nil
}

func (g *gateway) openState(context.Context) error {
	lock, err := lockState(g.cfg.StateDir)
	if err != nil {
		return err
	}
	g.parts.add(func(context.Context) error { return lock.release() })
	return nil
}

func (g *gateway) openKeys(context.Context) error {
	authority, created, err := ca.Open(filepath.Join(g.cfg.StateDir, "ca"), ca.Options{
		TrustDomain: g.cfg.TrustDomain, ServerHosts: g.cfg.Listen.ServerNames,
	})
	if err != nil {
		return err
	}
	if created {
		g.log.Info("certificate authority created", slog.String("trust_domain", authority.TrustDomain()))
	}
	g.authority = authority
	return nil
}

func (g *gateway) openStore(ctx context.Context) error {
	origin, known, err := checkpointKeys(g.authority)
	if err != nil {
		return err
	}
	g.commits = newCommits(g.log)
	if g.quotas, err = newQuotas(g.cfg.Quotas, g.log); err != nil {
		return err
	}
	g.db, err = sqlite.Open(ctx, storePath(g.cfg.StateDir), sqlite.Options{
		Now: g.opts.wall, Origin: origin, Verifiers: known, Committed: g.commits.note, Wrote: g.quotas.wrote, Reserve: g.reserve(),
	})
	if err != nil {
		return err
	}
	g.parts.add(g.db.Close)
	if err := g.quotas.restore(ctx, g.db); err != nil {
		return err
	}
	g.journal, err = openJournal(ctx, g.db, g.authority, journal.Options{Logger: g.log})
	if err != nil {
		return err
	}
	return g.record(ctx, event.Opened, struct {
		Version string `json:"version"`
	}{version.Get().Version})
}

func (g *gateway) openMembers(ctx context.Context) error {
	var err error
	g.registry, g.identity, err = openIdentity(ctx, g.db, g.authority, g.cfg.Roles)
	if err != nil {
		return err
	}
	notary := g.authority.Notary()
	cfg := attest.NotaryConfig{Signer: notary.Signer, Chain: notary.Chain, Gateway: g.authority.TrustDomain()}
	for _, p := range g.authority.PastNotaries() {
		cfg.Past = append(cfg.Past, attest.PastKey{Chain: p.Chain, RetiredAt: p.RetiredAt})
	}
	g.notary, err = attest.NewNotary(cfg)
	return err
}

// openIdentity is shared with what works on a state directory whose daemon
// does not run.
func openIdentity(ctx context.Context, db *sqlite.DB, authority *ca.Authority, roles []access.Role) (*access.Registry, *identity.Service, error) {
	registry, err := access.NewRegistry(ctx, db.Identity(), roles)
	if err != nil {
		return nil, nil, err
	}
	service, err := identity.New(ctx, identity.Config{Authority: authority, Store: db.Identity(), Registry: registry})
	return registry, service, err
}

func (g *gateway) openPolicy(ctx context.Context) error {
	var err error
	if g.workspaces, err = openWorkspaces(g.cfg); err != nil {
		return err
	}
	if err := g.recoverCommits(ctx); err != nil {
		return err
	}
	tools, err := g.tools()
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
	g.policies = newPolicies(g)
	return nil
}

func openWorkspaces(cfg *config.Config) (*workspace.Set, error) {
	declared := make([]workspace.Declaration, len(cfg.Workspaces))
	for i, w := range cfg.Workspaces {
		declared[i] = workspace.Declaration{Name: w.Name, Path: w.Path, ReadOnly: w.ReadOnly}
	}
	return workspace.NewSet(declared, private(cfg)...)
}

// private lists what no workspace may overlap: who writes there decides what
// is allowed, or is somebody else.
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
	for _, s := range c.Secrets {
		list = append(list, workspace.Private{Name: fmt.Sprintf("file of secret %q", s.Name), Path: s.File})
	}
	return list
}

func (g *gateway) tools() ([]dispatch.Tool, error) {
	cfg, err := builtinConfig(g.cfg, g.workspaces, g.box)
	if err != nil {
		return nil, err
	}
	list := builtin.New(cfg)
	tools := slices.Clone(g.opts.tools)
	for _, t := range list {
		tools = append(tools, t)
	}
	return tools, nil
}

func (g *gateway) openDesk(ctx context.Context) error {
	var err error
	g.desk, err = approval.NewDesk(approval.Config{
		Store: sqlite.NewApprovals(g.db), Judge: toolcall.Judge{Evaluator: g.engine, LiveDevice: g.liveDevice}, Log: g.log,
		Now: newClock(g.db.Head().At, g.opts.wall).now,
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
	if _, frozen := g.desk.Frozen(ctx); frozen {
		g.router.Freeze()
		g.log.WarnContext(ctx, "the gateway is frozen; `palyra thaw` lets calls run again")
	}
	return g.desk.MarkRunsGone(ctx)
}

func (g *gateway) openPipeline(ctx context.Context) error {
	calls := sqlite.NewCalls(g.db)
	closed, err := toolcall.CloseAmbiguous(ctx, calls)
	if err != nil {
		return err
	}
	if closed > 0 {
		g.log.WarnContext(ctx, "calls were interrupted by the last stop; their outcome is unknown", slog.Int("calls", closed))
	}
	g.auditor = newAuditor(g.journal, g.log)
	g.quotas.refused = g.auditor
	g.metrics = newMetrics(g)
	stages := toolcall.Config{
		Evaluator: g.engine, Approver: g.desk, Dispatcher: g.router, Notary: g.notary, Ledger: calls,
		MaxCallsPerRun: g.cfg.MaxCallsPerRun, MaxCallsPerSession: g.cfg.MaxCallsPerSession, SessionIdle: g.cfg.Sessions.Idle,
		LiveDevice: g.liveDevice, Log: g.log, Quota: g.quotas,
	}
	if g.opts.wrap != nil {
		stages = g.opts.wrap(stages)
	}
	g.pipeline, err = toolcall.New(stages)
	return err
}

// cooldown turns the setting "0s", which is off, into what the desk takes for
// off: its zero is the default.
func cooldown(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

// draftOf makes an event draft with a canonical payload.
func draftOf(code event.Code, actor, subject string, payload any) (event.Draft, error) {
	text, err := canonical.Marshal(payload)
	if err != nil {
		return event.Draft{}, err
	}
	return event.Draft{Code: code, Actor: actor, Subject: subject, Payload: text}, nil
}
