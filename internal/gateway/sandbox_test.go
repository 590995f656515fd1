package gateway

import (
	"context"
	"log/slog"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/access"
	"palyra/internal/core/change"
	"palyra/internal/core/config"
	"palyra/internal/core/must"
	"palyra/internal/core/needs"
	"palyra/internal/core/reason"
	"palyra/internal/exec/sandbox"
	"palyra/internal/gateway/gatewaytest"
)

// fakeBackend is a sandbox backend with a configurable status.
type fakeBackend struct {
	status      sandbox.Status
	examined    []sandbox.Examination
	closed      *int
	invalidated int
}

func (*fakeBackend) Run(context.Context, sandbox.Spec) (sandbox.Report, error) {
	return sandbox.Report{}, nil
}
func (f *fakeBackend) Probe(context.Context) sandbox.Status          { return f.status }
func (f *fakeBackend) Examine(context.Context) []sandbox.Examination { return f.examined }
func (*fakeBackend) Sweep(context.Context) error                     { return nil }
func (f *fakeBackend) Invalidate()                                   { f.invalidated++ }
func (f *fakeBackend) Close() error                                  { *f.closed++; return nil }

// TestReducedIsolationIsReported: log, status and notices report the isolation of programs.
func TestReducedIsolationIsReported(t *testing.T) {
	t.Parallel()
	needs.Sandbox(t)
	closed := 0
	g := must.Get(build(t.Context(), Options{Config: testConfig(t), Log: slog.New(slog.DiscardHandler)}))(t)
	t.Cleanup(func() { _ = g.close(nil) })
	book := &gatewaytest.Log{}
	g.log, g.cfg.ProcessRunner.Enabled = book.Logger(), true
	was := g.isolation
	g.isolation.Choice = sandbox.Choice{
		Backend: &fakeBackend{closed: &closed}, Wanted: sandbox.Full, Lack: "bubblewrap is not installed",
		Status: sandbox.Status{Available: true, Tier: sandbox.TierB, Rung: sandbox.UserNamespaces, Limits: "rlimit", Requested: []string{"a", "b"}, Layers: []string{"a"}, LandlockABI: 4},
	}
	logIsolation(t.Context(), g.log, g.cfg.ProcessRunner, g.isolation.Choice)
	if book.Count("less isolation") != 1 || book.Count("rung=user_namespaces") != 1 {
		t.Error("the log does not say it")
	}
	if !slices.ContainsFunc(notices(g), func(n string) bool { return strings.Contains(n, "instead of full") }) {
		t.Errorf("notices %q", notices(g))
	}
	if n := prepared(g); n != 2 {
		t.Errorf("%d are prepared", n)
	}
	g.isolation = was
}

// TestStatusWithoutPrograms: the status of a gateway that runs no programs names no tier.
// Control: a gateway that runs programs.
func TestStatusWithoutPrograms(t *testing.T) {
	t.Parallel()
	probed := sandbox.Status{Available: true, Tier: sandbox.TierC, Rung: sandbox.Full, Backend: "bubblewrap 0.8.0", Layers: []string{"a"}}
	for enabled, want := range map[bool]sandbox.Status{
		true:  probed,
		false: {Problem: "Running programs is disabled", Remedy: "Set process_runner.enabled = true."},
	} {
		if got := asPrograms(config.ProcessRunner{Enabled: enabled}, probed); !reflect.DeepEqual(got, want) {
			t.Errorf("enabled %t: %+v", enabled, got)
		}
	}
	g := must.Get(build(t.Context(), Options{Config: testConfig(t), Log: slog.New(slog.DiscardHandler)}))(t)
	t.Cleanup(func() { _ = g.close(nil) })
	must.Do(t, g.policies.Loader.Load(t.Context()))
	if st := must.Get(control{g}.Status(t.Context()))(t); st.Sandbox.Tier != "" || !strings.Contains(st.Sandbox.Problem, "disabled") {
		t.Errorf("the status is %+v", st.Sandbox)
	}
}

// TestEventsThatDiscardPreparedSandboxes: prepared sandboxes are discarded when the parameters that
// they were built with may have changed.
func TestEventsThatDiscardPreparedSandboxes(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.Policy.Dir = t.TempDir()
	g := must.Get(build(t.Context(), Options{Config: cfg, Log: slog.New(slog.DiscardHandler)}))(t)
	t.Cleanup(func() { _ = g.close(nil) })
	closed := 0
	fake := &fakeBackend{closed: &closed}
	by := access.Caller{Principal: access.User("local")}
	was := g.isolation
	g.isolation.Backend = fake
	defer func() { g.isolation = was }()
	must.Do(t, g.policies.Loader.Load(t.Context()))
	for _, what := range []struct {
		name string
		do   func() error
		want int
	}{
		{"a reload that changes nothing", func() error {
			return permitted(t, g, change.ReloadPolicy, func(ctx context.Context) error { _, err := g.policies.Loader.Reload(ctx, by); return err })
		}, 0},
		{"other policies", func() error {
			must.Write(t, cfg.Policy.Dir+"/10-own.cedar", "@id(\"own.no-echo\")\n@reason(\"no echo\")\nforbid(principal, action == Action::\"tool.execute/echo\", resource);\n")
			return permitted(t, g, change.ReloadPolicy, func(ctx context.Context) error { _, err := g.policies.Loader.Reload(ctx, by); return err })
		}, 1},
		{"a freeze", func() error { _, _, err := control{g}.Freeze(t.Context(), by, "drill"); return err }, 1},
		{"a thaw", func() error {
			return permitted(t, g, change.Thaw, func(ctx context.Context) error { _, err := control{g}.Thaw(ctx, by); return err })
		}, 1},
	} {
		before := fake.invalidated
		if err := what.do(); err != nil {
			t.Fatalf("%s: %v", what.name, err)
		}
		if got := fake.invalidated - before; got != what.want {
			t.Errorf("%s ended prepared sandboxes %d times, want %d", what.name, got, what.want)
		}
	}
}

// TestGuestsNeedTierC: the worker of WebAssembly guests requires Tier C.
func TestGuestsNeedTierC(t *testing.T) {
	t.Parallel()
	for tier, opens := range map[sandbox.Tier]bool{sandbox.TierC: runtime.GOOS == "linux", sandbox.TierB: false} {
		closed := 0
		g := &gateway{cfg: testConfig(t), log: slog.New(slog.DiscardHandler), parts: &parts{}}
		g.cfg.WASM.Worker = must.Get(os.Executable())(t) // any program; it is not started
		g.isolation.Choice = sandbox.Choice{Backend: &fakeBackend{closed: &closed}, Status: sandbox.Status{Available: true, Tier: tier}}
		g.isolation.watch = g.isolation.Watch(g.log)
		must.Do(t, openGuests(t.Context(), g, Options{}))
		if err := g.guests.ready(); opens != (err == nil) || !opens && reason.Of(err) != reason.SandboxUnavailable && reason.Of(err) != reason.PlatformUnknown {
			t.Errorf("tier %s: %v", tier, err)
		}
		must.Do(t, g.parts.close(t.Context()))
	}
}
