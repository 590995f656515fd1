package daemon

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"palyra/internal/access"
	"palyra/internal/config"
	"palyra/internal/sandbox"
)

// fakeBackend is a backend that reports what it is told to.
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

func TestLadder(t *testing.T) {
	works := func(tier sandbox.Tier, rung sandbox.Isolation) sandbox.Status {
		return sandbox.Status{Available: true, Tier: tier, Rung: rung}
	}
	lacks := sandbox.Status{Problem: "bubblewrap is not installed", Remedy: "Install it."}
	for _, row := range []struct {
		name    string
		runner  config.ProcessRunner
		steps   []sandbox.Status
		want    sandbox.Status
		lowered string
	}{
		{"Tier C", config.ProcessRunner{Tier: "c", Fallback: "none"}, []sandbox.Status{works("c", sandbox.Full)}, works("c", sandbox.Full), ""},
		{"nothing may stand in", config.ProcessRunner{Tier: "c", Fallback: "none"}, []sandbox.Status{lacks}, lacks, ""},
		{"Tier C although less would do", config.ProcessRunner{Tier: "c", Fallback: "landlock"}, []sandbox.Status{works("c", sandbox.Full), works("b", sandbox.UserNamespaces)}, works("c", sandbox.Full), ""},
		{
			"user namespaces stand in", config.ProcessRunner{Tier: "c", Fallback: "user_namespaces"}, []sandbox.Status{lacks, works("b", sandbox.UserNamespaces)},
			works("b", sandbox.UserNamespaces), "Tier b on the rung user_namespaces instead of full: bubblewrap is not installed",
		},
		{
			"Landlock stands in", config.ProcessRunner{Tier: "c", Fallback: "landlock"}, []sandbox.Status{lacks, works("b", sandbox.Landlocked)},
			works("b", sandbox.Landlocked), "on the rung landlock instead of full",
		},
		{
			"below what is allowed", config.ProcessRunner{Tier: "c", Fallback: "user_namespaces"}, []sandbox.Status{lacks, works("b", sandbox.Landlocked)},
			lacks, "",
		},
		{"Tier B", config.ProcessRunner{Tier: "b", Fallback: "none"}, []sandbox.Status{works("b", sandbox.UserNamespaces)}, works("b", sandbox.UserNamespaces), ""},
		{
			"Tier B with less", config.ProcessRunner{Tier: "b", Fallback: "landlock"}, []sandbox.Status{works("b", sandbox.Landlocked)},
			works("b", sandbox.Landlocked), "on the rung landlock instead of user_namespaces",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			opened, closed := 0, 0
			var steps []step
			rung := sandbox.Full
			if row.runner.Tier == config.TierB {
				rung = sandbox.UserNamespaces
			}
			for _, status := range row.steps {
				steps = append(steps, step{rung, func() (backend, error) { opened++; return &fakeBackend{status: status, closed: &closed}, nil }})
				rung = sandbox.UserNamespaces
			}
			b, err := chooseBox(t.Context(), steps, lowest(row.runner))
			if err != nil {
				t.Fatal(err)
			}
			if b.status.Available != row.want.Available || b.status.Rung != row.want.Rung || b.status.Problem != row.want.Problem {
				t.Errorf("chose %+v, want %+v", b.status, row.want)
			}
			if got := b.lowered(); (got == "") != (row.lowered == "") || !strings.Contains(got, row.lowered) {
				t.Errorf("it says %q, want %q", got, row.lowered)
			}
			if closed != opened-1 {
				t.Errorf("%d backends were opened and %d closed", opened, closed)
			}
		})
	}
	// A rung below the lowest is no sandbox, and says what to set.
	closed := 0
	alone := []step{{sandbox.UserNamespaces, func() (backend, error) {
		return &fakeBackend{status: works("b", sandbox.Landlocked), closed: &closed}, nil
	}}}
	b, err := chooseBox(t.Context(), alone, lowest(config.ProcessRunner{Tier: "b", Fallback: "none"}))
	if err != nil || b.status.Available || !strings.Contains(b.status.Remedy, `fallback = "landlock"`) {
		t.Errorf("below the lowest rung: %+v, %v", b.status, err)
	}
}

// TestLessIsNeverSilent: log, status and notices say what programs get.
func TestLessIsNeverSilent(t *testing.T) {
	closed := 0
	g, err := build(t.Context(), Options{Config: testConfig(t), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.close(nil) })
	book := &logBook{}
	g.log, g.cfg.ProcessRunner.Enabled = book.logger(), true
	was := g.box
	g.box = box{
		backend: &fakeBackend{closed: &closed}, wanted: sandbox.Full, lack: "bubblewrap is not installed", caches: was.caches,
		status: sandbox.Status{Available: true, Tier: sandbox.TierB, Rung: sandbox.UserNamespaces, Limits: "rlimit", Requested: []string{"a", "b"}, Layers: []string{"a"}, LandlockABI: 4},
	}
	g.sayBox(t.Context())
	if book.count("less isolation") != 1 || book.count("rung=user_namespaces") != 1 {
		t.Error("the log does not say it")
	}
	if !slices.ContainsFunc(g.notices(), func(n string) bool { return strings.Contains(n, "instead of full") }) {
		t.Errorf("notices %q", g.notices())
	}
	s := g.sandboxStatus()
	if s.GetTier() != "b" || s.GetRung() != "user_namespaces" || !slices.Equal(s.GetMissingLayers(), []string{"b"}) || s.GetLandlockAbi() != 4 || s.GetPrepared() != 2 {
		t.Errorf("status %v", s)
	}
	g.box = was
}

// TestWhatEndsPreparedSandboxes: what they were built for may have changed.
func TestWhatEndsPreparedSandboxes(t *testing.T) {
	cfg := testConfig(t)
	cfg.Policy.Dir = t.TempDir()
	g, err := build(t.Context(), Options{Config: cfg, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.close(nil) })
	closed := 0
	fake := &fakeBackend{closed: &closed}
	by := access.Caller{Principal: access.User("local")}
	was := g.box
	g.box.backend = fake
	defer func() { g.box = was }()
	if err := g.policies.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, what := range []struct {
		name string
		do   func() error
		want int
	}{
		{"a reload that changes nothing", func() error { _, err := g.policies.reload(t.Context(), "x"); return err }, 0},
		{"other policies", func() error {
			write(t, cfg.Policy.Dir+"/10-own.cedar", "@id(\"own.no-echo\")\n@reason(\"no echo\")\nforbid(principal, action == Action::\"tool.execute/echo\", resource);\n")
			_, err := g.policies.reload(t.Context(), "x")
			return err
		}, 1},
		{"a freeze", func() error { _, _, err := g.Freeze(t.Context(), by, "drill"); return err }, 1},
		{"a thaw", func() error { _, err := g.Thaw(t.Context(), by); return err }, 1},
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

// TestLayerExams: a layer is in force only when the forbidden thing was denied
// with it and happened without it.
func TestLayerExams(t *testing.T) {
	for _, row := range []struct {
		e        sandbox.Examination
		required []string
		want     string
		says     string
	}{
		{sandbox.Examination{Layer: "seccomp", Denied: true, Control: true, Detail: "mount gave EPERM"}, nil, examOK, "mount gave EPERM"},
		{sandbox.Examination{Layer: "seccomp", Denied: true, Control: false, Detail: "mount"}, nil, examWarning, "proves nothing"},
		{sandbox.Examination{Layer: "seccomp", Denied: false, Control: true, Detail: "mount"}, nil, examFailed, "the forbidden thing happened: mount"},
		{sandbox.Examination{Layer: "landlock", Problem: "the kernel has none", Remedy: "A newer kernel."}, nil, examWarning, "the kernel has none"},
		{sandbox.Examination{Layer: "landlock", Problem: "the kernel has none"}, []string{"landlock"}, examFailed, "the kernel has none"},
	} {
		if got := layerExam(row.e, row.required); got.Result != row.want || !strings.Contains(got.Detail, row.says) || got.Remedy != row.e.Remedy || got.Name != "layer: "+row.e.Layer {
			t.Errorf("%+v gives %+v", row.e, got)
		}
	}
}

func TestBubblewrapFinding(t *testing.T) {
	for backend, want := range map[string]string{
		"bubblewrap 0.8.0": "does not depend on the fix", "bubblewrap 0.11.2": "does not depend on the fix", "bubblewrap 0.12.0": "which has the fix", "bubblewrap 1.0": "which has the fix",
		"seatbelt": "not used",
	} {
		if f := bubblewrapFinding(sandbox.Status{Backend: backend}); !strings.Contains(f.detail, want) {
			t.Errorf("%s: %q, want %q", backend, f.detail, want)
		}
	}
}
