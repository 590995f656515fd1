//go:build linux

package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/test/process"
)

const planted = "ghp_e2e/Planted+Value0123456789=="

// fetchesUnattended lets http.fetch run without approval. Once a run has used the secret, it
// forbids every other host.
const fetchesUnattended = `@id("unattended")
@reason("the server of these tests is their own")
@waives("approval: the server is the test's own")
permit(principal, action == Action::"tool.execute/http.fetch", resource) when { context.egress.mode == "strict" };

@id("egress.after-secret")
@reason("this session has used a secret")
@remedy("Ask a person to end the session.")
forbid(principal, action == Action::"tool.execute/http.fetch", resource)
when { context.session.secrets_read.contains("api") && !context.egress.secrets.contains("api") };
`

// echo returns a gateway and a TLS server that returns the received credentials in many forms.
// The gateway has the named secrets for the server.
func echo(t *testing.T, secrets ...string) (*gateway, *httptest.Server) {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ") + r.Header.Get("Accept-Language")
		w.Header().Set("Etag", got)
		if r.URL.Path == "/broken" {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				fmt.Fprintf(conn, "HTTP/1.1 %s OK\r\n\r\n", got)
				conn.Close()
			}
			return
		}
		fmt.Fprintln(w, strings.Join(forms(got), "\n"))
	}))
	t.Cleanup(server.Close)
	host := server.Listener.Addr().String()
	settings := []string{"[http]", fmt.Sprintf("allowed_hosts = [%q]", host)}
	for _, name := range secrets {
		settings = append(settings, "[[secrets]]", fmt.Sprintf("name = %q", name), `file = "~/token"`, fmt.Sprintf("hosts = [%q]", host))
	}
	g := newGateway(t, settings...)
	if len(secrets) > 0 {
		g.write(filepath.Join(g.Dir, "token"), planted+"\n")
	}
	roots := filepath.Join(g.Dir, "roots.pem")
	g.write(roots, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	g.Env = []string{"SSL_CERT_FILE=" + roots}
	g.policy("10.cedar", fetchesUnattended)
	g.Start()
	return g, server
}

func forms(value string) []string {
	return []string{
		value, hex.EncodeToString([]byte(value)), url.QueryEscape(value), strings.ToUpper(hex.EncodeToString([]byte(value))),
		base64.StdEncoding.EncodeToString([]byte(value)), base64.StdEncoding.EncodeToString([]byte("x" + value)), base64.StdEncoding.EncodeToString([]byte("xx" + value)),
	}
}

// found counts the forms of the planted value in palyrad's state, log and answers.
func found(t *testing.T, g *gateway, answers ...process.Result) int {
	t.Helper()
	all := bytes.Join(slices.Collect(maps.Values(everything(t, g, answers))), nil)
	n := 0
	for _, form := range forms(planted) {
		if bytes.Contains(all, []byte(strings.TrimRight(form, "="))) {
			n++
		}
	}
	return n
}

// TestSecretStaysInTheDaemon: a secret that a call used appears in no answer, journal,
// attestation or log, in whatever form the server returned it. Control: a call with the value
// itself, which palyrad does not recognize as a secret.
func TestSecretStaysInTheDaemon(t *testing.T) {
	t.Parallel()
	g, server := echo(t, "api")
	c := g.local()
	token := "headers=" + `{"authorization":"Bearer palyra-sec-api"}`
	good := c.run("call", "http.fetch", "url="+server.URL+"/", token)
	good.Want(t, 0)
	if !strings.Contains(good.Out, "palyra-sec-api") {
		t.Errorf("the answer lacks the placeholder: %s", good.Out)
	}
	broken := c.run("call", "http.fetch", "url="+server.URL+"/broken", token)
	if broken.Code == 0 || !strings.Contains(broken.Err+broken.Out, "palyra-sec-api") {
		t.Errorf("the broken answer: %+v", broken)
	}
	wrong := c.run("call", "http.fetch", "url="+server.URL+"/?t=palyra-sec-api")
	wrong.Want(t, 3, "the placeholder of a secret stands in the URL")
	journal := c.run("journal", "list", "--limit", "0", "-o", "ndjson")
	journal.Want(t, 0)
	if n := found(t, g, good, broken, wrong, journal); n != 0 {
		t.Errorf("%d forms of the secret are told", n)
	}
	g.Stop()
	if n := found(t, g, good, broken, wrong, journal); n != 0 {
		t.Errorf("%d forms of the secret are told after the end", n)
	}
	open, server := echo(t)
	bare := open.local().run("call", "http.fetch", "url="+server.URL+"/", `headers={"accept-language":"`+planted+`"}`)
	bare.Want(t, 0)
	if n := found(t, open, bare); n != len(forms(planted)) {
		t.Errorf("the control finds %d forms of %d", n, len(forms(planted)))
	}
	open.Stop()
	if n := found(t, open, bare); n == 0 {
		t.Error("the control finds nothing after the end")
	}
}

// TestSessionsAreBoundByTheSecretsTheyUsed: policy receives the secrets that a session used,
// whatever labels its calls have, and also after a restart of palyrad. A person ends the
// session.
func TestSessionsAreBoundByTheSecretsTheyUsed(t *testing.T) {
	t.Parallel()
	g, server := echo(t, "api")
	c := g.local()
	plain := []string{"call", "http.fetch", "--run", "r1", "url=" + server.URL + "/"}
	c.ok(plain...) // control: no secret was used yet
	c.run("call", "http.fetch", "--run", "r1", "url="+server.URL+"/?t=palyra-sec-api").Want(t, 3)
	c.ok(plain...) // a refused call uses no secret
	secret := append(plain, `headers={"authorization":"palyra-sec-api"}`)
	c.ok(secret...)
	c.run(plain...).Want(t, 3, "this session has used a secret")
	c.ok(secret...)
	c.run("call", "http.fetch", "--run", "r2", "--session", "s2", "url="+server.URL+"/").Want(t, 3, "this session has used a secret")
	g.Stop()
	g.Start()
	c.run(plain...).Want(t, 3, "this session has used a secret")
	c.ok("sessions", "end", strings.TrimSpace(c.run("sessions", "list", "-o", "name").Out), "--reason", "it is over")
	c.ok(plain...)
	// A secret file that others can read is rejected.
	must.Do(t, os.Chmod(filepath.Join(g.Dir, "token"), 0o644))
	c.run(secret...).Want(t, 3, "the secret api cannot be read")
	if r := c.run("config", "check"); !strings.Contains(r.Out+r.Err, "has mode 0644") || strings.Contains(r.Out+r.Err, planted) {
		t.Errorf("the check says %s%s", r.Out, r.Err)
	}
}
