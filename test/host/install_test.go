//go:build linux

package host

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/must"
)

// built creates a directory with the results of `make build`, as scripts of one line.
func built(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"palyra": 0o700, "palyrad": 0o700, "palyra-hook": 0o700, "share/man/man1/palyra.1": 0o600, "share/fish/vendor_completions.d/palyra.fish": 0o600} {
		must.Do(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), mode))
	}
	return dir
}

// install runs `make install` for the built files in a directory, and returns its exit code and
// output.
func install(t *testing.T, built string, variables ...string) (code int, said string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "make", append([]string{"--no-print-directory", "-C", "../..", "install", "BUILT=" + built}, variables...)...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// files returns the files below a directory with their modes.
func files(t *testing.T, dir string) map[string]fs.FileMode {
	t.Helper()
	found := make(map[string]fs.FileMode)
	must.Do(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		found[strings.TrimPrefix(path, dir+"/")] = info.Mode()
		return err
	}))
	return found
}

// TestInstall: all files are below DESTDIR and readable by everyone, and the units start the
// palyrad of PREFIX. A second installation has the same result.
func TestInstall(t *testing.T) {
	t.Parallel()
	dest := filepath.Join(t.TempDir(), "a b")
	from := built(t)
	for range 2 {
		if code, said := install(t, from, "DESTDIR="+dest, "PREFIX=/opt/x&y"); code != 0 {
			t.Fatalf("exit code %d: %s", code, said)
		}
	}
	want := map[string]fs.FileMode{
		"bin/palyra": 0o755, "bin/palyrad": 0o755, "bin/palyra-hook": 0o755, "share/man/man1/palyra.1": 0o644, "share/fish/vendor_completions.d/palyra.fish": 0o644,
		"lib/systemd/system/palyrad.service": 0o644, "lib/systemd/user/palyrad.service": 0o644, "lib/sysusers.d/palyra.conf": 0o644,
	}
	got := files(t, dest)
	for name, mode := range want {
		if got["opt/x&y/"+name] != mode {
			t.Errorf("%s has mode %v, want %v", name, got["opt/x&y/"+name], mode)
		}
	}
	if len(got) != len(want) {
		t.Errorf("installed is %v", got)
	}
	for _, kind := range []string{"system", "user"} {
		unit := string(must.Get(os.ReadFile(filepath.Join(dest, "opt/x&y/lib/systemd", kind, "palyrad.service")))(t))
		if !strings.Contains(unit, "\nExecStart=/opt/x&y/bin/palyrad") || strings.Contains(unit, "@") {
			t.Errorf("the %s unit does not start what was installed: %s", kind, unit)
		}
	}
}

// TestInstallBuildsNothing: `make install` as root does not run a compiler.
func TestInstallBuildsNothing(t *testing.T) {
	t.Parallel()
	dest := t.TempDir()
	code, said := install(t, t.TempDir(), "DESTDIR="+dest, "GO=false")
	if code == 0 || !strings.Contains(said, "run `make build` first") || len(files(t, dest)) > 0 {
		t.Errorf("exit code %d: %s", code, said)
	}
	if code, said = install(t, built(t), "DESTDIR="+dest, "PREFIX=relative"); code == 0 || !strings.Contains(said, "begin with /") || len(files(t, dest)) > 0 {
		t.Errorf("exit code %d: %s", code, said)
	}
}

// TestInstallPrefix: a unit starts the program with any PREFIX, quoted as systemd requires
// (systemd.service(5)), or the installation fails.
func TestInstallPrefix(t *testing.T) {
	t.Parallel()
	from := built(t)
	for prefix, start := range map[string]string{
		"/opt/a b/100%n": `"/opt/a b/100%%n/bin/palyrad"`, "/opt/@BINDIR@;x": "/opt/@BINDIR@;x/bin/palyrad", "/home/josé/.local": "/home/josé/.local/bin/palyrad",
		`/opt/a"b`: "", `/opt/a\b`: "", "/opt/a\tb": "",
	} {
		dest := t.TempDir()
		code, said := install(t, from, "DESTDIR="+dest, "PREFIX="+prefix)
		if start == "" {
			if code == 0 || !strings.Contains(said, "choose another") || len(files(t, dest)) > 0 {
				t.Errorf("%q: exit code %d: %s", prefix, code, said)
			}
			continue
		}
		unit := must.Get(os.ReadFile(filepath.Join(dest, prefix, "lib/systemd/user/palyrad.service")))(t)
		if code != 0 || !strings.Contains(string(unit), "\nExecStart="+start+"\n") {
			t.Errorf("%q: exit code %d: %s\n%s", prefix, code, said, unit)
		}
	}
}

// TestInstallThroughALink: a link in the place of a unit is replaced, and its target is not
// changed.
func TestInstallThroughALink(t *testing.T) {
	t.Parallel()
	prefix, canary := t.TempDir(), filepath.Join(t.TempDir(), "canary")
	unit := filepath.Join(prefix, "lib/systemd/user/palyrad.service")
	must.Do(t, os.WriteFile(canary, []byte("mine"), 0o600))
	must.Do(t, os.MkdirAll(filepath.Dir(unit), 0o755))
	must.Do(t, os.Symlink(canary, unit))
	if code, said := install(t, built(t), "PREFIX="+prefix); code != 0 {
		t.Fatalf("exit code %d: %s", code, said)
	}
	if text := string(must.Get(os.ReadFile(canary))(t)); text != "mine" || !must.Get(os.Lstat(unit))(t).Mode().IsRegular() {
		t.Error("the unit was written through a link")
	}
}

// breaking lists the systemd settings that prevent sandboxes, or that hide a program's attempts
// from palyrad. The unit explains them.
var breaking = []string{
	"ProtectKernelTunables", "ProtectKernelLogs", "ProcSubset", "ProtectProc", "RestrictNamespaces", "ProtectHostname", "ProtectControlGroups", "PrivateUsers", "PrivateNetwork",
	"IPAddressDeny", "RestrictAddressFamilies", "SystemCallFilter", "SystemCallArchitectures", "LockPersonality", "RestrictRealtime", "RestrictSUIDSGID", "ProtectClock",
	"ProtectKernelModules", "PrivateDevices", "MemoryDenyWriteExecute",
}

// settings returns the names of the settings in a unit.
func settings(unit string) []string {
	var set []string
	for line := range strings.Lines(unit) {
		if name, _, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "#") {
			set = append(set, name)
		}
	}
	return set
}

// TestUnits: the settings that keep palyrad running are set. The settings that would break its
// sandboxes are not set and are explained. systemd accepts both units.
func TestUnits(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"palyrad.service", "palyrad.user.service"} {
		unit := string(must.Get(os.ReadFile("../../packaging/linux/" + name))(t))
		set := settings(unit)
		for _, want := range []string{"Delegate", "TasksMax", "MemoryMax", "OOMPolicy", "LimitNOFILE", "LimitCORE", "KillMode", "NoNewPrivileges"} {
			if !slices.Contains(set, want) {
				t.Errorf("%s does not set %s", name, want)
			}
		}
		for _, bad := range breaking {
			if slices.Contains(set, bad) {
				t.Errorf("%s sets %s", name, bad)
			}
			if name == "palyrad.service" && !strings.Contains(unit, bad+"=") {
				t.Errorf("%s does not say why it is without %s", name, bad)
			}
		}
	}
	// Control: a setting is found, a comment is not.
	if set := settings("# A=1\nB=2\n[C]\n"); !slices.Equal(set, []string{"B"}) {
		t.Errorf("found are %q", set)
	}
}

// TestUnitsVerify runs systemd's own verification. Control: a unit that systemd does not
// accept.
func TestUnitsVerify(t *testing.T) {
	t.Parallel()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not there")
	}
	prefix := filepath.Join(t.TempDir(), "a b", "100%n") // quoted, and with the percent sign doubled
	if code, said := install(t, built(t), "PREFIX="+prefix); code != 0 {
		t.Fatalf("exit code %d: %s", code, said)
	}
	verify := func(unit string, flags ...string) string {
		out, _ := exec.CommandContext(t.Context(), analyze, append(flags, "verify", "--man=no", "--recursive-errors=no", unit)...).CombinedOutput()
		return string(out)
	}
	wrong := filepath.Join(t.TempDir(), "wrong.service")
	must.Do(t, os.WriteFile(wrong, []byte("[Service]\nExecStart=/bin/true\nTasksMax=many\n"), 0o600))
	if said := verify(wrong); !strings.Contains(said, "wrong.service") {
		t.Skipf("systemd-analyze verifies nothing here: %s", said)
	}
	for unit, flags := range map[string][]string{"lib/systemd/system/palyrad.service": nil, "lib/systemd/user/palyrad.service": {"--user"}} {
		if said := verify(filepath.Join(prefix, unit), flags...); strings.Contains(said, "palyrad.service") {
			t.Errorf("%s: %s", unit, said)
		}
	}
}
