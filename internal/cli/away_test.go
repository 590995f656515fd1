package cli_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra/internal/cli"
	"palyra/internal/cli/clitest"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/identity"
)

// arguments are the required arguments of each command; a command without an entry requires
// none.
var arguments = map[string][]string{
	"access explain": {"ada", "approval.decide"}, "access show": {"ada"}, "access allow": {"channel:ops"}, "access forbid": {"agent:claude"},
	"approvals cancel": {clitest.ApprovalID}, "approvals decide": {clitest.ApprovalID, "--allow", "once", "--digest", someDigest}, "approvals edit": {clitest.ApprovalID, "--digest", someDigest, "--input", "-"},
	"approvals sign": {clitest.ApprovalID, "--allow", "--digest", someDigest}, "notify test": {"ops"}, "notify slack map": {"T012AB3CD/U012AB3CD", "user:ada"}, "notify slack unmap": {"T012AB3CD/U012AB3CD"}, "notify slack consent": {"T012AB3CD/U012AB3CD"},
	"approvals show": {clitest.ApprovalID}, "approvals why": {"toolu_1"}, "calls cancel": {clitest.EndedCall}, "calls show": {clitest.EndedCall}, "approve": {clitest.ApprovalID, "--digest", someDigest},
	"attest show": {clitest.ApprovalID}, "call": {"process.run", "argv=git", "argv=status", "timeout_ms=x"},
	"console revoke": {clitest.ConsoleSessionID},
	"deny":           {clitest.ApprovalID, "--digest", someDigest, "--reason", "no"}, "devices rotate": {"--self"}, "devices show": {clitest.ApprovalID}, "devices rename": {clitest.ApprovalID, "laptop"}, "devices revoke": {clitest.ApprovalID, "--yes"}, "grants revoke": {clitest.ApprovalID, "--yes"},
	"hook install": {"claude-code"}, "mcp config": {"codex"}, "journal prove": {"1"}, "journal show": {"1"}, "policy activate": {someDigest}, "policy diff": {someDigest},
	"members disable": {"ada"}, "members enable": {"ada"}, "members owner": {"claude", "ada"}, "members remove": {"ada", "--yes"},
	"members roles": {"ada", "--add", "auditor"}, "members show": {"ada"},
	"policy init":     {"--profile", "laptop", "--force", "--yes"},
	"policy explain":  {"process.run", "argv=git", "argv=status", "timeout_ms=x"},
	"policy simulate": {"process.run", "argv=git", "argv=status", "timeout_ms=x"},
	"policy snapshot": {someDigest}, "run": {"task"}, "runs cancel": {clitest.ApprovalID}, "runs message": {clitest.ApprovalID, "hi"},
	"runs report": {clitest.ApprovalID}, "runs show": {clitest.ApprovalID}, "runs watch": {clitest.ApprovalID}, "sessions end": {clitest.ApprovalID}, "sessions show": {clitest.ApprovalID},
	"skills show": {"notebook"}, "skills quarantine": {"notebook"}, "skills disable": {"notebook"}, "skills enable": {"notebook"}, "skills remove": {"notebook", "--yes"},
	"skills trust add": {"example.org", "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="}, "skills trust remove": {"example.org"},
	"tokens create": {"ci"}, "vault put": {"global/x"}, "vault edit": {"global/x", "--note", "x"}, "vault get": {"global/x"}, "vault show": {"global/x"}, "vault history": {"global/x"}, "vault rm": {"global/x", "--yes"}, "mcp add": {"x", "--", "x"}, "mcp show": {"x"}, "mcp refresh": {"x"}, "mcp update": {"x"}, "mcp approve": {"x", "--yes"}, "mcp remove": {"x", "--yes"}, "mcp login": {"x"}, "mcp logout": {"x"}, "login": {clitest.ClosedAddress}, "context use": {"local"}, "pair": {clitest.ClosedAddress}, "pairing cancel": {clitest.PairingID}, "key protect": {"--undo"}, "key presence": {"--confirm", clitest.ApprovalID}, "members confirm": {"bob"}, "members consent": {"claude"}, "tokens revoke": {clitest.TokenID, "--yes"}, "tools show": {"process.run"}, "workspace show": {clitest.ChangeSetID}, "workspace undo": {clitest.ChangeSetID},
}

var someDigest = "sha256:" + strings.Repeat("0", 64)

// offline are the commands that work without a gateway.
var offline = []string{"down", "hook schema", "hook status", "mcp config", "context add", "context list", "context remove", "context use", "logout", "config check", "config path", "config show", "key protect", "key show", "man", "policy check", "policy init", "policy test", "version", "journal verify", "attest verify", "skills audit", "skills build", "skills keygen", "skills new", "skills sign", "skills verify"}

// starting are the commands that start a gateway, use an installation, need a terminal, or
// serve another program. Scripts of cmd/palyra and their own tests run them.
var starting = []string{"tui", "up", "hook generic", "hook uninstall", "mcp serve"}

// TestEveryCommandWithoutAGateway: the error of every command names the connection, also if its
// arguments cannot be parsed without a tool's schema. Commands that need no gateway succeed.
func TestEveryCommandWithoutAGateway(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	id := w.Journaled().Attested(t, `{}`)
	keys := w.Write("keys.json", w.Run("attest", "keys", "-o", "json").Out)
	more := map[string][]string{
		"vault put": {"--file", w.Write("value", "x")}, "vault export-recovery": {"--out", filepath.Join(t.TempDir(), "recovery")},
		"journal verify": {w.Export()}, "context add": {"work", w.Bundle}, "context remove": {"work"},
		"members add":   {"eve", "--role", "auditor", "--out", filepath.Join(t.TempDir(), "eve")},
		"attest verify": {w.Write("envelope.json", w.Run("attest", "show", id, "--envelope").Out), "--keys", keys},
	}
	desk := t.TempDir()
	packed, key := filepath.Join(desk, "counter.palyra-skill"), filepath.Join(desk, "key")
	w.Want(w.Run("skills", "new", filepath.Join(desk, "counter")), 0)
	w.Want(w.Run("skills", "keygen", key), 0)
	w.Want(w.Run("skills", "build", filepath.Join(desk, "counter"), "--key", key, "--out", packed), 0)
	more["skills audit"], more["skills verify"], more["skills install"], more["skills sign"] = []string{packed}, []string{packed}, []string{packed}, []string{packed, "--key", key}
	more["skills build"] = []string{filepath.Join(desk, "counter"), "--out", packed + ".again"}
	more["skills keygen"], more["skills new"] = []string{filepath.Join(desk, "another")}, []string{filepath.Join(desk, "other")}
	session := filepath.Join(t.TempDir(), "session")
	must.Do(t, identity.WriteLogin(session, must.Get(identity.ReadBundle(w.Bundle))(t)))
	more["logout"] = []string{"--credentials", session}
	w.Server.CloseClientConnections()
	w.Env["PALYRA_ADDRESS"] = clitest.ClosedAddress
	w.Want(w.Run("policy", "init", "--profile", "laptop"), 0) // for commands that read the directory
	for _, name := range cli.CommandNames() {
		r := w.Run(slices.Concat(strings.Fields(name), arguments[name], more[name])...)
		switch {
		case slices.Contains(starting, name):
		case slices.Contains(offline, name):
			if r.Code != 0 {
				t.Errorf("palyra %s needs no gateway, and exits %d without one: %s", name, r.Code, r.Err)
			}
		case r.Code != reason.Lookup(reason.NotConnected).Exit || !strings.Contains(r.Err, string(reason.NotConnected)):
			t.Errorf("palyra %s exits %d without a gateway: %s%s", name, r.Code, r.Out, r.Err)
		}
	}
}
