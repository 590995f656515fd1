package builtin

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/workspace/overlay"
)

// runner is a sandbox that behaves correctly: it records the spec, passes on the output, and
// returns the given result.
type runner struct {
	specs  []sandbox.Spec
	report sandbox.Report
	err    error
	// during runs while the program runs.
	during func()
	// layer returns the copy of a run, with the program's changes.
	layer func() *overlay.Layer
}

func (r *runner) Probe(context.Context) sandbox.Status { return sandbox.Status{Available: true} }

func (r *runner) Examine(context.Context) []sandbox.Examination { return nil }

func (r *runner) Run(ctx context.Context, s sandbox.Spec) (sandbox.Report, error) {
	r.specs = append(r.specs, s)
	if r.err != nil {
		return r.report, r.err
	}
	report := r.report
	report.Started = time.Now()
	if s.Output != nil {
		s.Output("stdout", report.Stdout.Head)
	}
	if r.during != nil {
		r.during()
	}
	if r.layer != nil {
		report.Layer = r.layer()
	}
	report.Finished = time.Now()
	report.Backend = "fake 1"
	return report, ctx.Err()
}

func exit(code int) *int { return &code }

// TestOwnerIsTheCaller: the owner of a sandbox is the caller, so that prepared sandboxes are
// separate for each caller.
func TestOwnerIsTheCaller(t *testing.T) {
	t.Parallel()
	b, r, _ := processBench(t, nil)
	for i, caller := range []access.Principal{access.Agent("one"), access.Agent("two"), access.User("one")} {
		p := must.Get(b.propose("process.run", object{"argv": []string{"git"}}))(t)
		p.Caller.Principal = caller
		plan := must.Get(b.tools["process.run"].Plan(t.Context(), p))(t)
		if report := b.run(t.Context(), tool.Call{Proposal: p, Plan: plan}); report.Outcome != tool.Succeeded {
			t.Errorf("%+v", report)
		}
		if got := r.specs[i].Owner; got != caller.String() {
			t.Errorf("the sandbox of %s is for %q", caller, got)
		}
	}
}

// processBench returns a bench with its own programs in the search path.
func processBench(t *testing.T, change func(*Config)) (*bench, *runner, string) {
	t.Helper()
	r := &runner{report: sandbox.Report{ExitCode: exit(0), Applied: []string{"network_namespace"}, Requested: []string{"network_namespace"}, Tier: sandbox.TierC, Rung: sandbox.Full}}
	bin := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	for _, name := range []string{"git", "python3.12", "bash", "dash", "tool"} {
		must.Do(t, os.WriteFile(filepath.Join(bin, name), []byte("\x7fELF"+name), 0o755))
	}
	link(t, "python3.12", filepath.Join(bin, "python"))
	link(t, "bash", filepath.Join(bin, "innocent"))
	link(t, "dash", filepath.Join(bin, "sh"))
	b := newBench(t, func(c *Config) {
		c.Runner = r
		c.Sandbox = sandbox.Status{
			Available: true, Tier: sandbox.TierC, Rung: sandbox.Full, Limits: "cgroup_v2",
			Requested: []string{"network_namespace", "copy_on_write"}, Layers: []string{"network_namespace", "copy_on_write"},
		}
		c.Process = ProcessPolicy{Enabled: true, SearchPath: []string{bin}}
		if change != nil {
			change(c)
		}
	})
	return b, r, bin
}

func TestProcessRun(t *testing.T) {
	t.Parallel()
	b, r, bin := processBench(t, nil)
	b.write("src/f.txt", "x")
	r.report.ExitCode = exit(3)
	r.report.Stdout = sandbox.Stream{Head: []byte("out\n"), Total: 4, SHA256: "sha256:x"}
	r.report.Stderr = sandbox.Stream{Head: []byte("\xff"), Tail: []byte("end"), Total: 900, SHA256: "sha256:all", KeptSHA256: "sha256:kept", Truncated: true}
	in := object{"argv": []string{"git", "log", "f.txt"}, "cwd": "src", "env": object{"B": "2", "A": "1"}, "stdin": "in", "timeout_ms": 5000, "read_only": true}
	plan := must.Get(b.plan("process.run", in))(t)
	bind := plan.Binding
	if bind.Cwd != "default:src" || !slices.Equal(bind.Argv, []string{"git", "log", "f.txt"}) || !slices.Equal(bind.Environment, []string{"A=1", "B=2"}) ||
		bind.Executable.Path != filepath.Join(bin, "git") || !strings.HasPrefix(bind.Executable.SHA256, "sha256:") || !slices.Equal(bind.Egress, []string{"strict"}) ||
		!strings.HasPrefix(bind.SandboxProfile, "tier=c rung=full workspace=read_only dry_run=false caches= toolchains= required= wall_ms=5000 ") {
		t.Errorf("binding %+v", bind)
	}
	if len(bind.Operands) != 1 || bind.Operands[0].Path != "src/f.txt" {
		t.Errorf("operands %+v", bind.Operands)
	}
	if plan.Subject != "process.run:"+filepath.Join(bin, "git")+"@default" || plan.Facts.Risk != riskProcess || plan.Facts.Exec.Basename != "git" || plan.Facts.SandboxTier != "c" {
		t.Errorf("plan %+v", plan)
	}
	report, result := b.call(context.Background(), "process.run", in)
	if report.Outcome != tool.Succeeded || *report.ExitCode != 3 || result["exit_code"] != 3.0 {
		t.Errorf("a non-zero exit is a result: %+v", report)
	}
	if out := result["stdout"].(object); out["content"] != "out\n" || out["encoding"] != "utf-8" {
		t.Errorf("stdout %v", out)
	}
	if out := result["stderr"].(object); out["content"] != "/w==" || out["tail"] != "ZW5k" || out["encoding"] != "base64" || out["truncated"] != true {
		t.Errorf("stderr %v", out)
	}
	if o := report.Outputs; o.StderrSHA256 != "sha256:all" || o.StderrKeptSHA256 != "sha256:kept" || o.StdoutKeptSHA256 != "" || !o.Truncated {
		t.Errorf("outputs %+v", o)
	}
	s := r.specs[0]
	if s.WorkspaceRoot != b.dir || s.Workspace != sandbox.ReadOnly || s.Cwd != "src" || string(s.Stdin) != "in" || s.Limits.Wall != 5*time.Second || s.Egress != egress.Strict {
		t.Errorf("spec %+v", s)
	}
	if report.Isolation == nil || report.Enforcement.Level != "strict" || report.Executor.Backend != "fake 1" || report.Executor.Tier != "c" {
		t.Errorf("report %+v", report)
	}
}

func TestProcessEndings(t *testing.T) {
	t.Parallel()
	in := object{"argv": []string{"git"}}
	t.Run("deadline", func(t *testing.T) {
		b, r, _ := processBench(t, nil)
		r.report = sandbox.Report{TimedOut: true, Stdout: sandbox.Stream{Head: []byte("so far")}}
		report, result := b.call(context.Background(), "process.run", in)
		if report.Outcome != tool.TimedOut || report.Reason != string(reason.TimedOut) || result["stdout"].(object)["content"] != "so far" ||
			result["error"].(object)["reason"] != "TIMED_OUT" || report.Enforcement.Level != "none" {
			t.Errorf("%+v %v", report, result)
		}
	})
	t.Run("quota", func(t *testing.T) {
		b, r, _ := processBench(t, nil)
		r.report = sandbox.Report{Quota: sandbox.QuotaMemory}
		report, result := b.call(context.Background(), "process.run", in)
		if report.Outcome != tool.Failed || report.Reason != string(reason.QuotaExceeded) || result["quota"] != "memory" {
			t.Errorf("%+v %v", report, result)
		}
	})
	t.Run("limits that were reached", func(t *testing.T) {
		for _, c := range []struct {
			use           tool.LimitUse
			quota         string
			text, setting string
		}{
			{tool.LimitUse{Limit: "memory", Unit: "bytes", Allowed: 128 << 20, Used: 128 << 20, Effect: tool.LimitEnded}, "memory", "it used 128 MiB, and 128 MiB are allowed", "process_runner.memory_limit_bytes"},
			{tool.LimitUse{Limit: "memory", Unit: "bytes", Allowed: 128 << 20, Used: 1 << 20, Effect: tool.LimitEnded}, "memory", "all programs together left too little memory", "process_runner.max_concurrent"},
			{tool.LimitUse{Limit: "processes", Unit: "count", Allowed: 64, Used: 64, Effect: tool.LimitRefused, Refused: 7}, "", "refused 7 new processes or threads at the limit of 64", "process_runner.max_processes"},
			{tool.LimitUse{Limit: "open_files", Unit: "count", Allowed: 1024, Effect: tool.LimitReported}, "", "1024 for open files", "fixed"},
			{tool.LimitUse{Limit: "cpu", Unit: "ms", Allowed: 60000, Used: 20}, "", "", ""}, // control: not reached
		} {
			b, r, _ := processBench(t, nil)
			r.report.Quota, r.report.Limits = c.quota, []tool.LimitUse{c.use}
			if c.quota != "" {
				r.report.ExitCode = nil
			}
			report, result := b.call(context.Background(), "process.run", in)
			printed := fmt.Sprint(result["error"], result["notes"])
			list, _ := result["limits"].([]any)
			if reached := c.use.Effect != ""; len(report.Limits) != len(list) || (len(list) == 1) != reached || !strings.Contains(printed, c.text) || !strings.Contains(printed, c.setting) {
				t.Errorf("%+v: %v, %v, %v", c.use, report.Limits, list, printed)
			}
		}
	})
	t.Run("a layer is missing", func(t *testing.T) {
		b, r, _ := processBench(t, nil)
		r.report.Requested, r.report.Downgrades = []string{"network_namespace", "landlock"}, []string{"landlock: no"}
		if report, _ := b.call(context.Background(), "process.run", in); report.Enforcement.Level != sandbox.LevelNone {
			t.Errorf("%+v", report.Enforcement)
		}
	})
	t.Run("limits hold per process", func(t *testing.T) {
		b, r, _ := processBench(t, nil)
		r.report.Requested, r.report.Downgrades = []string{"network_namespace", sandbox.ControlGroup}, []string{"control_group: no"}
		report, _ := b.call(context.Background(), "process.run", in)
		if report.Enforcement.Level != sandbox.LevelStrict || len(report.Enforcement.Downgrades) != 1 {
			t.Errorf("%+v", report.Enforcement)
		}
	})
	t.Run("no sandbox", func(t *testing.T) {
		b, r, _ := processBench(t, nil)
		r.report, r.err = sandbox.Report{}, reason.Errorf(reason.SandboxUnavailable, "no bwrap")
		report, result := b.call(context.Background(), "process.run", in)
		if report.Outcome != tool.Failed || report.Reason != string(reason.SandboxUnavailable) || report.Isolation != nil || result["error"] == nil {
			t.Errorf("%+v %v", report, result)
		}
	})
	t.Run("frozen", func(t *testing.T) {
		b, _, _ := processBench(t, nil)
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(reason.Errorf(reason.GatewayFrozen, "an operator froze the gateway"))
		report, _ := b.call(ctx, "process.run", in)
		if report.Outcome != tool.Stopped || report.Reason != string(reason.GatewayFrozen) {
			t.Errorf("%+v", report)
		}
	})
}

// TestProcessCommandLine: the displayed command line distinguishes other programs from a
// program in the search path.
func TestProcessCommandLine(t *testing.T) {
	t.Parallel()
	b, _, bin := processBench(t, nil)
	elsewhere := filepath.Join(t.TempDir(), "git")
	must.Do(t, os.WriteFile(elsewhere, []byte("\x7fELFother"), 0o755))
	b.write("tools/git", "\x7fELFown")
	must.Do(t, os.Chmod(filepath.Join(b.dir, "tools/git"), 0o755))
	link(t, "git", filepath.Join(bin, "git-push"))
	for _, c := range []struct {
		argv []string
		want tool.ExecFacts
	}{
		{[]string{"git", "commit", "-m", "two words"}, tool.ExecFacts{Line: "git commit -m 'two words'", Arg1: "commit"}},
		{[]string{filepath.Join(bin, "git"), "status"}, tool.ExecFacts{Line: "git status", Arg1: "status"}},
		{[]string{filepath.Join(bin, "git-push"), "status"}, tool.ExecFacts{Line: "git-push status"}},
		{[]string{elsewhere, "status"}, tool.ExecFacts{Line: elsewhere + " status", Arg1: "status"}},
		{[]string{"tools/git", "status"}, tool.ExecFacts{Line: "./tools/git status", Arg1: "status"}},
		{[]string{"git", "-C", "status", "push"}, tool.ExecFacts{Line: "git -C status push", Arg1: "push"}},
		{[]string{"git", strings.Repeat("x", longestLine)}, tool.ExecFacts{}},
	} {
		e := must.Get(b.plan("process.run", object{"argv": c.argv}))(t).Facts.Exec
		if e.Line != c.want.Line || e.Arg1 != c.want.Arg1 || e.Arg2 != "" {
			t.Errorf("%.60q: line %.60q, arg1 %q, arg2 %q", c.argv, e.Line, e.Arg1, e.Arg2)
		}
	}
}
