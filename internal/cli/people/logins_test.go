package people_test

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/clitest"
	"palyra/internal/cli/printer"
	"palyra/internal/core/canonical"
	"palyra/internal/core/must"
	"palyra/internal/identity"
)

// loginWorld returns a world whose machine has no credential and no configured gateway.
func loginWorld(t *testing.T) *clitest.World {
	t.Helper()
	w := clitest.NewWorld(t)
	w.Now = time.Now()
	delete(w.Env, "PALYRA_CREDENTIALS")
	return w
}

func fingerprint(w *clitest.World) string { return canonical.Digest(w.CA.Cert.Raw) }

var page = regexp.MustCompile(`(?m)^  (https://id\.test/authorize\?\S+)$`)

// browser finds the URL of the login page in the command's output, and visits its redirect URL
// with visit.
type browser struct {
	t     *testing.T
	text  strings.Builder
	done  bool
	visit func(redirect string)
}

// Write implements io.Writer.
func (b *browser) Write(p []byte) (int, error) {
	b.text.Write(p)
	if found := page.FindStringSubmatch(b.text.String()); found != nil && !b.done {
		b.done = true
		go b.visit(must.Get(url.Parse(found[1]))(b.t).Query().Get("redirect_uri"))
	}
	return len(p), nil
}

func get(t *testing.T, address, host string) (int, string) {
	req := must.Get(http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, address, nil))(t)
	if host != "" {
		req.Host = host
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res := must.Get(client.Do(req))(t)
	body := must.Get(io.ReadAll(res.Body))(t)
	must.Do(t, res.Body.Close())
	return res.StatusCode, string(body)
}

// comesBack returns a browser whose user logs in.
func comesBack(t *testing.T) *browser {
	return &browser{t: t, visit: func(redirect string) {
		get(t, redirect+"?"+url.Values{"state": {clitest.LoginState}, "code": {clitest.LoginCode}}.Encode(), "")
	}}
}

func TestLogin(t *testing.T) {
	t.Parallel()
	w := loginWorld(t)
	w.Want(w.With(printer.Streams{Err: comesBack(t)}, "login", w.Address, "--ca-fingerprint", fingerprint(w)), 0)
	dir := filepath.Join(w.Home, "config", "palyra", "logins", "127.0.0.1")
	b := must.Get(identity.ReadBundle(dir))(t)
	if !b.Login || b.Address != w.Address {
		t.Errorf("the bundle: %+v", b)
	}
	w.Want(w.Run("status"), 0)
	if w.Gateway.Renewals != 0 {
		t.Error("the session was renewed")
	}
	// A second login uses the context in use: it creates another key, without a prompt.
	r := w.With(printer.Streams{Err: comesBack(t)}, "login")
	w.Want(r, 0)
	if after := must.Get(identity.ReadBundle(dir))(t); reflect.DeepEqual(after.Key.Public(), b.Key.Public()) || strings.Contains(r.Err, "fingerprint") {
		t.Errorf("the second login: %s", r.Err)
	}
	r = w.Run("logout")
	w.Want(r, 0)
	if _, err := os.Stat(dir); err == nil || len(clitest.Requests[*palyrav1.EndLoginRequest](w)) != 1 {
		t.Errorf("after logging out: %v, ended %d", err, len(clitest.Requests[*palyrav1.EndLoginRequest](w)))
	}
	if r := w.Run("context", "list"); strings.Contains(r.Out, w.Address) {
		t.Errorf("the context is still there:\n%s", r.Out)
	}
}

func TestLoginOnAnotherDevice(t *testing.T) {
	t.Parallel()
	w := loginWorld(t)
	r := w.Run("login", w.Address, "--ca-fingerprint", fingerprint(w), "--device", "--name", "work", "-o", "json")
	w.Want(r, 0)
	if !strings.Contains(r.Err, clitest.UserCode) || !strings.Contains(r.Out, `"context": "work"`) || w.Gateway.Logins.Asked != 2 {
		t.Errorf("%s%s", r.Out, r.Err)
	}
	if strings.Contains(r.Out, "BEGIN") {
		t.Errorf("the output has a certificate:\n%s", r.Out)
	}
}

// A gateway is trusted by its fingerprint or by the user's answer, never by its own statement.
func TestTrust(t *testing.T) {
	t.Parallel()
	w := loginWorld(t)
	dir := filepath.Join(w.Home, "config", "palyra", "logins")
	for name, c := range map[string]struct {
		in   printer.Streams
		args []string
		code int
		says string
	}{
		"no terminal":          {printer.Streams{}, nil, 8, "--ca-fingerprint"},
		"another fingerprint":  {printer.Streams{}, []string{"--ca-fingerprint", "sha256:" + strings.Repeat("0", 64)}, 8, "which does not match --ca-fingerprint"},
		"no fingerprint":       {printer.Streams{}, []string{"--ca-fingerprint", "x"}, 8, "which does not match --ca-fingerprint"},
		"a person who says no": {clitest.Typing("n\n"), nil, 1, "nothing was changed"},
		"prompts disabled":     {clitest.Typing("y\n"), []string{"--no-input"}, 8, "--ca-fingerprint"},
	} {
		r := w.With(c.in, append([]string{"login", w.Address}, c.args...)...)
		if r.Code != c.code || !strings.Contains(r.Err, c.says) || page.MatchString(r.Err) {
			t.Errorf("%s: exit %d: %s", name, r.Code, r.Err)
		}
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("a bundle was written")
	}
	typing := clitest.Typing("y\n")
	typing.Err = comesBack(t)
	r := w.With(typing, "login", w.Address)
	w.Want(r, 0)
	if !strings.Contains(r.Err, fingerprint(w)) {
		t.Errorf("the question:\n%s", r.Err)
	}
}

// A man in the middle has another CA. It can send the gateway's CA, but its certificate is not
// issued by that CA.
func TestManInTheMiddle(t *testing.T) {
	t.Parallel()
	w, middle := loginWorld(t), clitest.NewWorld(t)
	middle.CA = w.CA // it sends the gateway's CA, but has no certificate of that CA
	r := w.Run("login", middle.Address, "--ca-fingerprint", fingerprint(w))
	w.Want(r, 6)
	if strings.Contains(r.Err, "id.test") {
		t.Errorf("a login began:\n%s", r.Err)
	}
}

// The listener accepts only the provider's response.
func TestListener(t *testing.T) {
	t.Parallel()
	w := loginWorld(t)
	answers := make(chan int, 16)
	b := &browser{t: t, visit: func(redirect string) {
		good := url.Values{"state": {clitest.LoginState}, "code": {clitest.LoginCode}}.Encode()
		for _, bad := range []string{redirect, redirect + "?state=wrong&code=x", redirect + "?code=x", redirect + "?state=" + clitest.LoginState, strings.Replace(redirect, "callback", "other", 1) + "?" + good} {
			code, _ := get(t, bad, "")
			answers <- code
		}
		code, _ := get(t, redirect+"?"+good, "evil.example")
		answers <- code
		code, text := get(t, redirect+"?"+good, "")
		if answers <- code; !strings.Contains(text, "close this page") {
			t.Errorf("the last page: %q", text)
		}
		close(answers)
	}}
	w.Want(w.With(printer.Streams{Err: b}, "login", w.Address, "--ca-fingerprint", fingerprint(w)), 0)
	n := 0
	for code := range answers {
		if n++; (code == http.StatusOK) != (n == 7) {
			t.Errorf("answer %d: %d", n, code)
		}
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	w := loginWorld(t)
	denied := &browser{t: t, visit: func(redirect string) {
		get(t, redirect+"?"+url.Values{"state": {clitest.LoginState}, "error": {"access_denied\x1b[31m"}}.Encode(), "")
	}}
	r := w.With(printer.Streams{Err: denied}, "login", w.Address, "--ca-fingerprint", fingerprint(w))
	if r.Code != 3 || !strings.Contains(r.Err, "access_denied") || strings.Contains(r.Err, "\x1b") {
		t.Errorf("denied: exit %d: %q", r.Code, r.Err)
	}
	w.Gateway.Logins.Refused = true
	r = w.With(printer.Streams{Err: comesBack(t)}, "login", w.Address, "--ca-fingerprint", fingerprint(w))
	if r.Code != 3 || !strings.Contains(r.Err, "LOGIN_REFUSED") {
		t.Errorf("refused: exit %d: %s", r.Code, r.Err)
	}
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"no gateway":          {[]string{"login"}, "palyra login HOST:PORT"},
		"no such context":     {[]string{"login", "nowhere"}, `the context "nowhere" does not exist`},
		"no address":          {[]string{"login", "a:b:c"}, "want HOST:PORT"},
		"a name that is none": {[]string{"login", w.Address, "--ca-fingerprint", fingerprint(w), "--name", "../x"}, "is not 1 to 63"},
		"not logged in":       {[]string{"--credentials", w.Bundle, "logout"}, "is not of a login"},
	} {
		if r := w.Run(c.args...); r.Code == 0 || !strings.Contains(r.Err, c.says) {
			t.Errorf("%s: exit %d: %s", name, r.Code, r.Err)
		}
	}
	// A context with another credential is not overwritten.
	w.Want(w.Run("context", "add", "mine", w.Bundle), 0)
	if r := w.Run("login", w.Address, "--name", "mine"); r.Code != 7 || !strings.Contains(r.Err, "already has another credential") {
		t.Errorf("exit %d: %s", r.Code, r.Err)
	}
}

// A command reports an ended session, and a logout works without the gateway.
func TestEndedSession(t *testing.T) {
	t.Parallel()
	w := loginWorld(t)
	w.Want(w.With(printer.Streams{Err: comesBack(t)}, "login", w.Address, "--ca-fingerprint", fingerprint(w), "--name", "work"), 0)
	dir := filepath.Join(w.Home, "config", "palyra", "logins", "work")
	b := must.Get(identity.ReadBundle(dir))(t)
	w.Bundle = filepath.Join(w.Home, "over")
	w.WriteBundle(time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour))
	over := must.Get(identity.ReadBundle(w.Bundle))(t)
	must.Do(t, identity.WriteLogin(dir, over))
	r := w.Run("status")
	if r.Code != 6 || !strings.Contains(r.Err, "palyra login") || w.Gateway.Renewals != 0 {
		t.Errorf("exit %d: %s", r.Code, r.Err)
	}
	must.Do(t, identity.WriteLogin(dir, b))
	w.Server.CloseClientConnections()
	w.Server.Close()
	r = w.Run("logout")
	w.Want(r, 0)
	if !strings.Contains(r.Err, "ending the session at the gateway failed") {
		t.Error(r.Err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the key is still there")
	}
}
