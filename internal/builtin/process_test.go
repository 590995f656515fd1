package builtin

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra/internal/access"
	"palyra/internal/egress"
	"palyra/internal/must"
	"palyra/internal/reason"
	"palyra/internal/sandbox"
	"palyra/internal/tool"
	"palyra/internal/workspace/overlay"
)

// runner is a sandbox that behaves: it notes the spec, passes output on as it
// comes, and reports what it is told to.
type runner struct {
	specs  []sandbox.Spec
	report sandbox.Report
	err    error
	// during happens while the program runs.
	during func()
	// layer gives a run its copy, with what the program wrote.
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

// TestOwnerIsTheCaller: sandboxes that wait are told apart by whom they are for.
func TestOwnerIsTheCaller(t *testing.T) {
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

// processBench has a search path with programs of its own.
func processBench(t *testing.T, change func(*Config)) (*bench, *runner, string) {
	t.Helper()
	r := &runner{report: sandbox.Report{ExitCode: exit(0), Applied: []string{"network_namespace"}, Requested: []string{"network_namespace"}, Tier: sandbox.TierC, Rung: sandbox.Full}}
	bin := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	for _, name := range []string{"git", "python3.12", "bash", "tool"} {
		must.Do(t, os.WriteFile(filepath.Join(bin, name), []byte("\x7fELF"+name), 0o755))
	}
	link(t, "python3.12", filepath.Join(bin, "python"))
	link(t, "bash", filepath.Join(bin, "innocent"))
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

func TestProcessBindingChanges(t *testing.T) {
	b, r, bin := processBench(t, nil)
	b.write("script", "one")
	p := must.Get(b.propose("process.run", object{"argv": []string{"git", "script"}}))(t)
	plan := func() tool.Plan {
		return must.Get(b.tools["process.run"].Plan(context.Background(), p))(t)
	}
	digest := func(p tool.Plan) string { d, _ := p.Binding.Digest(); return d }
	first := plan()
	if digest(first) != digest(plan()) {
		t.Error("planning twice gives two digests")
	}
	b.write("script", "two")
	if digest(first) == digest(plan()) {
		t.Error("the digest does not depend on the operand")
	}
	second := plan()
	must.Do(t, os.WriteFile(filepath.Join(bin, "git"), []byte("\x7fELFevil"), 0o755))
	if digest(second) == digest(plan()) {
		t.Error("the digest does not depend on the executable")
	}
	if report := b.run(context.Background(), tool.Call{Proposal: p, Plan: second}); report.Reason != string(reason.BindingMismatch) || len(r.specs) != 0 {
		t.Errorf("another executable than was planned: %+v", report)
	}
}

// TestOperandsChangeDuringTheRun: an attestation must not state a digest of what
// did not run.
func TestOperandsChangeDuringTheRun(t *testing.T) {
	in := object{"argv": []string{"git", "sub/script", "other", "later"}, "cwd": ".", "read_only": true}
	for name, c := range map[string]struct {
		change func(b *bench)
		paths  []string
	}{
		"content": {func(b *bench) { b.write("sub/script", "two") }, []string{"sub/script"}},
		"gone":    {func(b *bench) { _ = os.Remove(filepath.Join(b.dir, "other")) }, []string{"other"}},
		"both":    {func(b *bench) { b.write("sub/script", "two"); b.write("other", "2") }, []string{"other", "sub/script"}},
		"appears": {func(b *bench) { b.write("later", "x") }, []string{"later"}},
		// Negative control: nothing that is bound changes.
		"nothing": {func(b *bench) { b.write("new", "x"); b.write("sub/script", "one") }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			b, r, _ := processBench(t, nil)
			b.write("sub/script", "one")
			b.write("other", "1")
			r.report.Downgrades = append(make([]string, 0, 8), "control_group: no")
			r.during = func() { c.change(b) }
			report, result := b.call(context.Background(), "process.run", in)
			want := []string{"control_group: no"}
			for _, p := range c.paths {
				want = append(want, "operand changed during the run: "+p)
			}
			if report.Outcome != tool.Succeeded || !slices.Equal(report.Enforcement.Downgrades, want) {
				t.Errorf("downgrades %q, want %q (%s)", report.Enforcement.Downgrades, want, report.Message)
			}
			level := sandbox.LevelStrict
			if c.paths != nil {
				level = sandbox.LevelNone
			}
			notes, _ := result["notes"].([]any)
			if report.Enforcement.Level != level || len(notes) != min(1, len(c.paths)) {
				t.Errorf("level %s, notes %v", report.Enforcement.Level, notes)
			}
		})
	}
}

func TestOperandsChangeBeforeTheRun(t *testing.T) {
	for name, change := range map[string]func(b *bench){
		"content": func(b *bench) { b.write("sub/script", "two") },
		"gone":    func(b *bench) { _ = os.Remove(filepath.Join(b.dir, "sub", "script")) },
		"new":     func(b *bench) { b.write("sub/later", "x") },
		"cwd": func(b *bench) {
			must.Do(b.t, os.Rename(filepath.Join(b.dir, "sub"), filepath.Join(b.dir, "moved")))
			link(b.t, "moved", filepath.Join(b.dir, "sub"))
		},
		"nothing": func(*bench) {},
	} {
		t.Run(name, func(t *testing.T) {
			b, r, _ := processBench(t, nil)
			b.write("sub/script", "one")
			p := must.Get(b.propose("process.run", object{"argv": []string{"git", "script", "later"}, "cwd": "sub"}))(t)
			plan := must.Get(b.tools["process.run"].Plan(context.Background(), p))(t)
			change(b)
			report := b.run(context.Background(), tool.Call{Proposal: p, Plan: plan})
			refused := report.Reason == string(reason.BindingMismatch) && len(r.specs) == 0
			if refused != (name != "nothing") {
				t.Errorf("report %+v, %d runs", report, len(r.specs))
			}
			if name == "cwd" && !strings.Contains(report.Message, "path") {
				t.Errorf("the changed directory is not named: %s", report.Message)
			}
		})
	}
}

// TestOwnProgramsAreNoSystemPrograms: a workspace file has no name that a policy
// gives to a program of the machine, and a copy of a shell is a shell.
func TestOwnProgramsAreNoSystemPrograms(t *testing.T) {
	b, _, _ := processBench(t, func(c *Config) { c.Process.AllowInterpreters = new(false) })
	for name, content := range map[string]string{"git": "\x7fELFgit, not", "d/python3x": "\x7fELFown", "tool": "\x7fELFbash", "snake": "\x7fELFpython3.12"} {
		b.write(name, content)
		must.Do(t, os.Chmod(filepath.Join(b.dir, name), 0o755))
	}
	for argv0, want := range map[string]string{
		"./git": "./git", "/workspace/git": "./git", "d/../git": "./git", filepath.Join(b.dir, "git"): "./git", "d/python3x": "./d/python3x",
		"git": "git", // control: the one of the search path
	} {
		plan := must.Get(b.plan("process.run", object{"argv": []string{argv0}}))(t)
		if e := plan.Facts.Exec; e.Basename != want || !filepath.IsAbs(e.Path) {
			t.Errorf("%s: %+v, want the name %q", argv0, e, want)
		}
		if own := strings.HasPrefix(want, "./"); own != (plan.Facts.Exec.Origin == tool.OriginWorkspace) || own != plan.Facts.Exec.InWorkspace {
			t.Errorf("%s: the origin is %q", argv0, plan.Facts.Exec.Origin)
		}
	}
	b.refused("process.run", object{"argv": []string{"./tool", "-c", "id"}}, reason.ExecutableDenied)
	b.refused("process.run", object{"argv": []string{"./snake", "x.py"}}, reason.ExecutableDenied)
	open, _, _ := processBench(t, func(c *Config) { c.Process.AllowInterpreters = new(true) })
	open.write("snake", "\x7fELFpython3.12")
	must.Do(t, os.Chmod(filepath.Join(open.dir, "snake"), 0o755))
	open.refused("process.run", object{"argv": []string{"./snake", "-c", "1"}}, reason.InlineCode)
	open.refused("process.run", object{"argv": []string{"./snake"}, "stdin": "1"}, reason.InlineCode)
}

// TestNpmIsItsScript: what policies of npm read, as docs/policy.md has it, in the
// layouts of Debian's package and of nodejs.org and nvm, where npm is a link to a
// script for node, and where npm is a script of that name.
func TestNpmIsItsScript(t *testing.T) {
	for layout, row := range map[string]struct{ file, target, basename string }{
		"Debian":             {"share/nodejs/npm/bin/npm-cli.js", "../share/nodejs/npm/bin/npm-cli.js", "npm-cli.js"},
		"nodejs.org and nvm": {"lib/node_modules/npm/bin/npm-cli.js", "../lib/node_modules/npm/bin/npm-cli.js", "npm-cli.js"},
		"a script":           {"bin/npm", "", "npm"},
	} {
		t.Run(layout, func(t *testing.T) {
			root := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
			bin, file := filepath.Join(root, "bin"), filepath.Join(root, filepath.FromSlash(row.file))
			must.Do(t, os.MkdirAll(bin, 0o755))
			must.Do(t, os.MkdirAll(filepath.Dir(file), 0o755))
			must.Do(t, os.WriteFile(file, []byte("#!/usr/bin/env node\n"), 0o755))
			if row.target != "" {
				link(t, row.target, filepath.Join(bin, "npm"))
			}
			b, _, _ := processBench(t, func(c *Config) { c.Process.SearchPath = []string{bin} })
			plan := must.Get(b.plan("process.run", object{"argv": []string{"npm", "install"}}))(t)
			if e := plan.Facts.Exec; e.Basename != row.basename || e.Path != file || e.Shebang != "node" || e.Line != "npm install" {
				t.Errorf("policy reads %+v", e)
			}
			if !strings.Contains(string(must.Get(os.ReadFile("../../docs/policy.md"))(t)), "basename: "+row.basename+", ") {
				t.Errorf("docs/policy.md has no test of %s", row.basename)
			}
		})
	}
}

// TestModes: the prompt says what a run may change, and the sandbox, facts,
// profile and risk agree with it.
func TestModes(t *testing.T) {
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
		{"copy", nil, object{}, sandbox.CopyOnWrite, "git in default", "reaches the workspace only if policy allows", riskProcess + riskCopy},
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

// TestCopiesNeedTheLayer: a machine without overlays runs nothing on a copy, and
// says so before anybody is asked.
func TestCopiesNeedTheLayer(t *testing.T) {
	b, _, _ := processBench(t, func(c *Config) { c.Sandbox.Layers = []string{"network_namespace"} })
	b.refused("process.run", object{"argv": []string{"git"}}, reason.SandboxUnavailable)
	b.refused("process.run", object{"argv": []string{"git"}, "dry_run": true}, reason.SandboxUnavailable)
	if _, err := b.plan("process.run", object{"argv": []string{"git"}, "read_only": true}); err != nil {
		t.Errorf("without a copy: %v", err)
	}
}

// following is a runner whose status follows the machine.
type following struct {
	sandbox.Runner
	status sandbox.Status
}

func (f *following) Status() sandbox.Status { return f.status }

// What the machine gives now counts, and not what it gave at the start.
func TestStatusIsTheMachines(t *testing.T) {
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

// TestLowerRungIsAFact: what a machine gives instead of Tier C is never silent.
func TestLowerRungIsAFact(t *testing.T) {
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

// TestOrderOfErrors: a call with every fault is refused for the first of them,
// and mending one shows the next.
func TestOrderOfErrors(t *testing.T) {
	settings := func(c *Config) { c.Process.Enabled, c.Sandbox.Available = false, false }
	in := object{"argv": []string{"bash", "-c", "id"}, "env": object{"LD_PRELOAD": "x"}, "cwd": "../..", "hosts": []string{"example.org:443"}}
	for _, step := range []struct {
		want reason.Code
		mend func()
	}{
		{reason.SandboxDisabled, func() {
			settings = func(c *Config) { c.Sandbox.Available, c.Process.AllowInterpreters = false, new(true) }
		}},
		{reason.InvalidInput, func() { delete(in, "env") }},
		{reason.ExecutableDenied, func() { in["argv"] = []string{"python", "-c", "1"} }},
		{reason.InlineCode, func() { in["argv"] = []string{"nothere"} }},
		{reason.WorkspaceScope, func() { delete(in, "cwd") }},
		{reason.EgressDenied, func() { delete(in, "hosts") }},
		{reason.SandboxUnavailable, func() { settings = nil }},
		{reason.SpawnFailed, func() { in["argv"] = []string{"git"} }},
	} {
		b, _, _ := processBench(t, settings)
		b.refused("process.run", in, step.want)
		step.mend()
	}
	b, _, _ := processBench(t, nil)
	if _, err := b.plan("process.run", in); err != nil {
		t.Errorf("with every fault mended: %v", err)
	}
	if reason.Of(supported("plan9")) != reason.PlatformUnknown || supported("linux") != nil {
		t.Error("a system without a sandbox is not refused as such")
	}
}

func TestProcessRefuses(t *testing.T) {
	b, r, bin := processBench(t, func(c *Config) { c.Process.AllowInterpreters = new(false) })
	b.write("run.sh", "#!/bin/sh\n")
	b.write("file", "x")
	link(t, "/etc", filepath.Join(b.dir, "etc"))
	run := func(argv ...string) object { return object{"argv": argv} }
	tests := []struct {
		name string
		in   object
		want reason.Code
	}{
		{"nothing", run(), reason.InvalidInput},
		{"empty name", run(""), reason.InvalidInput},
		{"shell", run("bash", "-c", "id"), reason.ExecutableDenied},
		{"shell by a link", run("innocent"), reason.ExecutableDenied},
		{"shell by path", run(filepath.Join(bin, "bash")), reason.ExecutableDenied},
		{"interpreter", run("python", "x.py"), reason.ExecutableDenied},
		{"missing", run("nothere"), reason.SpawnFailed},
		{"missing in the workspace", run("./nothere"), reason.FileNotFound},
		{"out of the workspace", run("../../bin/tool"), reason.WorkspaceScope},
		{"cwd outside", object{"argv": []string{"git"}, "cwd": "../.."}, reason.WorkspaceScope},
		{"cwd by a link", object{"argv": []string{"git"}, "cwd": "etc"}, reason.WorkspaceScope},
		{"cwd absolute", object{"argv": []string{"git"}, "cwd": "/etc"}, reason.WorkspaceScope},
		{"cwd is a file", object{"argv": []string{"git"}, "cwd": "file"}, reason.InvalidInput},
		{"loader variable", object{"argv": []string{"git"}, "env": object{"LD_PRELOAD": "x"}}, reason.InvalidInput},
		{"git variable", object{"argv": []string{"git"}, "env": object{"GIT_SSH_COMMAND": "x"}}, reason.InvalidInput},
		{"bad variable", object{"argv": []string{"git"}, "env": object{"A=B": "x"}}, reason.InvalidInput},
		{"two stdins", object{"argv": []string{"git"}, "stdin": "a", "stdin_base64": "YQ=="}, reason.InvalidInput},
		{"too long", object{"argv": []string{"git"}, "timeout_ms": 86400000}, reason.InvalidInput},
		{"unknown workspace", object{"argv": []string{"git"}, "workspace": "other"}, reason.UnknownWorkspace},
		{"too many arguments", run(slices.Repeat([]string{"x"}, 129)...), reason.InvalidInput},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b.t = t
			b.refused("process.run", test.in, test.want)
		})
	}
	if len(r.specs) != 0 {
		t.Error("something ran")
	}
}

func TestProcessInterpreters(t *testing.T) {
	b, _, _ := processBench(t, func(c *Config) { c.Process.AllowInterpreters = new(true) })
	b.write("x.py", "print(1)")
	plan := must.Get(b.plan("process.run", object{"argv": []string{"python", "x.py"}}))(t)
	if e := plan.Facts.Exec; e.Basename != "python3.12" || !e.IsInterpreter || e.InlineCode || plan.Facts.Risk != riskProcess+riskInterpreter+riskCopy {
		t.Errorf("facts %+v", plan.Facts)
	}
	b.refused("process.run", object{"argv": []string{"python", "-c", "1"}}, reason.InlineCode)
	b.refused("process.run", object{"argv": []string{"python", "-Ic", "1"}}, reason.InlineCode)
	b.refused("process.run", object{"argv": []string{"python"}, "stdin": "print(1)"}, reason.InlineCode)
	b.refused("process.run", object{"argv": []string{"python", "-"}, "stdin": "print(1)"}, reason.InlineCode)
	if _, err := b.plan("process.run", object{"argv": []string{"python", "x.py"}, "stdin": "data"}); err != nil {
		t.Errorf("input for a program in a file: %v", err)
	}
	b.refused("process.run", object{"argv": []string{"bash", "x.sh"}}, reason.ExecutableDenied)
}

func TestProcessAllowedExecutables(t *testing.T) {
	b, _, bin := processBench(t, func(c *Config) {
		c.Process.AllowedExecutables = []string{"git", filepath.Join(c.Process.SearchPath[0], "tool")}
	})
	for _, argv := range [][]string{{"git"}, {filepath.Join(bin, "git")}, {"tool"}, {filepath.Join(bin, "tool")}} {
		if _, err := b.plan("process.run", object{"argv": argv}); err != nil {
			t.Errorf("%v: %v", argv, err)
		}
	}
	// A workspace file of an allowed name is another program.
	b.write("git", "\x7fELFevil")
	b.write("other/git", "\x7fELFevil")
	for _, name := range []string{"git", "other/git"} {
		must.Do(t, os.Chmod(filepath.Join(b.dir, name), 0o755))
	}
	for _, argv := range [][]string{{"./git"}, {"other/git"}, {"/workspace/git"}, {filepath.Join(b.dir, "git")}} {
		b.refused("process.run", object{"argv": argv}, reason.ExecutableDenied)
	}
	// Negative control: without a list the same file may run, and says so.
	open, _, _ := processBench(t, nil)
	open.write("git", "\x7fELF")
	must.Do(t, os.Chmod(filepath.Join(open.dir, "git"), 0o755))
	plan, err := open.plan("process.run", object{"argv": []string{"/workspace/git"}})
	if err != nil || plan.Facts.Risk != riskProcess+riskCopy+riskOwnExecutable || plan.Binding.Executable.Path != filepath.Join(open.dir, "git") {
		t.Errorf("%+v, %v", plan, err)
	}
}

func (b *bench) unusable() error {
	says, ok := b.tools["process.run"].(interface{ Unusable() error })
	if !ok {
		b.t.Fatal("process.run does not say whether it can run")
	}
	return says.Unusable()
}

func TestProcessUnavailable(t *testing.T) {
	tests := map[reason.Code]func(*Config){
		reason.SandboxDisabled:    func(c *Config) { c.Process.Enabled = false },
		reason.SandboxUnavailable: func(c *Config) { c.Runner = nil },
	}
	for want, change := range tests {
		b, _, _ := processBench(t, change)
		b.refused("process.run", object{"argv": []string{"git"}}, want)
		if err := b.unusable(); reason.Of(err) != want {
			t.Errorf("it is unusable because of %v, want %s", err, want)
		}
	}
	// The control: with a sandbox it can be used.
	b, _, _ := processBench(t, nil)
	must.Check(t, b.unusable())
}

// TestProcessIsRefusedBeforeAsking: what the probe found missing refuses the
// plan, so that no human is asked about a call that cannot run.
func TestProcessIsRefusedBeforeAsking(t *testing.T) {
	in := object{"argv": []string{"git"}}
	b, r, _ := processBench(t, func(c *Config) {
		c.Sandbox = sandbox.Status{Problem: "bubblewrap is not installed", Remedy: "Install it."}
	})
	_, err := b.plan("process.run", in)
	var refused *reason.Error
	if !errors.As(err, &refused) || refused.Code != reason.SandboxUnavailable || refused.Message != "bubblewrap is not installed" ||
		!strings.HasPrefix(refused.NextStep(), "Install it. palyrad tries again by itself") || len(r.specs) != 0 {
		t.Errorf("planning without a sandbox gives %v", err)
	}
	b, _, _ = processBench(t, func(c *Config) { c.Sandbox = sandbox.Status{} })
	b.refused("process.run", in, reason.SandboxUnavailable)
	// Control: with one the same call is planned, and its level is the measured
	// one.
	for level, layers := range map[string][]string{sandbox.LevelStrict: {"network_namespace", "landlock"}, sandbox.LevelNone: {"network_namespace"}} {
		b, _, _ = processBench(t, func(c *Config) {
			c.Sandbox.Requested = []string{"network_namespace", "landlock", sandbox.ControlGroup, "copy_on_write"}
			c.Sandbox.Layers = append(layers, "copy_on_write")
		})
		if plan, err := b.plan("process.run", in); err != nil || plan.Facts.SandboxLevel != level {
			t.Errorf("with the layers %v: level %q, %v", layers, plan.Facts.SandboxLevel, err)
		}
	}
}

func TestProcessEndings(t *testing.T) {
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

// TestProcessInterpretersByPolicy: in Tier C, what nobody set is for policy to
// say, which sees what it is. In Tier B it is refused.
func TestProcessInterpretersByPolicy(t *testing.T) {
	b, _, bin := processBench(t, nil)
	tierB, _, _ := processBench(t, func(c *Config) { c.Sandbox.Tier, c.Sandbox.Rung = sandbox.TierB, sandbox.Landlocked })
	for _, bench := range []*bench{b, tierB} {
		bench.write("x.py", "print(1)")
		bench.write("tool.sh", "#!/bin/bash\n")
		bench.write("copy", "\x7fELFbash")
		for _, name := range []string{"tool.sh", "copy"} {
			must.Do(t, os.Chmod(filepath.Join(bench.dir, name), 0o755))
		}
	}
	python, bash := tool.ExecFacts{IsInterpreter: true}, tool.ExecFacts{IsInterpreter: true, IsShell: true}
	inline := func(e tool.ExecFacts) tool.ExecFacts { e.InlineCode = true; return e }
	for _, c := range []struct {
		in   object
		want tool.ExecFacts
	}{
		{object{"argv": []string{"python", "x.py"}}, python},
		{object{"argv": []string{"python", "-c", "1"}}, inline(python)},
		{object{"argv": []string{"python", "-"}}, inline(python)},
		{object{"argv": []string{"python"}, "stdin": "print(1)"}, inline(python)},
		{object{"argv": []string{"python", "x.py"}, "stdin": "data"}, python},
		{object{"argv": []string{"bash", "tool.sh"}}, bash},
		{object{"argv": []string{"bash", "-c", "id"}}, inline(bash)},
		{object{"argv": []string{"innocent", "-c", "id"}}, inline(bash)},
		{object{"argv": []string{"./copy", "-c", "id"}}, inline(bash)},
		{object{"argv": []string{"./tool.sh"}}, tool.ExecFacts{}},
		{object{"argv": []string{"git", "-c", "x=y"}}, tool.ExecFacts{}},
	} {
		plan, err := b.plan("process.run", c.in)
		if err != nil {
			t.Errorf("%q: %v", c.in["argv"], err)
			continue
		}
		if e := plan.Facts.Exec; e.IsInterpreter != c.want.IsInterpreter || e.IsShell != c.want.IsShell || e.InlineCode != c.want.InlineCode {
			t.Errorf("%q: facts %+v", c.in["argv"], e)
		}
		if c.want.IsInterpreter || c.in["argv"].([]string)[0] == "./tool.sh" {
			tierB.refused("process.run", c.in, reason.ExecutableDenied)
		}
	}
	// What starts other programs is refused everywhere.
	must.Do(t, os.WriteFile(filepath.Join(bin, "env"), []byte("\x7fELFenv"), 0o755))
	b.refused("process.run", object{"argv": []string{"env", "git"}}, reason.ExecutableDenied)
	if bound := must.Get(b.plan("process.run", object{"argv": []string{"bash", "tool.sh"}}))(t).Binding.Operands; len(bound) != 1 || bound[0].Path != "tool.sh" {
		t.Errorf("the script of a shell is not bound: %+v", bound)
	}
}

// TestProcessCommandLine: no other program reads like one that is found by its
// name.
func TestProcessCommandLine(t *testing.T) {
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

// TestExecutorOfEachSystem: what a definition promises is what the best sandbox
// of the system is.
func TestExecutorOfEachSystem(t *testing.T) {
	for system, want := range map[string]tool.Executor{"linux": tool.TierCBubblewrap, "darwin": tool.TierCSeatbelt, "windows": tool.TierB} {
		if got := executorOn(system); got != want {
			t.Errorf("%s: %s, want %s", system, got, want)
		}
	}
}
