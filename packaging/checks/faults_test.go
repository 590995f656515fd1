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
	"slices"
	"strings"
	"testing"
)

// instrumented returns a package with the same files and scripts as a deb, whose scripts record
// each command before it runs and kill dpkg and themselves at the one that KILL_AT names. Its
// members are not compressed, so that a case is fast.
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
trap 'step=$((${step:-0} + 1)); if [ "${KILL_AT:-}" = "@NAME@:$step" ]; then kill -KILL 0; fi; echo "@NAME@:$step" >>/run/steps' DEBUG
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

// dpkgKilledAt runs dpkg, and kills it and all its children at a step of a script.
func (m *machine) dpkgKilledAt(step string, args ...string) {
	m.t.Helper()
	r := m.run(append([]string{"env", "KILL_AT=" + step, "dpkg", "--force-unsafe-io"}, args...)...)
	if r.code == 0 {
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

func TestKilledScripts(t *testing.T) {
	check(t, "deb: upgrade killed at each step of each script; the service runs, dpkg --configure -a completes", func(t *testing.T) {
		m := newServing(t)
		packages := []string{m.lend(instrumented(t, deb(t, packageDir))), m.lend(instrumented(t, deb(t, oldDir)))}
		m.dpkg("-i", packages[1]).succeeds(t)
		m.run("dpkg", "-i", packages[0]).succeeds(t)
		m.steps()
		m.run("dpkg", "-i", packages[1]).succeeds(t)
		m.awaitReady()
		steps := m.steps()
		for i, step := range steps {
			next := packages[i%2]
			m.dpkgKilledAt(step, "-i", next)
			m.run("dpkg", "--configure", "-a").succeeds(t)
			m.serves(step)
			m.run("dpkg", "--force-unsafe-io", "-i", next).succeeds(t)
			m.serves(step)
		}
		if len(steps) < 10 {
			t.Fatalf("the scripts have the steps %q alone", steps)
		}
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
		for _, step := range purge {
			m.dpkgKilledAt(step, "--purge", "palyra")
			m.run("dpkg", "--configure", "-a").succeeds(t)
			m.run("dpkg", "--purge", "palyra").succeeds(t)
			m.run("dpkg", "--force-unsafe-io", "-i", name).succeeds(t)
		}
		for _, step := range install {
			m.run("dpkg", "--purge", "palyra").succeeds(t)
			m.dpkgKilledAt(step, "-i", name)
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
