package jailtest

import (
	"os"
	"path/filepath"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/exec/sandbox"
)

// Home is a home directory with one toolchain, whose program "greet" says hello by
// another of its programs, and with a credential beside it. It lies where no sandbox
// has a place of its own, and is removed after the test.
func Home(t testing.TB) (home string, chain sandbox.Toolchain) {
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
	return home, sandbox.Toolchain{Name: "test", Bins: []string{bin}, Dirs: []string{root}}
}

// Versions are two versions of a toolchain, of which "stable" counts: each has a
// greet that says hello by the greeting that it finds.
func Versions(t testing.TB) sandbox.Toolchain {
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
	return sandbox.Toolchain{Name: "test", Bins: []string{filepath.Join(dir, "stable/bin")}, Dirs: []string{dir}, Versions: dir}
}

// Toolchains tries with a runner what toolchains are for, and what they must not be.
// The workspaces of its runs are made by workspace.
func Toolchains(t *testing.T, r sandbox.Runner, workspace func(testing.TB) string) {
	home, chain := Home(t)
	spec := func(script string, chains ...sandbox.Toolchain) sandbox.Spec {
		s := Shell(t, workspace(t), script)
		s.Workspace, s.Toolchains = sandbox.ReadOnly, chains
		return s
	}
	t.Run("a program runs by its name and finds others", func(t *testing.T) {
		s := spec("", chain)
		p := must.Get(sandbox.ResolveExecutable("greet", sandbox.PathWith(s.Toolchains)))(t)
		s.Argv, s.Executable = []string{"greet"}, p.Executable
		if got := Output(t, r, s); got != "hello\n" {
			t.Errorf("it said %q", got)
		}
		s.Toolchains = nil // the control
		if _, err := r.Run(t.Context(), s); err == nil {
			t.Error("it runs without the toolchain")
		}
	})
	t.Run("a program of another version runs by its path and finds its own", func(t *testing.T) {
		s := spec("", Versions(t))
		other := filepath.Join(s.Toolchains[0].Versions, "nightly/bin/greet")
		p := must.Get(sandbox.ResolveExecutable(other, nil))(t)
		s.Argv, s.Executable = []string{other}, p.Executable
		if got := Output(t, r, s); got != "hello of nightly\n" {
			t.Errorf("it said %q", got)
		}
		s.Toolchains[0].Versions = "" // the control: nothing says that it is a version
		if got := Output(t, r, s); got != "hello of stable\n" {
			t.Errorf("control: it said %q", got)
		}
	})
	t.Run("credentials beside it cannot be read", func(t *testing.T) {
		script := "cat " + home + "/.npmrc 2>/dev/null; true"
		if got := Output(t, r, spec(script, chain)); got != "" {
			t.Errorf("it read %q", got)
		}
		all := sandbox.Toolchain{Name: "all", Bins: chain.Bins, Dirs: []string{home}} // the control: a toolchain that holds it
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
		s := spec("echo x >greeting; test -s greeting") // the control: a directory that is there to be written to
		s.Workspace = sandbox.Direct
		Output(t, r, s)
	})
}
