//go:build linux

package facts

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	toolcall "palyra/internal/call"
	"palyra/internal/call/approval"
	"palyra/internal/call/dispatch"
	"palyra/internal/call/policy"
	"palyra/internal/core/access"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/evidence/attest"
	"palyra/internal/exec/builtin"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/bubblewrap"
	"palyra/internal/exec/workspace"
	"palyra/internal/exec/workspace/overlay"
	"palyra/internal/gateway/gatewaytest"
	"palyra/internal/store/sqlite"
	"palyra/internal/vault/atrest/atresttest"
)

//go:embed policies.cedar
var policies string

// page is the page that http.fetch receives.
const page = "PAGE of the test\n"

var (
	alice  = access.User("alice")
	person = access.Caller{
		Principal: alice, OnBehalfOf: alice, Roles: []access.Role{access.RoleOwner}, DeviceID: "01JNFACTSPERSON00000000000", Surface: access.SurfaceCLI, Paired: true,
	}
)

// agent returns the caller of a worker. Each worker has its own agent, because identical calls
// of one agent share an approval request.
func agent(name string) access.Caller {
	return access.Caller{
		Principal: access.Agent(name), OnBehalfOf: alice, Roles: []access.Role{access.RoleAgent}, DeviceID: "01JNFACTSAGENT" + name, Surface: access.SurfaceGRPC, Paired: true,
	}
}

// gateway is a gateway of real parts, with wrappers between them that change workspaces.
type gateway struct {
	dir      string
	desk     *approval.Desk
	engine   *policy.Engine
	pipeline *toolcall.Pipeline
	box      sandbox.Status
	url      string
	tools    []string
	closers  []func() error
}

// settings configure a gateway.
type settings struct {
	dir        string
	workspaces []workspace.Declaration
	// hooks run at every stage.
	hooks  *hooks
	notary *attest.Notary
}

func newGateway(s settings) (_ *gateway, err error) {
	g := &gateway{dir: s.dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.close())
		}
	}()
	set, err := workspace.NewSet(s.workspaces)
	if err != nil {
		return nil, err
	}
	if err := g.serve(); err != nil {
		return nil, err
	}
	tools, err := g.builtins(set)
	if err != nil {
		return nil, err
	}
	db, err := sqlite.Open(context.Background(), filepath.Join(s.dir, "palyra.db"), sqlite.Options{Results: &atresttest.Ring{}})
	if err != nil {
		return nil, err
	}
	g.closers = append(g.closers, func() error { return db.Close(context.Background()) })
	g.engine = &policy.Engine{}
	routed := make([]tool.Runnable, len(tools))
	for i, t := range tools {
		routed[i] = s.hooks.tool(t)
	}
	router, err := dispatch.New(dispatch.Config{
		Tools: routed, Timeout: time.Minute, Snapshot: func() string { return g.engine.Current().SnapshotDigest() },
	})
	if err != nil {
		return nil, err
	}
	loaded, err := policy.Load(policyConfig(router.Descriptors(), s.workspaces))
	if err != nil {
		return nil, err
	}
	g.engine.Swap(loaded)
	if err := g.openDesk(db); err != nil {
		return nil, err
	}
	g.pipeline, err = toolcall.New(s.hooks.stages(toolcall.Config{
		Evaluator: g.engine, Approver: g.desk.Requests, Grants: g.desk.Grants, Editor: g.desk.Edits, Dispatcher: router, Notary: s.notary, Ledger: sqlite.NewCalls(db),
		MaxCallsPerRun: 200, MaxCallsPerSession: many, SessionIdle: time.Hour, LiveDevice: anyDevice,
		Standing: func(access.Caller) error { return nil },
	}))
	return g, err
}

func anyDevice(string) bool { return true }

// close closes everything that was opened, in reverse order.
func (g *gateway) close() error {
	var errs []error
	for i := len(g.closers) - 1; i >= 0; i-- {
		errs = append(errs, g.closers[i]())
	}
	return errors.Join(errs...)
}

// builtins returns the daemon's own tools. The tools that run programs are included only if a
// sandbox is available.
func (g *gateway) builtins(set *workspace.Set) ([]builtin.Tool, error) {
	layers, kept, undo := filepath.Join(g.dir, "layers"), filepath.Join(g.dir, "quarantine"), filepath.Join(g.dir, "undo")
	for _, dir := range []string{layers, kept, undo} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return nil, err
		}
	}
	runner, err := bubblewrap.New(bubblewrap.Config{Enabled: true, FirstUser: 1_900_100_000, Users: 1000, LayerDir: layers, QuarantineDir: kept})
	if err != nil {
		return nil, err
	}
	g.closers = append(g.closers, runner.Close)
	g.box = runner.Probe(context.Background())
	u, err := url.Parse(g.url)
	if err != nil {
		return nil, err
	}
	rules, err := egress.ParseRules([]string{u.Host})
	if err != nil {
		return nil, err
	}
	all := builtin.New(builtin.Config{
		Workspaces: set, Runner: runner, Sandbox: g.box, Version: "test",
		Process: builtin.ProcessPolicy{Enabled: true, Egress: egress.Strict, History: overlay.History{Dir: undo}},
		HTTP:    builtin.HTTPPolicy{Allowed: rules},
	})
	for _, t := range all {
		if name := t.Descriptor().Name; !runsPrograms(name) || g.box.Available {
			g.tools = append(g.tools, name)
		}
	}
	return all, nil
}

// serve starts an HTTP server on loopback.
func (g *gateway) serve() error {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, page)
	})}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	g.url = "http://" + listener.Addr().String() + "/"
	g.closers = append(g.closers, func() error {
		err := server.Close()
		if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	})
	return nil
}

// openDesk opens a desk without quotas, because the test is not about quotas.
func (g *gateway) openDesk(db *sqlite.DB) error {
	var err error
	g.desk, err = approval.NewDesk(approval.Config{
		Store: sqlite.NewApprovals(db), Judge: toolcall.Judge{Evaluator: g.engine, LiveDevice: anyDevice},
		Limits: approval.Limits{Cooldown: -1, PendingPerRun: many, PendingPerPrincipal: many, CreatedPerMinute: many, CreatedPerPrincipal: many, GrantTTLMin: time.Millisecond},
	})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.desk.Run(ctx) }()
	g.closers = append(g.closers, func() error {
		stop()
		return <-ended
	})
	return nil
}

// many is a limit that is never reached.
const many = 1 << 30

func policyConfig(tools []tool.Descriptor, workspaces []workspace.Declaration) policy.Config {
	cfg := policy.Config{
		Sources: []policy.Source{{Name: "policies.cedar", Text: policies}}, Tools: tools,
		Members: []access.Member{
			{Principal: alice, Roles: []access.Role{access.RoleOwner}, CreatedAt: time.Now()},
		},
		Snapshot: policy.Snapshot{MaxCallsPerRun: 200},
	}
	for _, w := range workspaces {
		cfg.Workspaces = append(cfg.Workspaces, w.Name)
		cfg.Members = append(cfg.Members, access.Member{Principal: access.Agent(w.Name), Owner: alice, Roles: []access.Role{access.RoleAgent}, CreatedAt: time.Now()})
	}
	for _, t := range tools {
		cfg.Snapshot.AllowedTools = append(cfg.Snapshot.AllowedTools, t.Name)
	}
	return cfg
}

// TestGateway: the policies load, and one call succeeds.
func TestGateway(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ws := filepath.Join(dir, "ws")
	if err := os.Mkdir(ws, 0o750); err != nil {
		t.Fatal(err)
	}
	g, err := newGateway(settings{dir: dir, hooks: &hooks{tally: newTally()}, notary: gatewaytest.Notary(t), workspaces: []workspace.Declaration{{Name: "w0", Path: ws}, {Name: "vault", Path: ws}}})
	if err != nil {
		t.Fatal(err)
	}
	outcome, err := g.pipeline.Call(t.Context(), toolcall.Submission{Caller: agent("w0"), Tool: "http.fetch", Input: fmt.Appendf(nil, `{"url":%q}`, g.url)}, func(toolcall.Event) {})
	if err != nil || outcome.Report.Outcome != tool.Succeeded {
		t.Errorf("%+v, %v", outcome.Report, err)
	}
	if err := g.close(); err != nil {
		t.Error(err)
	}
}
