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
	"palyra/internal/exec/program/command"
)

// TestToolchains: programs of toolchains are found after the system's programs and have another
// origin, and the sandbox mounts the toolchains. If a name was found twice, a note informs the
// approver.
func TestToolchains(t *testing.T) {
	t.Parallel()
	home := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	for _, name := range []string{"nodelike", "git", "build"} {
		must.Do(t, os.WriteFile(filepath.Join(home, name), []byte("\x7fELF"+name+" of a person"), 0o755))
	}
	must.Do(t, os.WriteFile(filepath.Join(home, "helper"), []byte("#!/bin/sh\n"), 0o755))
	chain := command.Toolchain{Name: "local", Bins: []string{home}, Dirs: []string{home}}
	b, r, bin := processBench(t, func(c *Config) {
		c.Process.Toolchains = func() []command.Toolchain { return []command.Toolchain{chain} }
		c.Process.AllowInterpreters = new(false)
	})
	plan := must.Get(b.plan("process.run", object{"argv": []string{"nodelike"}}))(t)
	if e := plan.Facts.Exec; e.Origin != tool.OriginToolchain || e.Path != filepath.Join(home, "nodelike") || !strings.Contains(plan.Binding.SandboxProfile, " toolchains="+home+" ") {
		t.Errorf("%+v, %s", e, plan.Binding.SandboxProfile)
	}
	if notes := strings.Join(plan.Preview.Notes, "\n"); strings.Contains(notes, "more than one") {
		t.Errorf("there is one: %s", notes)
	}
	plan = must.Get(b.plan("process.run", object{"argv": []string{"git"}}))(t)
	want := "There is more than one git: " + filepath.Join(bin, "git") + " runs, not " + filepath.Join(home, "git") + "."
	if e := plan.Facts.Exec; e.Origin == tool.OriginToolchain || !slices.Contains(plan.Preview.Notes, want) {
		t.Errorf("%+v, %q", e, plan.Preview.Notes)
	}
	// A shell script in a toolchain is an installed program, like one of the system. In a
	// workspace it is refused if shells are refused.
	must.Get(b.plan("process.run", object{"argv": []string{"helper"}}))(t)
	b.write("helper", "#!/bin/sh\n")
	must.Do(t, os.Chmod(filepath.Join(b.dir, "helper"), 0o755))
	b.refused("process.run", object{"argv": []string{"./helper"}}, reason.ExecutableDenied)
	b.call(context.Background(), "process.run", object{"argv": []string{"nodelike"}})
	if s := r.specs[0]; len(s.Toolchains) != 1 || s.Toolchains[0].Bins[0] != home {
		t.Errorf("spec %+v", s)
	}
	plain, _, _ := processBench(t, nil) // control
	plain.refused("process.run", object{"argv": []string{"nodelike"}}, reason.SpawnFailed)
}

// TestRustup: a toolchain that only rustup could select is refused before an approval. The
// program that the error recommends is mounted and runs.
func TestRustup(t *testing.T) {
	t.Parallel()
	versions := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	for _, name := range []string{"stable-host/bin", "nightly-host/bin"} {
		must.Do(t, os.MkdirAll(filepath.Join(versions, name), 0o755))
		must.Do(t, os.WriteFile(filepath.Join(versions, name, "cargo"), []byte("\x7fELF"+name), 0o755))
	}
	chain := command.Toolchain{Name: "rust", Bins: []string{filepath.Join(versions, "stable-host/bin")}, Dirs: []string{versions}, Versions: versions}
	b, _, _ := processBench(t, func(c *Config) {
		c.Process.Toolchains = func() []command.Toolchain { return []command.Toolchain{chain} }
	})
	must.Get(b.plan("process.run", object{"argv": []string{"cargo", "build"}}))(t)
	b.refused("process.run", object{"argv": []string{"cargo", "+nightly", "build"}}, reason.InvalidInput)
	plan := must.Get(b.plan("process.run", object{"argv": []string{filepath.Join(versions, "nightly-host/bin/cargo"), "build"}}))(t)
	if e := plan.Facts.Exec; e.Origin != tool.OriginToolchain {
		t.Errorf("%+v", e)
	}
}

// TestAuthor: each run uses the current git author.
func TestAuthor(t *testing.T) {
	t.Parallel()
	var who command.Author
	b, r, _ := processBench(t, func(c *Config) {
		c.Process.Author = func() command.Author { return who }
	})
	for _, who = range []command.Author{{}, {Name: "Ada", Email: "ada@example.org"}} {
		b.call(context.Background(), "process.run", object{"argv": []string{"git"}})
		if s := r.specs[len(r.specs)-1]; s.Author != who {
			t.Errorf("the author is %+v, want %+v", s.Author, who)
		}
	}
}
