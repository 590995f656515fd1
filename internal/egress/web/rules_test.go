package web

import (
	"bufio"
	"net/http"
	"net/url"
	"path"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"palyra/internal/egress"
)

func TestRules(t *testing.T) {
	t.Parallel()
	methods, paths := []string{"GET", "HEAD"}, []string{"/repos/*/issues", "/public/**", "/a b", "/"}
	const fine = ""
	tests := []struct{ line, header, why string }{
		{"GET /repos/x/issues", "", fine},
		{"HEAD /repos/x/issues?q=/../../secret;x", "", fine},
		{"GET /public/a/b/c", "", fine},
		{"GET /public/", "", fine},
		{"GET /a%20b", "", fine},
		{"GET http://example.org", "", fine},
		{"GET /public/%C3%A4%3A", "", fine},
		{"POST /public/a", "", egress.ReasonMethod},
		{"get /public/a", "", egress.ReasonMethod},
		{"GETX /public/a", "", egress.ReasonMethod},
		{"GET /public/a", "X-HTTP-Method-Override: DELETE", egress.ReasonMethod},
		{"GET /public/a", "x-original-url: /admin", egress.ReasonPath},
		{"GET /public/a", "X_HTTP_Method_Override: DELETE", egress.ReasonMethod},
		{"GET /public/a", "X-Forwarded-Method: DELETE", egress.ReasonMethod},
		{"GET /public/a", "X_Original_URL: /admin", egress.ReasonPath},
		{"GET /public/a", "X-Forwarded-Uri: /admin", egress.ReasonPath},
		{"GET /public/a", "X-HTTP-Method-Override: head", fine},
		{"GET /public/a", "X-HTTP-Method-Override: HEAD, DELETE", egress.ReasonMethod},
		{"GET /public/a", "Http-Method-Override: PUT", egress.ReasonMethod},
		{"GET /public/a", "http_method_override: PUT", egress.ReasonMethod},
		{"GET /public/a", "X-Method-Override: PUT", egress.ReasonMethod},
		{"GET /public/a", "X-Method: PUT", egress.ReasonMethod},
		{"GET /public/a", "X-Method: GET", fine},
		{"GET /public/a", "X-Methods: PUT", fine},
		{"GET /public/a", "X.Http.Method.Override: PUT", egress.ReasonMethod},
		{"GET /public/a?_method=delete", "", egress.ReasonMethod},
		{"GET /public/a?_method=GET", "", fine},
		{"GET /public/a?_method=", "", fine},
		{"GET /public/a?_METHOD=delete", "", egress.ReasonMethod},
		{"GET /public/a?x=1;_method=delete", "", egress.ReasonMethod},
		{"GET /public/a?%5Fmet%68od=%64elete", "", egress.ReasonMethod},
		{"GET /public/a?+_method=delete", "", egress.ReasonMethod},
		{"GET /public/a?.method=delete", "", egress.ReasonMethod},
		{"GET /public/a?[method=delete", "", egress.ReasonMethod},
		{"GET /public/a?_method%00x=delete", "", egress.ReasonMethod},
		{"GET /public/a?_method=get&_method=delete", "", egress.ReasonMethod},
		{"GET /public/a?method=delete&q=_method", "", fine},
		{"GET /public/a", "X-Original-URL: /public/b", fine},
		{"GET /public/a", "X-Original-URL: /public/b?_method=delete", egress.ReasonMethod},
		{"GET /public/a", "X-Original-URL: /public/../admin", egress.ReasonPath},
		{"GET /public/a", "X-Original-URL: http://example.org/public/b", egress.ReasonPath},
		{"GET /public/a", "X-Original-URL: /public/b, /admin", egress.ReasonPath},
		{"GET /public/a", "X-Rewrite-URL: /admin", egress.ReasonPath},
		{"GET /public/a", "X-Forwarded-Path: /admin", egress.ReasonPath},
		{"GET /public/a", "X-HTTP-Path-Override: /admin", egress.ReasonPath},
		{"GET /public/a", "X_Envoy_Original_Path: /admin", egress.ReasonPath},
		{"GET /public/a", "X-Accel-Redirect: /admin", egress.ReasonPath},
		{"GET /public/a", "X-Request-URI: /admin", egress.ReasonPath},
		{"GET /public/a", "Request-Uri: /admin", egress.ReasonPath},
		{"GET /public/a", "REQUEST_URI: /public/b", fine},
		{"GET /public/a", "X-Forwarded-Prefix: /public", egress.ReasonPath},
		{"GET /public/a", "X-Script-Name: /public", egress.ReasonPath},
		{"GET /public/a", "SCRIPT_NAME: /public", egress.ReasonPath},
		{"GET /public/%EF%BC%8E%EF%BC%8E/admin", "", egress.ReasonPath}, // full-width dots
		{"GET /public/a%EF%BC%8Fadmin", "", egress.ReasonPath},          // a full-width slash
		{"GET /public/%E2%80%A5/admin", "", egress.ReasonPath},          // a two dot leader
		{"GET /public/%EF%BD%81", "", egress.ReasonPath},                // a full-width a
		{"GET /public/a%CD%BEb", "", egress.ReasonPath},                 // the Greek question mark, a semicolon
		{"GET /public/a\uff0eb", "", egress.ReasonPath},
		{"GET /public/%E4%B8%AD%E6%96%87", "", fine},
		{"GET /public/a%CC%88", "", fine}, // ä, decomposed
		{"GET /public/%c0%ae%c0%ae/admin", "", egress.ReasonPath},
		{"GET /public/%ff", "", egress.ReasonPath},
		{"GET /public", "", egress.ReasonPath},
		{"GET /publicity/x", "", egress.ReasonPath},
		{"GET /repos/x/y/issues", "", egress.ReasonPath},
		{"GET /repos/x/issues/1", "", egress.ReasonPath},
		{"GET /admin", "", egress.ReasonPath},
		{"GET /public/../admin", "", egress.ReasonPath},
		{"GET /public/./admin", "", egress.ReasonPath},
		{"GET /public/..", "", egress.ReasonPath},
		{"GET /public/%2e%2e/admin", "", egress.ReasonPath},
		{"GET /public/%2E%2e/admin", "", egress.ReasonPath},
		{"GET /public/.%2e/admin", "", egress.ReasonPath},
		{"GET /public/%252e%252e/admin", "", egress.ReasonPath},
		{"GET /public/..%2fadmin", "", egress.ReasonPath},
		{"GET /public/..%5cadmin", "", egress.ReasonPath},
		{"GET /public/..\\admin", "", egress.ReasonPath},
		{"GET /public/..;/admin", "", egress.ReasonPath},
		{"GET /public/..%3b/admin", "", egress.ReasonPath},
		{"GET //public/a", "", egress.ReasonPath},
		{"GET /public//a", "", egress.ReasonPath},
		{"GET /public/a//", "", egress.ReasonPath},
		{"GET /public/%61", "", egress.ReasonPath},
		{"GET /public/a%00", "", egress.ReasonPath},
		{"GET /public/a%0d%0a", "", egress.ReasonPath},
		{"GET /repos/x%2fy/issues", "", egress.ReasonPath},
	}
	for _, test := range tests {
		t.Run(test.line+" "+test.header, func(t *testing.T) {
			w := newWorld(t, "example.org:80")
			w.inspect(methods, paths)
			host := w.host("example.org:80", nil)
			c := w.serve()
			header := "Host: example.org\r\n"
			if test.header != "" {
				header += test.header + "\r\n"
			}
			method, _, _ := strings.Cut(test.line, " ")
			res, body := say(t, c, bufio.NewReader(c), test.line+" HTTP/1.1\r\n"+header+"\r\n", method)
			if test.why == fine {
				if res.StatusCode != http.StatusOK || len(host.requests()) != 1 {
					t.Errorf("%d %q", res.StatusCode, body)
				}
				return
			}
			checkRefusal(t, res, body, test.why)
			if len(host.requests()) != 0 || len(w.dials()) != 0 {
				t.Errorf("the host saw %q", host.requests())
			}
		})
	}
}

// TestRulesSayWhatIsAllowed checks that the text contains the information that a model needs.
func TestRulesSayWhatIsAllowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "example.org:80")
	w.inspect([]string{"GET", "HEAD"}, []string{"/public/**"})
	for line, want := range map[string]string{
		"POST /public/a": "example.org:80 got a request whose method is not allowed there. Allowed: GET, HEAD.\n",
		"GET /other":     "example.org:80 got a request whose path is not allowed there. Allowed: /public/**.\n",
	} {
		c := w.serve()
		if _, body := say(t, c, bufio.NewReader(c), line+" HTTP/1.1\r\nHost: example.org\r\n\r\n", "GET"); body != want {
			t.Errorf("%s: %q, want %q", line, body, want)
		}
	}
}

// TestEmptyRules: a host that is inspected without rules receives the same requests as without
// inspection.
func TestEmptyRules(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "example.org:80")
	w.inspect(nil, nil)
	host := w.host("example.org:80", nil)
	c := w.serve()
	const uri = "/a/../b//c;d%2f%EF%BC%8E?_method=put"
	say(t, c, bufio.NewReader(c), "DELETE "+uri+" HTTP/1.1\r\nHost: example.org\r\nX-HTTP-Method-Override: PUT\r\nX-Original-Url: /x\r\n"+
		"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 11\r\n\r\n_method=PUT", "DELETE")
	if got := host.requests(); len(got) != 1 || got[0] != "DELETE example.org "+uri {
		t.Fatalf("the host saw %q", got)
	}
	if h := host.header(0); h.Get("X-Http-Method-Override") != "PUT" || h.Get("X-Original-Url") != "/x" {
		t.Errorf("the headers are %v", h)
	}
}

func TestMatchPath(t *testing.T) {
	t.Parallel()
	tests := []struct {
		pattern, path string
		want          bool
	}{
		{"/**", "/", true}, {"/**", "/a/b", true}, {"/**", "", true},
		{"/a", "/a", true}, {"/a", "/a/", false}, {"/a/", "/a/", true}, {"/a", "/A", false},
		{"/a/*", "/a/b", true}, {"/a/*", "/a/b/c", false}, {"/a/*", "/a/", true},
		{"/a/**", "/a/b/c", true}, {"/a/**", "/a", false}, {"/a/**", "/ab/c", false}, {"/a/**", "/b/a/c", false},
		{"/*/x/**", "/a/x/b", true}, {"/*/x/**", "/a/b/x/c", false}, {"/*/x/**", "/a/y/x", false},
		{"/a[", "/a[", false}, {"/a[/**", "/a[/b", false}, {"/**/x", "/a/x", true}, {"", "/", false}, {"/a**", "/ab", true},
	}
	for _, test := range tests {
		if got := matchPath(test.pattern, test.path); got != test.want {
			t.Errorf("%q matches %q: %v", test.pattern, test.path, got)
		}
	}
}

// FuzzPath: a path without a problem is the same path to every parser: cleaning, decoding again
// and encoding again do not change it.
func FuzzPath(f *testing.F) {
	for _, s := range []string{"/", "/a/b", "/a/../b", "/%2e", "/a%20b", "//a", "/a;b", `/a\b`, "/%2561", "/a%C3%A4", "/a/", "/.a/..b", "/a%EF%BC%8E", "/\uff0e/b", "/a%CC%88", "/%CD%BE"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		u, err := url.ParseRequestURI(s)
		if err != nil || !strings.HasPrefix(s, "/") || pathProblem(u) != "" {
			return
		}
		if cleaned := path.Clean(u.Path); cleaned != u.Path && cleaned+"/" != u.Path {
			t.Fatalf("%q: the path %q is %q when cleaned", s, u.Path, cleaned)
		}
		if again, err := url.PathUnescape(u.Path); err != nil && strings.Contains(u.Path, "%") || err == nil && again != u.Path {
			t.Fatalf("%q: the path %q has escapes yet", s, u.Path)
		}
		if strings.ContainsAny(u.Path, "\\;\x00\r\n") || !utf8.ValidString(u.Path) {
			t.Fatalf("%q: the path is %q", s, u.Path)
		}
		if strings.Count(u.Path, "/") != strings.Count(u.EscapedPath(), "/") {
			t.Fatalf("%q: the path %q hides a slash", s, u.Path)
		}
		for _, form := range []norm.Form{norm.NFC, norm.NFD, norm.NFKC, norm.NFKD} {
			other := form.String(u.Path)
			if strings.Count(other, "/") != strings.Count(u.Path, "/") || strings.ContainsAny(other, "\\;") || strings.Count(other, ".") != strings.Count(u.Path, ".") ||
				path.Clean(other) != form.String(path.Clean(u.Path)) {
				t.Fatalf("%q: normalized, the path %q is %q", s, u.Path, other)
			}
		}
		back, err := url.ParseRequestURI(u.EscapedPath())
		if err != nil || back.Path != u.Path {
			t.Fatalf("%q: what is sent, %q, is read as %v, %v", s, u.EscapedPath(), back, err)
		}
		if matchPath("/allowed/**", u.Path) != strings.HasPrefix(path.Clean(u.Path)+"/", "/allowed/") && u.Path != "/allowed" {
			t.Fatalf("%q: matched otherwise than a server would resolve it", s)
		}
	})
}
