//go:build unix

package toolchain

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/exec/program/command"
)

// aRustup returns a home with toolchains that rustup installed. Its links in ~/.cargo/bin are
// symbolic, and one is hard.
func aRustup(t *testing.T) string {
	t.Helper()
	home := newHome(t, ".cargo/bin/rustup", ".cargo/credentials.toml", ".rustup/settings.toml",
		".rustup/toolchains/stable-host/bin/cargo", ".rustup/toolchains/stable-host/bin/rustc",
		".rustup/toolchains/nightly-2026-01-01-host/bin/cargo", ".rustup/toolchains/nightly-host/bin/cargo", ".rustup/toolchains/nightly-host/bin/rustc")
	must.Do(t, os.WriteFile(filepath.Join(home, ".rustup/settings.toml"), []byte("default_toolchain = \"stable-host\"\n"), 0o644))
	for _, name := range []string{"cargo", "rust-analyzer"} {
		must.Do(t, os.Symlink("rustup", filepath.Join(home, ".cargo/bin", name)))
	}
	must.Do(t, os.Link(filepath.Join(home, ".cargo/bin/rustup"), filepath.Join(home, ".cargo/bin/rustc")))
	return home
}

// TestRustup: a command that only rustup could interpret is refused before it runs, and the
// error names the command to use instead. That command, and all other calls, run.
func TestRustup(t *testing.T) {
	t.Parallel()
	home := aRustup(t)
	chains := Find(Config{Home: home}).Toolchains
	toolchains := filepath.Join(home, ".rustup/toolchains")
	for _, c := range []struct {
		argv []string
		code reason.Code
		next string
	}{
		{argv: []string{"cargo", "build"}},
		{argv: []string{"cargo"}},
		{argv: []string{"cargo", "build", "+nightly"}},
		{argv: []string{"rustup", "--version"}},
		{argv: []string{toolchains + "/nightly-host/bin/cargo", "build"}},
		{[]string{"cargo", "+nightly", "build"}, reason.InvalidInput, "Use " + toolchains + "/nightly-host/bin/cargo instead of cargo and +nightly."},
		{[]string{"cargo", "+nightly-2026-01-01", "build"}, reason.InvalidInput, toolchains + "/nightly-2026-01-01-host/bin/cargo "},
		{[]string{"cargo", "+stable-host"}, reason.InvalidInput, toolchains + "/stable-host/bin/cargo "},
		{[]string{home + "/.cargo/bin/cargo", "+nightly"}, reason.InvalidInput, toolchains + "/nightly-host/bin/cargo "},
		{[]string{"cargo", "+beta"}, reason.InvalidInput, "rustup toolchain install"},
		{[]string{"cargo", "+../toolchains/nightly"}, reason.InvalidInput, "rustup toolchain install"},
		{[]string{"cargo", "+"}, reason.InvalidInput, "rustup toolchain install"},
		{[]string{home + "/.cargo/bin/cargo", "build"}, reason.SpawnFailed, "Use " + toolchains + "/stable-host/bin/cargo."},
		{[]string{home + "/.cargo/bin/rustc", "x.rs"}, reason.SpawnFailed, "Use " + toolchains + "/stable-host/bin/rustc."},
		{[]string{"rust-analyzer"}, reason.SpawnFailed, "rustup component add"},
	} {
		p := must.Get(command.ResolveExecutable(c.argv[0], installed(chains)))(t)
		err := command.CheckRustup(p, c.argv, chains)
		var known *reason.Error
		if errors.As(err, &known); reason.Of(err) != c.code || (err != nil) != (c.next != "") || err != nil && !strings.Contains(known.NextStep(), c.next) {
			t.Errorf("%q: %v (%+v), want %q and %q", c.argv, err, known, c.code, c.next)
		}
	}
	// A program that is not a link to rustup may accept such a first argument.
	plain := newHome(t, ".cargo/bin/rg")
	chains = Find(Config{Home: plain}).Toolchains
	p := must.Get(command.ResolveExecutable("rg", installed(chains)))(t)
	must.Check(t, command.CheckRustup(p, []string{"rg", "+nightly"}, chains))
}

// installed is PathWith without the system directories.
func installed(chains []command.Toolchain) (path []string) {
	for _, chain := range chains {
		path = append(path, chain.Bins...)
	}
	return path
}

// TestRustupOfSystem: the distribution's cargo does not support toolchains either.
func TestRustupOfSystem(t *testing.T) {
	t.Parallel()
	home, system := aRustup(t), newHome(t, "bin/cargo")
	chains := Find(Config{Home: home}).Toolchains
	p := must.Get(command.ResolveExecutable("cargo", append([]string{filepath.Join(system, "bin")}, installed(chains)...)))(t)
	if err := command.CheckRustup(p, []string{"cargo", "+nightly"}, chains); reason.Of(err) != reason.InvalidInput {
		t.Errorf("of the toolchain nightly: %v", err)
	}
	must.Check(t, command.CheckRustup(p, []string{"cargo", "+none"}, chains))
	must.Check(t, command.CheckRustup(p, []string{"cargo", "build"}, chains))
}

// TestVersionsPath: a program of one of several versions finds its own rustc first. The PATH of
// other programs does not change.
func TestVersionsPath(t *testing.T) {
	t.Parallel()
	home := aRustup(t)
	chains := Find(Config{Home: home}).Toolchains
	usual := "PATH=" + strings.Join(command.PathWith(chains), ":")
	toolchains := filepath.Join(home, ".rustup/toolchains")
	for program, first := range map[string]string{
		toolchains + "/nightly-host/bin/cargo":          toolchains + "/nightly-host/bin",
		toolchains + "/stable-host/bin/cargo":           toolchains + "/stable-host/bin",
		toolchains + "/nightly-host/lib/x/bin/cargo":    "",
		toolchains + "/bin/cargo":                       "",
		home + "/.cargo/bin/rg":                         "",
		"/usr/bin/true":                                 "",
		filepath.Join(home, "work/nightly-host/bin/ls"): "",
		"": "",
	} {
		want := usual
		if first != "" {
			want = strings.Replace(usual, "PATH=", "PATH="+first+":", 1)
		}
		if env := command.Environment(program, nil, chains); env[0] != want {
			t.Errorf("%s has %s, want %s", program, env[0], want)
		}
	}
}

// TestUnusableVersions: if one of the versions is not usable, only the default one is mounted,
// and the result contains the reason. Control: the unmodified home.
func TestUnusableVersions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(home string) error
		why   string
	}{
		"nothing against it": {func(string) error { return nil }, ""},
		"a credential": {func(home string) error {
			dir := filepath.Join(home, ".rustup/toolchains/nightly-host/etc")
			return cmp.Or(os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, "credentials.toml"), nil, 0o600))
		}, "has nightly-host, which holds etc/credentials.toml"},
		"writable by all": {func(home string) error {
			return os.Chmod(filepath.Join(home, ".rustup/toolchains/nightly-host"), 0o777)
		}, "has nightly-host, which can be changed by other users"},
		"programs by all": {func(home string) error {
			return os.Chmod(filepath.Join(home, ".rustup/toolchains/nightly-host/bin"), 0o777)
		}, "has nightly-host, which can be changed by other users"},
	} {
		home := aRustup(t)
		must.Do(t, c.spoil(home))
		f := Find(Config{Home: home})
		bins, dirs := found(f, home)
		if shown := slices.Contains(dirs, ".rustup/toolchains"); shown != (c.why == "") || !slices.Contains(bins, ".rustup/toolchains/stable-host/bin") {
			t.Errorf("%s: shown are %q with programs in %q", name, dirs, bins)
		}
		if got := why(f, filepath.Join(home, ".rustup/toolchains")); !strings.Contains(got, c.why) || (got == "") != (c.why == "") {
			t.Errorf("%s: left out for %q, want %q", name, got, c.why)
		}
		for _, secret := range []string{".cargo/credentials.toml", ".rustup/settings.toml"} {
			if slices.ContainsFunc(f.Toolchains, func(chain command.Toolchain) bool { return chain.Holds(filepath.Join(home, secret)) }) {
				t.Errorf("%s: %s is shown", name, secret)
			}
		}
	}
}
