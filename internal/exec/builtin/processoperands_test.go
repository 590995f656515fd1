package builtin

import (
	"context"
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

// TestOperandsChangeDuringTheRun: an attestation must not contain a digest of bytes that did
// not run.
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
		// Negative control: no bound file changes.
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

// TestOwnProgramsAreNoSystemPrograms: a workspace file never has a name that a policy uses for
// a program of the machine. A copy of a shell counts as a shell.
func TestOwnProgramsAreNoSystemPrograms(t *testing.T) {
	t.Parallel()
	b, _, _ := processBench(t, func(c *Config) { c.Process.AllowInterpreters = new(false) })
	for name, content := range map[string]string{"git": "\x7fELFgit, not", "d/python3x": "\x7fELFown", "tool": "\x7fELFbash", "snake": "\x7fELFpython3.12"} {
		b.write(name, content)
		must.Do(t, os.Chmod(filepath.Join(b.dir, name), 0o755))
	}
	for argv0, want := range map[string]string{
		"./git": "./git", "/workspace/git": "./git", "d/../git": "./git", filepath.Join(b.dir, "git"): "./git", "d/python3x": "./d/python3x",
		"git": "git", // control: the program in the search path
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

// TestProgramsThroughTheWorkspace: a link to a program outside the workspace starts under the
// rules of the resolved program. The same holds for a script that names its interpreter by the
// workspace's path on the machine. Controls: links that lead to no program, and one that stays
// inside.
func TestProgramsThroughTheWorkspace(t *testing.T) {
	t.Parallel()
	b, r, bin := processBench(t, nil)
	must.Do(t, os.MkdirAll(filepath.Join(b.dir, ".venv/bin"), 0o755))
	for name, target := range map[string]string{
		".venv/bin/python": filepath.Join(bin, "python"), "version": filepath.Join(bin, "git"), "programs": bin, "python3": filepath.Join(bin, "git"),
		"shadow": "/etc/shadow", "nothing": "/nothing/at/all", "sh": filepath.Join(bin, "bash"), "own": "plain",
	} {
		link(t, target, filepath.Join(b.dir, name))
	}
	for name, content := range map[string]string{
		"plain": "\x7fELFplain", ".venv/bin/pip": "#!" + b.dir + "/.venv/bin/python -I\nimport pip\n", "again": "#!\t" + b.dir + "/.venv/bin/pip  x y \n",
		"loop": "#!" + b.dir + "/loop\n", "foreign": "#!/usr/bin/env python3\n",
	} {
		b.write(name, content)
		must.Do(t, os.Chmod(filepath.Join(b.dir, name), 0o755))
	}
	python, git := filepath.Join(bin, "python3.12"), filepath.Join(bin, "git")
	for _, row := range []struct {
		argv           []string
		path, basename string
		runs           []string
	}{
		{[]string{".venv/bin/python", "x.py"}, python, "python3.12", []string{".venv/bin/python", "x.py"}},
		{[]string{filepath.Join(b.dir, ".venv/bin/python"), "x.py"}, python, "python3.12", []string{"/workspace/.venv/bin/python", "x.py"}},
		{[]string{"/workspace/.venv/bin/python"}, python, "python3.12", []string{"/workspace/.venv/bin/python"}},
		{[]string{".venv/bin/pip", "list"}, python, "python3.12", []string{"/workspace/.venv/bin/python", "-I", ".venv/bin/pip", "list"}},
		{[]string{"./again"}, python, "python3.12", []string{"/workspace/.venv/bin/python", "-I", "/workspace/.venv/bin/pip", "x y", "./again"}},
		{[]string{"./version", "log"}, git, "git", []string{git, "log"}},
		{[]string{"./python3", "log"}, git, "git", []string{git, "log"}},
		{[]string{"programs/git", "log"}, git, "git", []string{git, "log"}},
		{[]string{"./own"}, filepath.Join(b.dir, "plain"), "./plain", []string{"./own"}},
		{[]string{"./foreign"}, filepath.Join(b.dir, "foreign"), "./foreign", []string{"./foreign"}},
	} {
		plan, err := b.plan("process.run", object{"argv": row.argv})
		if err != nil {
			t.Errorf("%q: %v", row.argv, err)
			continue
		}
		e, through := plan.Facts.Exec, row.path == python || row.path == git
		if e.Path != row.path || e.Basename != row.basename || e.IsInterpreter != (row.path == python) || e.InWorkspace == through {
			t.Errorf("%q: facts %+v", row.argv, e)
		}
		if !slices.Equal(plan.Binding.Argv, row.runs) || plan.Binding.Executable.Path != row.path {
			t.Errorf("%q: bound to %q of %s, want %q", row.argv, plan.Binding.Argv, plan.Binding.Executable.Path, row.runs)
		}
		if through && (plan.Named == nil || !strings.HasPrefix(plan.Named.Exec.Basename, "./") || len(plan.Contents) == 0) {
			t.Errorf("%q: for people who may not read its files it is %+v, with the files %v", row.argv, plan.Named, plan.Contents)
		}
		noted := slices.ContainsFunc(plan.Preview.Notes, func(note string) bool { return strings.Contains(note, row.argv[0]+" runs "+row.path) })
		if noted != through {
			t.Errorf("%q: the notes %q", row.argv, plan.Preview.Notes)
		}
		if report, _ := b.call(t.Context(), "process.run", object{"argv": row.argv}); report.Outcome != tool.Succeeded {
			t.Errorf("%q: %+v", row.argv, report)
		} else if ran := r.specs[len(r.specs)-1]; !slices.Equal(ran.Argv, row.runs) || ran.Executable.Path != row.path {
			t.Errorf("%q: ran %q of %s", row.argv, ran.Argv, ran.Executable.Path)
		}
	}
	for _, name := range []string{"./shadow", "./nothing"} {
		b.refused("process.run", object{"argv": []string{name}}, reason.WorkspaceScope)
	}
	b.refused("process.run", object{"argv": []string{"./loop"}}, reason.SpawnFailed)
	strict, _, _ := processBench(t, func(c *Config) { c.Process.AllowInterpreters = new(false) })
	link(t, filepath.Join(bin, "bash"), filepath.Join(strict.dir, "build"))
	strict.refused("process.run", object{"argv": []string{"./build", "-c", "id"}}, reason.ExecutableDenied)
	listed, _, _ := processBench(t, func(c *Config) { c.Process.AllowedExecutables = []string{"tool"} })
	link(t, filepath.Join(bin, "git"), filepath.Join(listed.dir, "tool"))
	listed.refused("process.run", object{"argv": []string{"./tool"}}, reason.ExecutableDenied)
}

// TestNpmIsItsScript: npm has the facts that docs/policy-recipes-tested.md describes in each
// layout. In Debian's package and in the layout of nodejs.org and nvm, npm is a link to a
// script for node. It may also be a script with that name.
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
			if !strings.Contains(string(must.Get(os.ReadFile("../../../docs/policy-recipes-tested.md"))(t)), "basename: "+row.basename+", ") {
				t.Errorf("docs/policy-recipes-tested.md has no test of %s", row.basename)
			}
		})
	}
}
