package builtin

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra/internal/must"
	"palyra/internal/reason"
	"palyra/internal/sandbox"
	"palyra/internal/tool"
)

func TestProcessBindingChanges(t *testing.T) {
	t.Parallel()
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

func TestOperandsChangeDuringTheRun(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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

func TestOwnProgramsAreNoSystemPrograms(t *testing.T) {
	t.Parallel()
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

func TestNpmIsItsScript(t *testing.T) {
	t.Parallel()
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
