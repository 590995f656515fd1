//go:build linux

package checks

import (
	"strings"
	"testing"
)

// rpm runs this system's rpm on the root directory of the machine, as a person would on a system
// whose packages are rpms. Dependencies are not in the machine's database.
func (m *machine) rpm(args ...string) result {
	m.t.Helper()
	return run(m.t, append([]string{"rpm", "--root", m.root, "--dbpath", "/var/lib/rpm"}, args...)...)
}

func rpm(t *testing.T, dir string) string {
	t.Helper()
	return artifact(t, dir, "palyra-*."+rpmArch+".rpm")
}

func TestRPM(t *testing.T) {
	t.Parallel()
	install := func(m *machine, action string, args ...string) result {
		return m.rpm(append([]string{action, "--nodeps", "--nosignature"}, args...)...)
	}
	// serve starts the previous version as a service with state.
	serve := func(t *testing.T) *machine {
		m := newMachine(t, baseRoot)
		m.run("dpkg", "-i", archived(t, m, "bubblewrap")).succeeds(t)
		install(m, "-i", rpm(t, oldDir)).succeeds(t)
		m.addWorkspace()
		m.manage()
		return m
	}
	check(t, "rpm: install into an empty database, verify, governed calls, erase", func(t *testing.T) {
		m := newMachine(t, baseRoot)
		m.run("dpkg", "-i", archived(t, m, "bubblewrap")).succeeds(t)
		install(m, "-i", rpm(t, packageDir)).succeeds(t).prints(t, "nothing was started")
		if found := m.programs(); len(found) > 0 || m.exists(wantsLink) {
			t.Fatalf("after the installation runs %q", found)
		}
		m.rpm("-V", "palyra").succeeds(t)
		m.run("stat", "-c", "%U:%G %a", "/etc/palyra", configFile, stateDir).succeeds(t).prints(t, "root:palyra 750\nroot:palyra 640\npalyra:palyra 700\n")
		m.addWorkspace()
		m.manage()
		m.callAndVerify(t)
		m.runProgram(t)
		// Controls: a changed configuration is no fault, a changed program is one.
		m.run("sh", "-c", "echo >>/usr/bin/palyra-hook").succeeds(t)
		if out := m.rpm("-V", "palyra").refuses(t, "/usr/bin/palyra-hook", " c "+configFile).out; strings.Contains(out, "/usr/bin/palyrad") {
			t.Fatalf("rpm reports programs that are as they were: %s", out)
		}
		m.rpm("-e", "palyra").succeeds(t).prints(t, stateDir+" stays")
		if found := m.programs(); len(found) > 0 || m.exists("/usr/bin/palyrad") || m.exists(wantsLink) || !m.exists(stateDir+"/palyra.db") {
			t.Fatalf("after the removal runs %q, and the state is there: %t", found, m.exists(stateDir+"/palyra.db"))
		}
	})
	check(t, "rpm: upgrade keeps the configuration and restarts the service", func(t *testing.T) {
		m := serve(t)
		before, edited := started(m.palyra("status").succeeds(t).out), m.read(configFile)
		install(m, "-U", rpm(t, packageDir)).succeeds(t)
		m.serves("an upgrade")
		if m.read(configFile) != edited || started(m.palyra("status").succeeds(t).out) == before {
			t.Fatal("want the edited configuration and a restarted service")
		}
		install(m, "-U", "--replacepkgs", rpm(t, packageDir)).succeeds(t)
		m.serves("the same again")
		m.callAndVerify(t)
	})
	check(t, "rpm: upgrade to a palyrad that would not start keeps the service running", func(t *testing.T) {
		m := serve(t)
		m.append(configFile, "unknown_key = 1\n")
		install(m, "-U", rpm(t, packageDir)).succeeds(t).prints(t, "the new palyrad would not start", "unknown_key")
		if !m.isActive() {
			t.Fatal("the service does not run any more")
		}
	})
	check(t, "rpm: downgrade over a newer schema is refused before it unpacks", func(t *testing.T) {
		m := serve(t)
		install(m, "-U", rpm(t, packageDir)).succeeds(t)
		m.serves("an upgrade")
		known := m.setSchema("9999")
		digest := m.run("sha256sum", "/usr/bin/palyrad").succeeds(t).out
		install(m, "-U", "--oldpackage", rpm(t, oldDir)).refuses(t, "refused: the store has schema version 9999")
		m.run("sha256sum", "/usr/bin/palyrad").succeeds(t).prints(t, digest)
		m.serves("a refused downgrade")
		m.setSchema(known)
		install(m, "-U", "--oldpackage", rpm(t, oldDir)).succeeds(t)
		m.serves("a downgrade")
	})
}
