//go:build linux

package checks

import (
	"strings"
	"testing"
)

const (
	configFile = "/etc/palyra/palyra.toml"
	stateDir   = "/var/lib/palyra"
	workspace  = "/srv/demo"
	canary     = "A file that a governed call reads.\n"
)

// addWorkspace declares a workspace with a file, and a policy that lets id run without a person.
// The configuration is then one that a person edited.
func (m *machine) addWorkspace() {
	m.t.Helper()
	m.write(workspace+"/README.md", canary, 0o644)
	m.run("chown", "-R", "palyra:palyra", workspace).succeeds(m.t)
	m.append(configFile, "\n# edited by a person\n[[workspaces]]\nname = \"demo\"\npath = \""+workspace+"\"\n")
	m.write("/etc/palyra/policies/10-check.cedar", `@id("check.id-unattended")
@reason("the program id only reads")
@waives("approval: it runs in a sandbox without a network")
permit(principal, action == Action::"tool.execute/process.run", resource)
when { context has exec && context.exec.basename == "id" && context.egress.mode == "strict" };
`, 0o640)
	m.run("chgrp", "-R", "palyra", "/etc/palyra/policies").succeeds(m.t)
}

func (m *machine) append(name, text string) {
	m.t.Helper()
	m.write(name+".new", m.read(name)+text, 0o640)
	m.run("chown", "root:palyra", name+".new").succeeds(m.t)
	m.run("mv", name+".new", name).succeeds(m.t)
}

// manage makes the machine one that a service manager runs, with palyrad as an enabled and running
// service.
func (m *machine) manage() {
	m.t.Helper()
	m.run("mkdir", "-p", "/run/systemd/system").succeeds(m.t)
	m.run("systemctl", "enable", "--now", "palyrad").succeeds(m.t)
	m.awaitReady()
}

func (m *machine) awaitReady() {
	m.t.Helper()
	failure := func() string { return "a ready gateway; its log:\n" + m.log() }
	eventually(m.t, failure, func() bool { return m.palyra("status").code == 0 })
}

// log returns palyrad's log as far as it is written.
func (m *machine) log() string {
	if !m.exists(serviceLog) {
		return "no log"
	}
	return m.read(serviceLog)
}

func (m *machine) isActive() bool { return m.run("systemctl", "is-active", "palyrad").code == 0 }

// palyra runs the CLI as the user of the service.
func (m *machine) palyra(args ...string) result {
	m.t.Helper()
	return m.run(as("palyra", append([]string{"palyra", "--no-input", "--config", configFile}, args...)...)...)
}

// doctor returns the report of palyrad's doctor, which may fail.
func (m *machine) doctor() result {
	m.t.Helper()
	return m.run(as("palyra", "palyrad", "doctor", "--config", configFile)...)
}

// callAndVerify makes governed calls and verifies their record: in the running gateway, as an
// export, and with one changed byte.
func (m *machine) callAndVerify(t *testing.T) {
	t.Helper()
	m.palyra("call", "fs.read", "workspace=demo", "path=README.md").succeeds(t).prints(t, strings.TrimSpace(canary))
	m.palyra("journal", "verify").succeeds(t)
	export := "/tmp/journal.ndjson"
	m.run("rm", "-f", export).succeeds(t)
	m.palyra("journal", "export", export).succeeds(t)
	m.palyra("journal", "verify", export).succeeds(t)
	changed := strings.Replace(m.read(export), "fs.read", "fs.reaD", 1)
	m.write(export+".changed", changed, 0o644)
	m.palyra("journal", "verify", export+".changed").refuses(t)
}

// runProgram makes a governed call that starts a program in the sandbox.
func (m *machine) runProgram(t *testing.T) {
	t.Helper()
	m.palyra("call", "process.run", "workspace=demo", "argv=id").succeeds(t).prints(t, "uid=")
}
