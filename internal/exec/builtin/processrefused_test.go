package builtin

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/exec/sandbox"
)

// TestOrderOfErrors: a call with every error is refused for the first of them. After each
// correction, it is refused for the next.
func TestOrderOfErrors(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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
	t.Parallel()
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
	t.Parallel()
	b, _, bin := processBench(t, func(c *Config) {
		c.Process.AllowedExecutables = []string{"git", filepath.Join(c.Process.SearchPath[0], "tool")}
	})
	for _, argv := range [][]string{{"git"}, {filepath.Join(bin, "git")}, {"tool"}, {filepath.Join(bin, "tool")}} {
		if _, err := b.plan("process.run", object{"argv": argv}); err != nil {
			t.Errorf("%v: %v", argv, err)
		}
	}
	// A workspace file with an allowed name is a different program.
	b.write("git", "\x7fELFevil")
	b.write("other/git", "\x7fELFevil")
	for _, name := range []string{"git", "other/git"} {
		must.Do(t, os.Chmod(filepath.Join(b.dir, name), 0o755))
	}
	for _, argv := range [][]string{{"./git"}, {"other/git"}, {"/workspace/git"}, {filepath.Join(b.dir, "git")}} {
		b.refused("process.run", object{"argv": argv}, reason.ExecutableDenied)
	}
	// Negative control: without a list the same file may run, and the facts show it.
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
	t.Parallel()
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
	// Control: with a sandbox the tool is usable.
	b, _, _ := processBench(t, nil)
	must.Check(t, b.unusable())
}

// TestProcessIsRefusedBeforeAsking: if the machine lacks a feature, the plan is refused, so
// that no approval is requested for a call that cannot run.
func TestProcessIsRefusedBeforeAsking(t *testing.T) {
	t.Parallel()
	in := object{"argv": []string{"git"}}
	b, r, _ := processBench(t, func(c *Config) {
		c.Sandbox = sandbox.Status{Problem: "bubblewrap is not installed", Remedy: "Install it."}
	})
	_, err := b.plan("process.run", in)
	var refused *reason.Error
	if !errors.As(err, &refused) || refused.Code != reason.SandboxUnavailable || refused.Message != "bubblewrap is not installed" ||
		!strings.HasPrefix(refused.NextStep(), "Install it. palyrad retries automatically") || len(r.specs) != 0 {
		t.Errorf("planning without a sandbox gives %v", err)
	}
	b, _, _ = processBench(t, func(c *Config) { c.Sandbox = sandbox.Status{} })
	b.refused("process.run", in, reason.SandboxUnavailable)
	// Control: with a sandbox the same call is planned, and its level is the measured one.
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

// TestProcessInterpretersByPolicy: in Tier C, policy decides on interpreters unless the setting
// is set. In Tier B, interpreters are refused.
func TestProcessInterpretersByPolicy(t *testing.T) {
	t.Parallel()
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
	// Launchers are always refused.
	must.Do(t, os.WriteFile(filepath.Join(bin, "env"), []byte("\x7fELFenv"), 0o755))
	b.refused("process.run", object{"argv": []string{"env", "git"}}, reason.ExecutableDenied)
	if bound := must.Get(b.plan("process.run", object{"argv": []string{"bash", "tool.sh"}}))(t).Binding.Operands; len(bound) != 1 || bound[0].Path != "tool.sh" {
		t.Errorf("the script of a shell is not bound: %+v", bound)
	}
}
