//go:build linux

package checks

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// instrumented returns a package with the same files and scripts as a deb. Its scripts record each
// command before it runs, and at the one that KILL_AT names they kill the process group of dpkg if
// KILL is 0, or themselves. Its members are not compressed, so that a case is fast.
func instrumented(t *testing.T, name string) string {
	t.Helper()
	control := run(t, "dpkg-deb", "--ctrl-tarfile", name).succeeds(t).out
	var scripts bytes.Buffer
	in, out := tar.NewReader(strings.NewReader(control)), tar.NewWriter(&scripts)
	for {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		do(t, err)
		body := must(io.ReadAll(in))(t)
		if script := filepath.Base(header.Name); strings.HasPrefix(script, "pre") || strings.HasPrefix(script, "post") {
			rest, ok := strings.CutPrefix(string(body), "#!/bin/sh\n")
			if !ok {
				t.Fatalf("%s is not a script of sh", script)
			}
			// bash alone has a trap that runs before each command.
			body = []byte(strings.ReplaceAll(`#!/bin/bash
set -o functrace
trap 'step=$((${step:-0} + 1)); if [ "${KILL_AT:-}" = "@NAME@:$step" ]; then kill -KILL "${KILL:-$$}"; fi; echo "@NAME@:$step" >>/run/steps' DEBUG
`, "@NAME@", script) + rest)
			header.Size = int64(len(body))
		}
		do(t, out.WriteHeader(header))
		must(out.Write(body))(t)
	}
	do(t, out.Close())
	file := filepath.Join(t.TempDir(), filepath.Base(name))
	data := run(t, "dpkg-deb", "--fsys-tarfile", name).succeeds(t).out
	do(t, os.WriteFile(file, arArchive(map[string]string{"debian-binary": "2.0\n", "control.tar": scripts.String(), "data.tar": data}), 0o644))
	return file
}

// arArchive returns a deb's members as an ar archive.
func arArchive(members map[string]string) []byte {
	out := []byte("!<arch>\n")
	for _, name := range []string{"debian-binary", "control.tar", "data.tar"} {
		out = fmt.Appendf(out, "%-16s%-12d%-6d%-6d%-8s%-10d`\n%s", name, 0, 0, 0, "100644", len(members[name]), members[name])
		if len(members[name])%2 == 1 {
			out = append(out, '\n')
		}
	}
	return out
}

// dpkgKilledAt runs dpkg while a script is killed at a step.
func (m *machine) dpkgKilledAt(step string, args ...string) {
	m.t.Helper()
	r := m.run(append([]string{"env", "KILL_AT=" + step, "dpkg", "--force-unsafe-io"}, args...)...)
	if !strings.Contains(r.out, "killed by signal") {
		m.t.Fatalf("no script was killed at %s: %s", step, r.out)
	}
}

// killedDpkgAt runs dpkg, which is killed with all its children at a step of a script.
func (m *machine) killedDpkgAt(step string, args ...string) {
	m.t.Helper()
	r := m.run(append([]string{"env", "KILL=0", "KILL_AT=" + step, "dpkg", "--force-unsafe-io"}, args...)...)
	if r.code == 0 || strings.Contains(r.out, "killed by signal") {
		m.t.Fatalf("dpkg was not killed at %s: %s", step, r.out)
	}
}

// steps returns the steps that scripts recorded since the last call, in order and each once.
func (m *machine) steps() []string {
	m.t.Helper()
	var list []string
	for _, step := range strings.Fields(m.read("/run/steps")) {
		if !slices.Contains(list, step) {
			list = append(list, step)
		}
	}
	do(m.t, os.Remove(m.path("/run/steps")))
	return list
}

// upgradeSteps starts a machine with a running service and instrumented packages of both versions. It
// returns the packages and the steps of an upgrade.
func upgradeSteps(t *testing.T) (m *machine, packages, steps []string) {
	t.Helper()
	m = newServing(t)
	packages = []string{m.lend(instrumented(t, deb(t, packageDir))), m.lend(instrumented(t, deb(t, oldDir)))}
	for _, name := range []string{packages[1], packages[0], packages[1]} {
		_ = os.Remove(m.path("/run/steps"))
		m.run("dpkg", "--force-unsafe-io", "-i", name).succeeds(t)
	}
	m.awaitReady()
	if steps = m.steps(); len(steps) < 10 {
		t.Fatalf("the scripts have the steps %q alone", steps)
	}
	return m, packages, steps
}

func TestKilledScripts(t *testing.T) {
	t.Parallel()
	check(t, "deb: upgrade with a script killed at each step; the service runs, dpkg --configure -a completes", func(t *testing.T) {
		m, packages, steps := upgradeSteps(t)
		for i, step := range steps {
			next := packages[i%2]
			m.dpkgKilledAt(step, "-i", next)
			m.run("dpkg", "--configure", "-a").succeeds(t)
			m.serves(step)
			m.run("dpkg", "--force-unsafe-io", "-i", next).succeeds(t)
		}
		m.serves("all steps")
		m.callAndVerify(t)
		t.Logf("killed at %d steps", len(steps))
	})
	check(t, "deb: upgrade with dpkg killed at each step of a script; the service runs, the next try completes", func(t *testing.T) {
		m, packages, steps := upgradeSteps(t)
		for i, step := range steps {
			next := packages[i%2]
			m.killedDpkgAt(step, "-i", next)
			// dpkg repeats an interrupted configuration, but not an interrupted unpacking.
			if r := m.run("dpkg", "--configure", "-a"); r.code != 0 {
				r.prints(t, "reinstall it")
			}
			m.serves(step)
			m.run("dpkg", "--force-unsafe-io", "-i", next).succeeds(t)
		}
		m.serves("all steps")
		m.callAndVerify(t)
		t.Logf("killed at %d steps", len(steps))
	})
	check(t, "deb: installation and purge killed at each step; the next try completes, state is whole", func(t *testing.T) {
		m := newServing(t)
		name := m.lend(instrumented(t, deb(t, packageDir)))
		m.run("dpkg", "--force-unsafe-io", "-i", name).succeeds(t)
		m.steps()
		m.run("dpkg", "--purge", "palyra").succeeds(t)
		purge := m.steps()
		m.run("dpkg", "--force-unsafe-io", "-i", name).succeeds(t)
		install := m.steps()
		for i := range max(len(purge), len(install)) {
			m.killedDpkgAt(purge[min(i, len(purge)-1)], "--purge", "palyra")
			m.run("dpkg", "--configure", "-a").succeeds(t)
			m.run("dpkg", "--purge", "palyra").succeeds(t)
			m.killedDpkgAt(install[min(i, len(install)-1)], "-i", name)
			m.run("dpkg", "--configure", "-a").succeeds(t)
			m.run("dpkg", "--force-unsafe-io", "-i", name).succeeds(t)
		}
		if len(purge) < 3 || len(install) < 5 {
			t.Fatalf("the scripts have the steps %q and %q alone", purge, install)
		}
		m.manage()
		m.palyra("journal", "verify").succeeds(t)
		t.Logf("killed at %d steps", len(purge)+len(install))
	})
}

// serves fails the case unless the service runs and answers.
func (m *machine) serves(step string) {
	m.t.Helper()
	if !m.isActive() {
		m.t.Fatalf("after a kill at %s, the service does not run", step)
	}
	m.awaitReady()
}

func TestFullDisk(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ dir, message string }{{"/usr/bin", "No space left on device"}, {"/var/lib/dpkg", "No space left on device"}} {
		check(t, "deb: upgrade with a full disk below "+test.dir+"; the service runs, the next try completes", func(t *testing.T) {
			m := newServing(t)
			before := m.run("sha256sum", "/usr/bin/palyra", "/usr/bin/palyrad").succeeds(t).out
			m.run("sh", "-euc", `size=$(du -sk "$1" | cut -f 1)
				mount -t tmpfs -o "size=$((size + size / 8 + 256))k" tmpfs /mnt
				cp -a "$1/." /mnt
				dd if=/dev/zero of=/mnt/filler bs=1k 2>/dev/null || true
				mount --move /mnt "$1"`, "sh", test.dir).succeeds(t)
			m.dpkg("-i", deb(t, packageDir)).refuses(t, test.message)
			m.serves("a full disk")
			m.run("sha256sum", "/usr/bin/palyra", "/usr/bin/palyrad").succeeds(t).prints(t, before)
			m.run("rm", test.dir+"/filler").succeeds(t)
			m.run("mount", "-o", "remount,size=1g", test.dir).succeeds(t)
			m.run("dpkg", "--configure", "-a").succeeds(t)
			m.dpkg("-i", deb(t, packageDir)).succeeds(t)
			m.serves("a full disk")
			m.callAndVerify(t)
		})
	}
}

func TestMissingParts(t *testing.T) {
	t.Parallel()
	check(t, "doctor and status: bubblewrap is missing, and the command that installs it", func(t *testing.T) {
		m := newMachine(t, baseRoot)
		m.dpkg("-i", deb(t, packageDir)).succeeds(t)
		m.manage()
		m.doctor().refuses(t, "bubblewrap is not installed", "apt-get install bubblewrap")
		m.palyra("status").prints(t, "bubblewrap is not installed", "apt-get install bubblewrap")
		// Control: the command's effect.
		m.run("dpkg", "-i", archived(t, m, "bubblewrap")).succeeds(t)
		if out := m.doctor().out; strings.Contains(out, "bubblewrap is not installed") {
			t.Fatalf("doctor reports a bubblewrap that is installed: %s", out)
		}
	})
	check(t, "doctor and status: the kernel has no user namespaces", func(t *testing.T) {
		m := newMachine(t, baseRoot)
		m.run("dpkg", "-i", archived(t, m, "bubblewrap")).succeeds(t)
		m.dpkg("-i", deb(t, packageDir)).succeeds(t)
		m.run("ln", "-s", "systemctl", "/usr/bin/without-namespaces").succeeds(t)
		m.run(append([]string{"without-namespaces"}, as("palyra", "palyrad", "doctor", "--config", configFile)...)...).refuses(t, "user namespaces", "next:", "max_user_namespaces")
		script := `palyrad --config "$1" >/tmp/log 2>&1 & pid=$!
			until palyra --config "$1" status >/tmp/status 2>&1; do kill -0 $pid || { cat /tmp/log; exit 1; }; sleep 0.1; done
			cat /tmp/status; kill $pid`
		m.run(append([]string{"without-namespaces"}, as("palyra", "sh", "-c", script, "sh", configFile)...)...).succeeds(t).prints(t, "user namespaces")
		// Control: with user namespaces the same doctor reports a sandbox.
		m.doctor().prints(t, "Tier C")
	})
}

// TestCheckOfAnUpgrade: palyrad runs in the scripts of root as a user who may be hostile. In root's
// session it could type into root's terminal, and without limits it could stop the package manager.
func TestCheckOfAnUpgrade(t *testing.T) {
	check(t, "deb: the check of an upgrade has a session and limits of its own", func(t *testing.T) {
		m := newMachine(t, baseRoot)
		m.dpkg("-i", deb(t, packageDir)).succeeds(t)
		m.write("/usr/bin/palyrad", "#!/bin/sh\nset -- $(cat /proc/$$/stat)\necho \"session $6 memory $(ulimit -v) user $(id -u)\"\n", 0o755)
		text := must(os.ReadFile(filepath.Join(sourceDir, "packaging/linux/check.sh")))(t)
		m.write("/srv/check.sh", string(text), 0o644)
		out := m.run("sh", "-euc", `. /srv/check.sh; set -- $(cat /proc/$$/stat); echo "caller $6"; check`).succeeds(t).out
		found := regexp.MustCompile(`caller (\d+)\nsession (\d+) memory \d+ user (\d+)`).FindStringSubmatch(out)
		if found == nil || found[2] == found[1] || found[2] == "0" || found[3] == "0" {
			t.Fatalf("the check shares the session or the user of root: %s", out)
		}
	})
}
