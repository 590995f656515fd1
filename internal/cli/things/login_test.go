package things_test

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/clitest"
	"palyra/internal/cli/printer"
	"palyra/internal/core/must"
)

var page = regexp.MustCompile(`(?m)^  (https://id\.test/authorize\?\S+)$`)

// browser visits the login page in the command's output, and returns to the redirect URL.
type browser struct {
	t    *testing.T
	text strings.Builder
	done bool
	code string
}

// Write implements io.Writer.
func (b *browser) Write(p []byte) (int, error) {
	b.text.Write(p)
	if found := page.FindStringSubmatch(b.text.String()); found != nil && !b.done {
		b.done = true
		back := must.Get(url.Parse(found[1]))(b.t).Query().Get("redirect_uri") + "?" + url.Values{"state": {clitest.LoginState}, "code": {b.code}}.Encode()
		go func() {
			req, err := http.NewRequestWithContext(context.WithoutCancel(b.t.Context()), http.MethodGet, back, nil)
			if err == nil {
				res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
				if err == nil {
					_ = res.Body.Close()
				}
			}
		}()
	}
	return len(p), nil
}

func TestLogin(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Now = must.Get(http.ParseTime("Wed, 25 Nov 2026 22:00:00 GMT"))(t)
	r := w.With(printer.Streams{Err: &browser{t: t, code: clitest.LoginCode}}, "mcp", "login", clitest.UpstreamName)
	if w.Want(r, 0); !strings.Contains(r.Out, "vault://user:alice/mcp-login.github") {
		t.Errorf("printed %s", r.Out)
	}
	w.Want(w.With(printer.Streams{Err: &browser{t: t, code: "another"}}, "mcp", "login", clitest.UpstreamName), 3)
	w.Want(w.Run("mcp", "login", "other"), 1)
	w.Want(w.Run("mcp", "logout", clitest.UpstreamName), 0)
	w.Want(w.Run("mcp", "add", "linear", "--url", "https://mcp.example.org/mcp", "--oauth"), 0)
	if o := clitest.Requests[*palyrav1.AddUpstreamRequest](w)[0].GetServer().GetOauth(); o == nil || o.GetShared() {
		t.Errorf("added with %v", o)
	}
}
