//go:build linux

package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/identity/login/logintest"
	"palyra/test/process"
)

// machine is another person's machine, which has only the gateway's address.
type machine struct {
	g    *gateway
	home string
}

func (m machine) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(m.g.T.Context(), filepath.Join(programs, "palyra"), args...)
	cmd.Env = process.Environment(m.home)
	return cmd
}

func (m machine) run(args ...string) process.Result {
	m.g.T.Helper()
	return process.Finish(m.g.T, m.command(args...))
}

var (
	pageLine = regexp.MustCompile(`(?m)^  (http://127\.0\.0\.1:\S+/authorize\?\S+)$`)
	codeLine = regexp.MustCompile(`(?m)^  ([A-Z0-9]{8})$`)
)

// logIn logs in with a browser that follows redirects.
func (m machine) logIn(args ...string) process.Result {
	m.g.T.Helper()
	t := m.g.T
	c := process.Begin(t, m.command(append([]string{"login"}, args...)...))
	found := c.Err.Await(pageLine, c.Ended)
	if found == nil {
		return c.Wait(t)
	}
	res := must.Get(http.Get(found[1]))(t)
	must.Do(t, res.Body.Close())
	<-c.Ended
	return c.Wait(t)
}

// fingerprint returns the fingerprint of the gateway's CA, in the form that its administrator
// publishes.
func (g *gateway) fingerprint() string {
	g.T.Helper()
	block, _ := pem.Decode(must.Get(os.ReadFile(filepath.Join(g.bundle(), "ca.pem")))(g.T))
	sum := sha256.Sum256(block.Bytes)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// loginConfig returns the configuration of a gateway whose members log in at a provider.
func loginConfig(t *testing.T, p *logintest.Provider, dir string) string {
	t.Helper()
	secret := filepath.Join(dir, "oidc-secret")
	must.Do(t, os.WriteFile(secret, []byte(logintest.Secret+"\n"), 0o600))
	return fmt.Sprintf(`[oidc]
issuer = %q
client_id = %q
client_secret_file = %q
device_flow = true
[[oidc.groups]]
group = "approvers"
roles = ["operator"]
[[oidc.groups]]
group = "makers"
roles = ["developer"]
`, p.Issuer(), logintest.ClientID, secret)
}

// TestLogin: members log in with the real programs, make calls, answer each other's approvals,
// and log out. A person in no group is refused.
func TestLogin(t *testing.T) {
	t.Parallel()
	provider := logintest.Start(t, "/realms/main")
	g := startGateway(t, loginConfig(t, provider, t.TempDir()))
	ann, bob := machine{g, t.TempDir()}, machine{g, t.TempDir()}

	provider.SignIn(logintest.Person{Subject: "s-ann", Name: "ann", Groups: []string{"approvers"}})
	ann.logIn(g.address()).Want(t, 8, "VERIFICATION_FAILED", g.fingerprint(), "--ca-fingerprint")
	ann.logIn(g.address(), "--ca-fingerprint", "sha256:"+strings.Repeat("0", 64)).Want(t, 8, "which does not match --ca-fingerprint")
	r := ann.logIn(g.address(), "--ca-fingerprint", g.fingerprint(), "--name", "work")
	r.Want(t, 0)
	if !strings.Contains(r.Out, "user:ann") || !strings.Contains(r.Out, "operator") {
		t.Errorf("ann logged in:\n%s", r.Out)
	}
	checkBundle(t, filepath.Join(ann.home, ".config", "palyra", "logins", "work"))
	ann.run("status").Want(t, 0)

	// bob confirms the login on another device.
	provider.SignIn(logintest.Person{Subject: "s-bob", Name: "bob", Groups: []string{"approvers"}})
	c := process.Begin(t, bob.command("login", g.address(), "--ca-fingerprint", g.fingerprint(), "--device"))
	if found := c.Err.Await(codeLine, c.Ended); found != nil {
		provider.Confirm(found[1], true)
	}
	<-c.Ended
	c.Wait(t).Want(t, 0)

	// Each can approve the other's call, but not their own.
	call := process.Begin(t, ann.command("call", "fs.write", "path=b.txt", "content=new", "mode=overwrite"))
	ask, ok := call.Asked()
	if !ok {
		t.Fatalf("ann's call does not wait: %s", call.Err)
	}
	ann.run(ask.Decide("--allow", "once")...).Want(t, 3, "PERMISSION_DENIED")
	bob.run(ask.Decide("--allow", "once")...).Want(t, 0)
	<-call.Ended
	call.Wait(t).Want(t, 0)

	stranger := machine{g, t.TempDir()}
	provider.SignIn(logintest.Person{Subject: "s-eve", Name: "eve", Groups: []string{"staff"}})
	stranger.logIn(g.address(), "--ca-fingerprint", g.fingerprint()).Want(t, 3, "LOGIN_REFUSED", "in no group that has a role here", "[[oidc.groups]]")
	provider.SignIn(logintest.Person{Subject: "s-eve", Name: "local", Groups: []string{"approvers"}})
	stranger.logIn(g.address(), "--ca-fingerprint", g.fingerprint()).Want(t, 3, "LOGIN_REFUSED", "the local member user:local already exists")

	// The group changes at the next login, which names only the context.
	provider.SignIn(logintest.Person{Subject: "s-ann", Name: "ann", Groups: []string{"makers"}})
	r = ann.logIn("work")
	r.Want(t, 0)
	if out := r.Out; !strings.Contains(out, "developer") || strings.Contains(out, "operator") {
		t.Errorf("ann's roles:\n%s", out)
	}

	bundle := filepath.Join(t.TempDir(), "copy")
	must.Do(t, os.CopyFS(bundle, os.DirFS(filepath.Join(bob.home, ".config", "palyra", "logins", "127.0.0.1"))))
	must.Do(t, os.Chmod(bundle, 0o700))
	for _, name := range []string{"key.pem", "cert.pem", "ca.pem", "endpoint"} {
		must.Do(t, os.Chmod(filepath.Join(bundle, name), 0o600))
	}
	bob.run("--credentials", bundle, "status").Want(t, 0)
	bob.run("logout").Want(t, 0)
	bob.run("--credentials", bundle, "status").Want(t, 6)
	bob.run("status").Want(t, 6)

	// After a restart, each subject is still the same member.
	g.Stop()
	g.Start()
	provider.SignIn(logintest.Person{Subject: "s-bob", Name: "robert", Groups: []string{"approvers"}})
	bob.logIn(g.address(), "--ca-fingerprint", g.fingerprint()).Want(t, 0, "")
	if out := bob.run("status").Out; !strings.Contains(out, "user:bob") {
		t.Errorf("bob is now:\n%s", out)
	}
	if in := g.local().events("PAL-I140"); len(in) != 4 {
		t.Errorf("%d logins in the journal", len(in))
	}
	all := g.Log().String() + g.local().ok("journal", "list", "--limit", "1000", "-o", "json")
	for _, secret := range append(provider.Said(), logintest.Secret) {
		if len(secret) > 8 && strings.Contains(all, secret) {
			t.Errorf("the secret %q stands in the log or the journal", secret)
		}
	}
}

// TestSessionCannotPairAlone: the session of a login can create a pairing code for its own member,
// but cannot approve the machine that uses it; another member can.
func TestSessionCannotPairAlone(t *testing.T) {
	t.Parallel()
	provider := logintest.Start(t, "")
	g := startGateway(t, loginConfig(t, provider, t.TempDir()))
	ann, laptop := machine{g, t.TempDir()}, machine{g, t.TempDir()}
	provider.SignIn(logintest.Person{Subject: "s-ann", Name: "ann", Groups: []string{"approvers"}})
	ann.logIn(g.address(), "--ca-fingerprint", g.fingerprint()).Want(t, 0)
	var made struct {
		Secret string `json:"secret"`
	}
	r := ann.run("pairing", "code", "--yes", "-o", "json")
	r.Want(t, 0)
	must.Do(t, json.Unmarshal([]byte(r.Out), &made))
	g.Secret("a PIN", made.Secret)
	cmd := laptop.command("pair", g.address())
	cmd.Stdin = strings.NewReader(made.Secret + "\n")
	waiting := process.Begin(t, cmd)
	if waiting.Err.Await(regexp.MustCompile("waiting for approval"), waiting.Ended) == nil {
		t.Fatalf("palyra pair does not wait: %s", waiting.Err)
	}
	id := regexp.MustCompile(`(?m)^[0-9A-Z]{26}`).FindString(ann.run("approvals", "list").Out)
	digest := regexp.MustCompile(`sha256:[0-9a-f]{64}`).FindString(ann.run("approvals", "show", id).Out)
	vote := []string{"approvals", "decide", id, "--allow", "once", "--digest", digest}
	ann.run(vote...).Want(t, 3, "a login session cannot allow a device", "paired device of yours")
	g.local().ok(vote...)
	waiting.Wait(t).Want(t, 0)
	if out := laptop.run("status").Out; !strings.Contains(out, "user:ann") {
		t.Errorf("the laptop is\n%s", out)
	}
}

// TestLoginWhileTheProviderIsUnavailable: no login succeeds, and logged-in members can continue
// to work.
func TestLoginWhileTheProviderIsUnavailable(t *testing.T) {
	t.Parallel()
	provider := logintest.Start(t, "")
	provider.Down(true, "/.well-known/openid-configuration")
	g := startGateway(t, loginConfig(t, provider, t.TempDir()))
	m := machine{g, t.TempDir()}
	m.logIn(g.address(), "--ca-fingerprint", g.fingerprint()).Want(t, 6, "LOGIN_UNAVAILABLE", "cannot be reached")
	g.local().ok("status")
}
