package builtin

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/exec/sandbox"
)

// TestModes: the prompt states which changes a run may make, and the sandbox, facts, profile
// and risk agree with it.
func TestModes(t *testing.T) {
	t.Parallel()
	direct := func(c *Config) {
		c.Process.Workspaces = map[string]WorkspacePolicy{"default": {Direct: true, Protected: []string{"deploy/**"}}}
	}
	for _, row := range []struct {
		name   string
		change func(*Config)
		in     object
		mode   sandbox.WorkspaceMode
		says   string
		note   string
		risk   int
	}{
		{"copy", nil, object{}, sandbox.CopyOnWrite, "git in default", "reach the workspace only if policy allows", riskProcess + riskCopy},
		{"read only", nil, object{"read_only": true}, sandbox.ReadOnly, "git in default", "", riskProcess},
		{"dry run", nil, object{"dry_run": true}, sandbox.CopyOnWrite, "git in default, on a copy that is thrown away", "Nothing that the program changes is committed", riskProcess},
		{"direct", direct, object{}, sandbox.Direct, "git in default, writing to the workspace itself", "may change any file of the workspace", riskProcess + riskDirect},
		{"direct, read only", direct, object{"read_only": true}, sandbox.ReadOnly, "git in default", "", riskProcess},
		{"direct, dry run", direct, object{"dry_run": true}, sandbox.CopyOnWrite, "git in default, on a copy that is thrown away", "Nothing that the program changes is committed", riskProcess},
	} {
		t.Run(row.name, func(t *testing.T) {
			b, r, _ := processBench(t, row.change)
			row.in["argv"] = []string{"git"}
			plan := must.Get(b.plan("process.run", row.in))(t)
			notes := strings.Join(plan.Preview.Notes, "\n")
			if plan.Facts.WorkspaceMode != string(row.mode) || plan.Facts.Risk != row.risk || !strings.Contains(plan.Binding.SandboxProfile, " workspace="+string(row.mode)+" ") {
				t.Errorf("facts %+v, profile %q", plan.Facts, plan.Binding.SandboxProfile)
			}
			if plan.Preview.Summary != row.says || !strings.Contains(notes, row.note) {
				t.Errorf("summary %q, notes %q", plan.Preview.Summary, notes)
			}
			if strings.Contains(notes, "may change any file") != (row.mode == sandbox.Direct) {
				t.Errorf("only a direct run may change any file: %q", notes)
			}
			b.call(context.Background(), "process.run", row.in)
			if s := r.specs[0]; s.Workspace != row.mode || (row.change != nil) != slices.Equal(s.Protected, []string{"deploy/**"}) {
				t.Errorf("spec %+v", s)
			}
		})
	}
}

// TestCopiesNeedTheLayer: a machine without overlays runs no program on a copy, and refuses
// such a call before an approval.
func TestCopiesNeedTheLayer(t *testing.T) {
	t.Parallel()
	b, _, _ := processBench(t, func(c *Config) { c.Sandbox.Layers = []string{"network_namespace"} })
	b.refused("process.run", object{"argv": []string{"git"}}, reason.SandboxUnavailable)
	b.refused("process.run", object{"argv": []string{"git"}, "dry_run": true}, reason.SandboxUnavailable)
	if _, err := b.plan("process.run", object{"argv": []string{"git"}, "read_only": true}); err != nil {
		t.Errorf("without a copy: %v", err)
	}
}

// following is a runner whose status follows the current state of the machine.
type following struct {
	sandbox.Runner
	status sandbox.Status
}

func (f *following) Status() sandbox.Status { return f.status }

func TestStatusReportsTheRunner(t *testing.T) {
	t.Parallel()
	var now *following
	b, _, _ := processBench(t, func(c *Config) {
		now = &following{c.Runner, c.Sandbox}
		c.Runner = now
	})
	in := object{"argv": []string{"git"}}
	must.Get(b.plan("process.run", in))(t)
	works := now.status
	now.status = sandbox.Status{Problem: "/dev/null is a regular file", Remedy: "Mend it."}
	_, err := b.plan("process.run", in)
	var known *reason.Error
	if !errors.As(err, &known) || known.Code != reason.SandboxUnavailable || known.Message != now.status.Problem || !strings.Contains(known.Remedy, "Mend it.") {
		t.Errorf("while sandboxes fail: %v", err)
	}
	now.status = works
	must.Get(b.plan("process.run", in))(t)
}

func TestRequiredLayers(t *testing.T) {
	t.Parallel()
	b, r, _ := processBench(t, func(c *Config) { c.Process.Required = []string{"network_namespace"} })
	in := object{"argv": []string{"git"}, "read_only": true}
	b.call(context.Background(), "process.run", in)
	if s := r.specs[0]; !slices.Equal(s.Required, []string{"network_namespace"}) {
		t.Errorf("spec %+v", s)
	}
	lacking, _, _ := processBench(t, func(c *Config) { c.Process.Required = []string{"network_namespace", "landlock"} })
	_, err := lacking.plan("process.run", in)
	if reason.Of(err) != reason.SandboxUnavailable || !strings.Contains(err.Error(), "the layer landlock is required") {
		t.Errorf("a required layer that is missing: %v", err)
	}
}

// TestLowerIsolationIsReported: an isolation lower than Tier C is always reported.
func TestLowerIsolationIsReported(t *testing.T) {
	t.Parallel()
	b, r, _ := processBench(t, func(c *Config) {
		c.Sandbox.Tier, c.Sandbox.Rung, c.Sandbox.Limits = sandbox.TierB, sandbox.UserNamespaces, "rlimit"
	})
	in := object{"argv": []string{"git"}, "read_only": true}
	plan := must.Get(b.plan("process.run", in))(t)
	if f := plan.Facts; f.SandboxTier != "b" || f.SandboxRung != "user_namespaces" || f.SandboxLimits != "rlimit" || f.Risk != riskProcess+riskLowerRung ||
		!slices.Equal(f.SandboxLayers, []string{"copy_on_write", "network_namespace"}) || !strings.HasPrefix(plan.Binding.SandboxProfile, "tier=b rung=user_namespaces ") {
		t.Errorf("facts %+v, profile %s", f, plan.Binding.SandboxProfile)
	}
	if notes := strings.Join(plan.Preview.Notes, "\n"); !strings.Contains(notes, "less isolation than Tier C") {
		t.Errorf("notes %q", notes)
	}
	r.report.Tier, r.report.Rung = sandbox.TierB, sandbox.UserNamespaces
	if report, _ := b.call(context.Background(), "process.run", in); report.Executor.Name != tool.TierB || report.Executor.Tier != "b" {
		t.Errorf("executor %+v", report.Executor)
	}
}

// TestExecutorOfEachSystem: a definition names the best sandbox of the system.
func TestExecutorOfEachSystem(t *testing.T) {
	t.Parallel()
	for system, want := range map[string]tool.Executor{"linux": tool.TierCBubblewrap, "darwin": tool.TierCSeatbelt, "windows": tool.TierB} {
		if got := executorOn(system); got != want {
			t.Errorf("%s: %s, want %s", system, got, want)
		}
	}
}
