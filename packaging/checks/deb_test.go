//go:build linux

package checks

import (
	"bytes"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// archived returns a Debian package that the minimal Debian carries without having it installed.
func archived(t *testing.T, m *machine, name string) string {
	t.Helper()
	return strings.TrimPrefix(artifact(t, m.path("/var/cache/apt/archives"), name+"_*.deb"), m.root)
}

// serving is the root directory of a machine with the previous version, bubblewrap, an edited configuration
// and the state of a gateway that has run.
var serving struct {
	sync.Once
	root string
}

// newServing starts a machine in which the previous version runs as a service with state.
func newServing(t *testing.T) *machine {
	t.Helper()
	serving.Do(func() {
		t.Run("prepare", func(t *testing.T) {
			m := newMachine(t, baseRoot)
			m.run("dpkg", "-i", archived(t, m, "bubblewrap")).succeeds(t)
			m.dpkg("-i", deb(t, oldDir)).succeeds(t)
			m.addWorkspace()
			m.manage()
			m.callAndVerify(t)
			m.run("systemctl", "stop", "palyrad").succeeds(t)
			serving.root = filepath.Join(runDir, "serving")
			run(t, "cp", "-a", "--reflink=auto", m.root, serving.root).succeeds(t)
		})
	})
	if serving.root == "" {
		t.Fatal("the previous version does not run")
	}
	m := newMachine(t, serving.root)
	m.manage()
	return m
}

func TestDebInstalls(t *testing.T) {
	t.Parallel()
	check(t, "deb: install as root, governed calls, journal verify", func(t *testing.T) {
		m := newMachine(t, baseRoot)
		m.run("dpkg", "-i", archived(t, m, "bubblewrap")).succeeds(t)
		m.dpkg("-i", deb(t, packageDir)).succeeds(t).prints(t, "nothing was started")
		if found := m.programs(); len(found) > 0 {
			t.Fatalf("after the installation runs %q", found)
		}
		if m.exists(wantsLink) {
			t.Fatal("the installation enabled the service")
		}
		m.run("stat", "-c", "%U:%G %a", "/etc/palyra", configFile, stateDir).succeeds(t).prints(t, "root:palyra 750\nroot:palyra 640\npalyra:palyra 700\n")
		m.addWorkspace()
		m.manage()
		m.callAndVerify(t)
		m.runProgram(t)
		m.run("systemctl", "stop", "palyrad").succeeds(t)
		if found := m.programs(); len(found) > 0 {
			t.Fatalf("after the stop runs %q", found)
		}
	})
	check(t, "deb: the configuration of the package starts a gateway", func(t *testing.T) {
		m := newMachine(t, baseRoot)
		m.dpkg("-i", deb(t, packageDir)).succeeds(t)
		m.run("dpkg", "-i", archived(t, m, "bubblewrap")).succeeds(t)
		m.manage()
		m.palyra("status").succeeds(t).prints(t, "state         ready")
	})
	check(t, "deb: install by an ordinary user with sudo", func(t *testing.T) {
		m := newMachine(t, baseRoot)
		m.run("dpkg", "-i", archived(t, m, "sudo")).succeeds(t)
		m.run("useradd", "--create-home", "newcomer").succeeds(t)
		m.write("/etc/sudoers.d/newcomer", "newcomer ALL=(ALL) NOPASSWD: ALL\n", 0o440)
		name := m.lend(deb(t, packageDir))
		m.run(as("newcomer", "dpkg", "-i", name)...).refuses(t, "superuser")
		m.run(as("newcomer", "sudo", "dpkg", "-i", name)...).succeeds(t)
		m.run(as("newcomer", "palyra", "version")...).succeeds(t)
		// The configuration may name accounts: only root and the service read it.
		m.run(as("newcomer", "cat", configFile)...).refuses(t, "Permission denied")
		m.addWorkspace()
		m.run("mkdir", "-p", "/run/systemd/system").succeeds(t)
		m.run(as("newcomer", "sudo", "systemctl", "enable", "--now", "palyrad")...).succeeds(t)
		m.awaitReady()
		m.callAndVerify(t)
	})
}

func TestDebUpgrades(t *testing.T) {
	t.Parallel()
	check(t, "deb: upgrade with an edited conffile restarts the service", func(t *testing.T) {
		m := newServing(t)
		before, edited := m.palyra("status").succeeds(t).out, m.read(configFile)
		m.dpkg("-i", deb(t, packageDir)).succeeds(t)
		m.awaitReady()
		if m.read(configFile) != edited {
			t.Fatal("the upgrade changed an edited configuration")
		}
		if started(before) == started(m.palyra("status").succeeds(t).out) {
			t.Fatal("the upgrade did not restart the service")
		}
		m.callAndVerify(t)
	})
	check(t, "deb: the same version again", func(t *testing.T) {
		m := newServing(t)
		for range 2 {
			m.dpkg("-i", deb(t, packageDir)).succeeds(t)
			m.awaitReady()
		}
		m.callAndVerify(t)
	})
	check(t, "deb: upgrade of a stopped service starts nothing", func(t *testing.T) {
		m := newServing(t)
		m.run("systemctl", "stop", "palyrad").succeeds(t)
		m.dpkg("-i", deb(t, packageDir)).succeeds(t)
		if m.isActive() {
			t.Fatal("the upgrade started a service that was stopped")
		}
	})
	check(t, "deb: upgrade without a service manager", func(t *testing.T) {
		m := newServing(t)
		m.run("systemctl", "stop", "palyrad").succeeds(t)
		m.run("rm", "-r", "/run/systemd", "/usr/bin/systemctl").succeeds(t)
		m.dpkg("-i", deb(t, packageDir)).succeeds(t)
		m.dpkg("--purge", "palyra").succeeds(t)
	})
}

// started returns the line of a status with the time of the start.
func started(status string) string {
	for line := range strings.Lines(status) {
		if strings.HasPrefix(line, "started") {
			return strings.Split(line, "(")[0]
		}
	}
	return ""
}

func TestDebRefuses(t *testing.T) {
	t.Parallel()
	check(t, "deb: upgrade to a palyrad that would not start keeps the service running", func(t *testing.T) {
		m := newServing(t)
		before := started(m.palyra("status").succeeds(t).out)
		m.append(configFile, "unknown_key = 1\n")
		m.dpkg("-i", deb(t, packageDir)).succeeds(t).prints(t, "the new palyrad would not start", "unknown_key", "systemctl restart palyrad")
		m.run("dpkg", "--configure", "-a").succeeds(t)
		if !m.isActive() || len(m.programs()) == 0 {
			t.Fatal("the service does not run any more")
		}
		m.run("sed", "-i", "/unknown_key/d", configFile).succeeds(t)
		if after := started(m.palyra("status").succeeds(t).out); after != before {
			t.Fatalf("the service was restarted: %s, %s", before, after)
		}
		// Control: the next step that it prints works.
		m.run("systemctl", "restart", "palyrad").succeeds(t)
		m.awaitReady()
	})
	check(t, "deb: upgrade over a newer schema is refused, the service runs", func(t *testing.T) {
		m := newServing(t)
		before := started(m.palyra("status").succeeds(t).out)
		known := m.setSchema("9999")
		m.dpkg("-i", deb(t, packageDir)).refuses(t, "refused: the store has schema version 9999", "palyrad restore")
		m.run("dpkg", "--configure", "-a").succeeds(t)
		if after := started(m.palyra("status").succeeds(t).out); after != before {
			t.Fatalf("the service was restarted: %s, %s", before, after)
		}
		m.setSchema(known)
		m.callAndVerify(t)
	})
	check(t, "deb: downgrade over a newer schema is refused before it unpacks", func(t *testing.T) {
		m := newServing(t)
		m.dpkg("-i", deb(t, packageDir)).succeeds(t)
		m.awaitReady()
		known := m.setSchema("9999")
		digest := m.run("sha256sum", "/usr/bin/palyrad").succeeds(t).out
		m.dpkg("-i", deb(t, oldDir)).refuses(t, "refused: the store has schema version 9999")
		m.run("sha256sum", "/usr/bin/palyrad").succeeds(t).prints(t, digest)
		m.run("dpkg", "--configure", "-a").succeeds(t)
		m.run("dpkg-query", "-W", "-f", "${Status} ${Version}", "palyra").succeeds(t).prints(t, "install ok installed", version(deb(t, packageDir)))
		// Controls: the package states the schema of the store that its palyrad writes, and with
		// that schema the older one is installed.
		if script := run(t, "dpkg-deb", "--info", deb(t, packageDir), "preinst").succeeds(t).out; !strings.Contains(script, "-gt '"+known+"'") {
			t.Errorf("preinst does not compare with the schema version %s: %s", known, script)
		}
		m.setSchema(known)
		m.dpkg("-i", deb(t, oldDir)).succeeds(t)
		m.awaitReady()
	})
	check(t, "deb: links in the state directory are not followed", func(t *testing.T) {
		m := newServing(t)
		m.run("systemctl", "stop", "palyrad").succeeds(t)
		m.write("/srv/canary", "mine", 0o600)
		for _, name := range []string{"palyra.db-wal", "palyra.db-head", "palyrad.lock", "vault.json", "tmp"} {
			m.run(as("palyra", "sh", "-c", "rm -rf "+stateDir+"/"+name+"; ln -s /srv/canary "+stateDir+"/"+name)...).succeeds(t)
		}
		m.dpkg("-i", deb(t, packageDir)).succeeds(t)
		m.dpkg("--purge", "palyra").succeeds(t)
		m.run("stat", "-c", "%U %a %s", "/srv/canary").succeeds(t).prints(t, "root 600 4\n")
		if m.read("/srv/canary") != "mine" {
			t.Fatal("a maintainer script wrote through a link of the user palyra")
		}
	})
}

// version returns the version in the name of a deb.
func version(name string) string { return strings.Split(filepath.Base(name), "_")[1] }

func TestDebRemoves(t *testing.T) {
	t.Parallel()
	check(t, "deb: remove stops the service and keeps the configuration", func(t *testing.T) {
		m := newServing(t)
		m.dpkg("--remove", "palyra").succeeds(t)
		if found := m.programs(); len(found) > 0 {
			t.Fatalf("after the removal runs %q", found)
		}
		if !m.exists(configFile) || m.exists("/usr/bin/palyrad") || m.exists(wantsLink) {
			t.Fatal("want the configuration alone")
		}
		m.dpkg("-i", deb(t, packageDir)).succeeds(t)
		if m.isActive() {
			t.Fatal("an installation after a removal started the service")
		}
		m.manage()
		m.callAndVerify(t)
	})
	check(t, "deb: purge with a running service and a pending approval keeps the state", func(t *testing.T) {
		m := newServing(t)
		var answer bytes.Buffer
		pending := m.command(as("palyra", "palyra", "--no-input", "--config", configFile, "call", "fs.write", "workspace=demo", "path=new.txt", "content=x")...)
		pending.Stdout, pending.Stderr = &answer, &answer
		do(t, pending.Start())
		failure := func() string { return "a pending approval:\n" + m.palyra("approvals", "list").out }
		eventually(t, failure, func() bool {
			return strings.Contains(m.palyra("approvals", "list").out, "new.txt")
		})
		m.dpkg("--purge", "palyra").succeeds(t).prints(t, stateDir, "pending approvals")
		if pending.Wait() == nil {
			t.Fatalf("a call without an approval succeeded: %s", &answer)
		}
		if found := m.programs(); len(found) > 0 {
			t.Fatalf("after the purge runs %q", found)
		}
		if m.exists(configFile) || m.exists(wantsLink) || !m.exists(stateDir+"/palyra.db") || m.exists(workspace+"/new.txt") {
			t.Fatal("want the state, no configuration and no effect of the call without an approval")
		}
		m.dpkg("-i", deb(t, packageDir)).succeeds(t)
		m.addWorkspace()
		m.manage()
		m.palyra("journal", "verify").succeeds(t)
		m.palyra("approvals", "list").succeeds(t).prints(t, "new.txt", "pending")
	})
	check(t, "deb: purge without state leaves nothing", func(t *testing.T) {
		m := newMachine(t, baseRoot)
		m.dpkg("-i", deb(t, packageDir)).succeeds(t)
		if out := m.dpkg("--purge", "palyra").succeeds(t).out; strings.Contains(out, stateDir+" stays") || m.exists(stateDir) {
			t.Fatalf("an empty state directory stays: %s", out)
		}
		left, err := filepath.Glob(m.path("/usr/*/*palyra*"))
		if err != nil || len(left) > 0 || m.exists("/etc/palyra") {
			t.Fatalf("the purge left %q, %v", left, err)
		}
	})
}

// setSchema writes a schema version into the store, as a newer palyrad would, and returns the
// previous one.
func (m *machine) setSchema(version string) string {
	m.t.Helper()
	query := "PRAGMA user_version; PRAGMA user_version = " + version
	return strings.TrimSpace(run(m.t, "sqlite3", "-cmd", ".timeout 5000", m.path(stateDir+"/palyra.db"), query).succeeds(m.t).out)
}
