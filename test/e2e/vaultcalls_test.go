//go:build linux

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/test/process"
)

// keep stores a secret for a host in the vault. At the end of the test, no file or output of
// palyrad may contain its value. A test that reads the value on purpose uses reveal.
func (c *client) keep(ref, value string, flags ...string) {
	c.g.T.Helper()
	c.g.Keeps("the secret "+ref, value)
	cmd := c.command(append([]string{"vault", "put", ref}, flags...)...)
	cmd.Stdin = strings.NewReader(value)
	if out, err := cmd.CombinedOutput(); err != nil {
		c.g.T.Fatalf("keeping %s: %v\n%s", ref, err, out)
	}
}

// reveal shows a value on purpose; its output is not searched.
func (c *client) reveal(ref string) process.Result {
	c.g.T.Helper()
	return process.Finish(c.g.T, c.command("vault", "get", ref, "--reveal"))
}

// TestVaultSecretStaysInTheVault: a call uses a secret of the vault by its placeholder. Only
// the server gets the value: no answer, journal, attestation, log or store contains it.
// Control: vault get --reveal shows it.
func TestVaultSecretStaysInTheVault(t *testing.T) {
	t.Parallel()
	g, server := echo(t)
	c := g.local()
	host := server.Listener.Addr().String()
	c.keep("vault://global/api", planted, "--host", host, "--note", "of the test")
	c.keep("vault://global/elsewhere", planted+"2", "--host", "elsewhere.example:443")
	listed := c.run("call", "secrets.list")
	listed.Want(t, 0)
	if !strings.Contains(listed.Out, "palyra-sec-global~api") || !strings.Contains(listed.Out, host) {
		t.Errorf("secrets.list says %s", listed.Out)
	}
	fetch := func(name string) []string {
		return []string{"call", "http.fetch", "url=" + server.URL + "/", `headers={"authorization":"Bearer palyra-sec-` + name + `"}`}
	}
	good := c.run(fetch("global~api")...)
	good.Want(t, 0)
	if !strings.Contains(good.Out, "palyra-sec-global~api") || strings.Contains(good.Out, "Bearer") {
		t.Errorf("the answer lacks the placeholder: %s", good.Out)
	}
	c.run(fetch("global~elsewhere")...).Want(t, 3, "not for "+host)
	c.run(fetch("global~none")...).Want(t, 3, "a placeholder that this caller cannot use")
	for _, code := range []string{"PAL-S202", "PAL-S203", "PAL-S207"} {
		if n := len(c.events(code)); n != 1 {
			t.Errorf("%d events %s", n, code)
		}
	}
	journal := c.run("journal", "--json")
	if n := found(t, g, listed, good, journal); n != 0 {
		t.Errorf("%d forms of the secret are told", n)
	}
	revealed := c.reveal("global/api")
	if n := found(t, g, revealed); n != 1 {
		t.Errorf("the control finds %d forms", n)
	}
	c.ok("vault", "rm", "global/api", "--yes")
	c.run(fetch("global~api")...).Want(t, 3, "a placeholder that this caller cannot use")
	g.Stop()
	if n := found(t, g, good, journal); n != 0 {
		t.Errorf("%d forms of the secret are told after the end", n)
	}
}

// TestLeasesArePolicy: the vault leases a secret only if policy permits it. If policy forbids
// the lease to all, the placeholder is not replaced.
func TestLeasesArePolicy(t *testing.T) {
	t.Parallel()
	g, server := echo(t)
	c := g.local()
	c.keep("vault://global/api", planted, "--host", server.Listener.Addr().String())
	fetch := []string{"call", "http.fetch", "url=" + server.URL + "/", `headers={"authorization":"palyra-sec-global~api"}`}
	c.ok(fetch...) // control
	g.policy("20.cedar", `@id("no-leases")
@reason("nobody uses this secret")
forbid(principal, action == Action::"secret.lease", resource == Secret::"global/api");
`)
	c.ok("policy", "reload")
	c.run(fetch...).Want(t, 3, "a placeholder that this caller cannot use")
	var listed struct {
		Result struct{ Secrets []any }
	}
	must.Do(t, json.Unmarshal([]byte(c.ok("call", "secrets.list", "-o", "json")), &listed))
	if len(listed.Result.Secrets) != 0 {
		t.Errorf("secrets.list says %+v", listed)
	}
}

// TestProgramGetsASecret: an agent's program gets a secret only after a person approved it,
// separately from the call. The value is in no answer, journal or store.
func TestProgramGetsASecret(t *testing.T) {
	t.Parallel()
	g := newGateway(t, "[process_runner]", "allow_interpreters = true")
	g.policy("10.cedar", waived)
	g.Start()
	c := g.local()
	g.write(filepath.Join(g.Workspace, "use.py"), `import base64, os, sys
value, again = os.environ["API_KEY"], open(os.environ["KEY_FILE"]).read()
print("equal" if value == again else "different", len(value), oct(os.stat(os.environ["KEY_FILE"]).st_mode & 0o777))
print(value, base64.b64encode(value.encode()).decode(), value.encode().hex())
sys.stdout.flush()
for part in value:
    os.write(2, part.encode())
if len(sys.argv) > 1:
    open("left.txt", "w").write(value)
`)
	c.keep("vault://global/api", planted, "--env", "API_KEY", "--note", "of the test")
	c.keep("vault://global/file", planted, "--env", "KEY_FILE", "--as-file", "key.txt")
	if listed := c.ok("call", "secrets.list"); !strings.Contains(listed, "API_KEY") || !strings.Contains(listed, "/home/tool/.secrets/key.txt") {
		t.Errorf("secrets.list says %s", listed)
	}
	agent := g.add("helper", "--owner", "local", "--role", "agent")
	use := func(more string) []string {
		return []string{"call", "process.run", `argv=["python3","use.py"` + more + `]`, `secrets=["global/api","vault://global/file"]`}
	}
	denied := agent.begin(use("")...)
	waiting := denied.asked()
	shown := c.run("approvals", "show", waiting.ID)
	shown.Want(t, 0)
	for _, want := range []string{"secret_access", "agent:helper", "user:local", "vault://global/api, version 1", "variable API_KEY", "of the test"} {
		if !strings.Contains(shown.Out, want) {
			t.Errorf("%q is not in\n%s", want, shown.Out)
		}
	}
	agent.allow(waiting).Want(t, 3, "PERMISSION_DENIED")
	c.deny(waiting).Want(t, 0)
	no := denied.wait()
	no.Want(t, 4, "APPROVAL_DENIED")
	if n := len(c.events("PAL-S203")); n != 0 {
		t.Errorf("%d secrets were leased for a call that was denied", n)
	}

	g.policy("20.cedar", `@id("api-unasked") @waives("approval: test")
permit(principal, action == Action::"secret.inject", resource) when { resource.name == "global/api" };
`)
	c.ok("policy", "reload")
	call := agent.begin(use(`,"leave"`)...)
	c.allow(call.asked()).Want(t, 0)
	yes := call.wait()
	if !strings.Contains(yes.Out, "equal 33 0o400") || !strings.Contains(yes.Out, "[secret global/") || !strings.Contains(yes.Out+yes.Err, "COMMIT_REFUSED") {
		t.Errorf("the program ran to %d\n%s\n%s", yes.Code, yes.Out, yes.Err)
	}
	if _, err := os.Stat(filepath.Join(g.Workspace, "left.txt")); err == nil {
		t.Error("a file with the secret was committed")
	}
	for code, want := range map[string]int{"PAL-S203": 2, "PAL-S207": 2} {
		if n := len(c.events(code)); n != want {
			t.Errorf("%d events %s, want %d", n, code, want)
		}
	}
	journal := c.run("journal", "--json")
	if n := found(t, g, shown, no, yes, journal); n != 0 {
		t.Errorf("%d forms of the secret are told", n)
	}
	if n := found(t, g, c.reveal("global/api")); n != 1 {
		t.Errorf("the control finds %d forms", n)
	}
	g.Stop()
	if n := found(t, g, yes); n != 0 {
		t.Errorf("%d forms of the secret are told after the end", n)
	}
}
