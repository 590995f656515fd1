package jailtest

import (
	"os"
	"path/filepath"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/sandbox"
)

// Home returns a home directory with one toolchain and a credential next to it. The toolchain's
// program "greet" prints hello by calling another of its programs. The home is outside the
// directories that sandboxes cover, and is removed after the test.
func Home(t testing.TB) (home string, chain command.Toolchain) {
	t.Helper()
	home = must.Get(os.MkdirTemp("/var/tmp", "palyra-home-"))(t)
	t.Cleanup(func() { must.Check(t, os.RemoveAll(home)) })
	root := filepath.Join(home, "tools")
	bin := filepath.Join(root, "bin")
	must.Do(t, os.MkdirAll(bin, 0o755))
	for _, dir := range []string{home, root, bin} {
		must.Do(t, os.Chmod(dir, 0o755)) //nolint:gosec // others are to pass
	}
	WriteFile(t, filepath.Join(bin, "greet"), "#!/bin/sh\nexec greeting\n", 0o755)
	WriteFile(t, filepath.Join(bin, "greeting"), "#!/bin/sh\necho hello\n", 0o755)
	WriteFile(t, filepath.Join(home, ".npmrc"), "token=canary", 0o644)
	return home, command.Toolchain{Name: "test", Bins: []string{bin}, Dirs: []string{root}}
}

// Versions returns a toolchain with two versions, of which "stable" is the default. The greet
// program of each version runs the first greeting in its path, which prints hello and its
// version.
func Versions(t testing.TB) command.Toolchain {
	t.Helper()
	dir := must.Get(os.MkdirTemp("/var/tmp", "palyra-versions-"))(t)
	t.Cleanup(func() { must.Check(t, os.RemoveAll(dir)) })
	for _, version := range []string{"stable", "nightly"} {
		bin := filepath.Join(dir, version, "bin")
		must.Do(t, os.MkdirAll(bin, 0o755))
		for _, at := range []string{dir, filepath.Dir(bin), bin} {
			must.Do(t, os.Chmod(at, 0o755)) //nolint:gosec // others are to pass
		}
		WriteFile(t, filepath.Join(bin, "greet"), "#!/bin/sh\nexec greeting\n", 0o755)
		WriteFile(t, filepath.Join(bin, "greeting"), "#!/bin/sh\necho hello of "+version+"\n", 0o755)
	}
	return command.Toolchain{Name: "test", Bins: []string{filepath.Join(dir, "stable/bin")}, Dirs: []string{dir}, Versions: dir}
}

// Toolchains verifies with a runner that toolchains are usable and isolated. workspace creates
// the workspaces of its runs.
func Toolchains(t *testing.T, r sandbox.Runner, workspace func(testing.TB) string) {
	home, chain := Home(t)
	spec := func(script string, chains ...command.Toolchain) sandbox.Spec {
		s := Shell(t, workspace(t), script)
		s.Workspace, s.Toolchains = sandbox.ReadOnly, chains
		return s
	}
	t.Run("a program runs by its name and finds others", func(t *testing.T) {
		s := spec("", chain)
		p := must.Get(command.ResolveExecutable("greet", command.PathWith(s.Toolchains)))(t)
		s.Argv, s.Executable = []string{"greet"}, p.Executable
		if got := Output(t, r, s); got != "hello\n" {
			t.Errorf("it said %q", got)
		}
		s.Toolchains = nil // control
		if _, err := r.Run(t.Context(), s); err == nil {
			t.Error("it runs without the toolchain")
		}
	})
	t.Run("a program of another version runs by its path and finds its own", func(t *testing.T) {
		s := spec("", Versions(t))
		other := filepath.Join(s.Toolchains[0].Versions, "nightly/bin/greet")
		p := must.Get(command.ResolveExecutable(other, nil))(t)
		s.Argv, s.Executable = []string{other}, p.Executable
		if got := Output(t, r, s); got != "hello of nightly\n" {
			t.Errorf("it said %q", got)
		}
		s.Toolchains[0].Versions = "" // control: not declared as a version
		if got := Output(t, r, s); got != "hello of stable\n" {
			t.Errorf("control: it said %q", got)
		}
	})
	t.Run("credentials next to it cannot be read", func(t *testing.T) {
		script := "cat " + home + "/.npmrc 2>/dev/null; true"
		if got := Output(t, r, spec(script, chain)); got != "" {
			t.Errorf("it read %q", got)
		}
		all := command.Toolchain{Name: "all", Bins: chain.Bins, Dirs: []string{home}} // control: a toolchain that contains it
		if got := Output(t, r, spec(script, all)); got != "token=canary" {
			t.Errorf("where it is shown, it read %q", got)
		}
	})
	t.Run("nothing of it can be changed", func(t *testing.T) {
		file := filepath.Join(chain.Bins[0], "greeting")
		must.Do(t, os.Chmod(file, 0o777)) //nolint:gosec // so that the owner's rights are not what keeps it
		before := must.Get(os.ReadFile(file))(t)
		script := "(echo x >" + file + "; rm -f " + file + "; mv " + chain.Dirs[0] + " " + home + "/away; touch " + chain.Dirs[0] + "/new) 2>/dev/null; test -x " + file
		Output(t, r, spec(script, chain))
		after := must.Get(os.ReadFile(file))(t)
		if _, err := os.Lstat(filepath.Join(chain.Dirs[0], "new")); string(after) != string(before) || err == nil {
			t.Errorf("it became %q, or there is a new file", after)
		}
		s := spec("echo x >greeting; test -s greeting") // control: a writable directory
		s.Workspace = sandbox.Direct
		Output(t, r, s)
	})
}
