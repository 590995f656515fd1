package secret

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/egress"
)

const (
	tokenValue = "ghp_the-real-token-0123456789"
	keyValue   = "sk/the+real=key"
)

// session returns an exchange with two secrets: token for Authorization, key for X-Api-Key.
func session(t testing.TB, id string) (*Exchange, *vault) {
	t.Helper()
	v := &vault{values: map[string]string{"token": tokenValue, "key": keyValue}}
	x := New(id, []egress.Secret{
		{Name: "token", Env: "GITHUB_TOKEN", Header: "Authorization", Hosts: []egress.Rule{rule(t, "api.example:443"), rule(t, "*.api.example:8443")}, Source: v},
		{Name: "key", Header: "X-Api-Key", Hosts: []egress.Rule{rule(t, "api.example:443")}, Source: v},
	})
	t.Cleanup(x.Close)
	return x, v
}

func target(t testing.TB, text string) egress.Target {
	t.Helper()
	return must.Get(egress.ParseTarget(text))(t)
}

func basic(text string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(text)) }

// TestApply: the value replaces the placeholder in the permitted forms, and is requested from
// its source once.
func TestApply(t *testing.T) {
	t.Parallel()
	x, v := session(t, "run1")
	token, key := x.Placeholder("token"), x.Placeholder("key")
	if token != "palyra-sec-run1-token" {
		t.Fatalf("placeholder %s", token)
	}
	for _, test := range []struct{ header, value, want string }{
		{"Authorization", token, tokenValue},
		{"Authorization", "Bearer " + token, "Bearer " + tokenValue},
		{"Authorization", "token " + token, "token " + tokenValue},
		{"Authorization", basic("me:" + token), basic("me:" + tokenValue)},
		{"Authorization", basic(token + ":"), basic(tokenValue + ":")},
		{"Authorization", basic(token + ":x-oauth-basic"), basic(tokenValue + ":x-oauth-basic")},
		{"Authorization", "Basic " + token, "Basic " + tokenValue}, // the value is already encoded
		{"X-Api-Key", key, keyValue},
		{"Accept", "text/html", "text/html"}, // control
	} {
		r := httptest.NewRequest(http.MethodGet, "https://api.example/", nil)
		r.Header.Set(test.header, test.value)
		r.Header.Set("Range", "bytes=0-3")
		if err := x.Apply(t.Context(), r, target(t, "api.example:443"), true); err != nil || r.Header.Get(test.header) != test.want {
			t.Errorf("%s: %q became %q: %v", test.header, test.value, r.Header.Get(test.header), err)
		}
		if r.Header.Get("Range") != "" || r.Header.Get("Accept-Encoding") != "identity" {
			t.Errorf("%s: the answer is asked for in parts or compressed: %v", test.header, r.Header)
		}
	}
	if want := []string{"token", "key"}; !slices.Equal(v.asked, want) {
		t.Errorf("asked for %v", v.asked)
	}
	// A header whose name has an unusual spelling is the same header.
	r := httptest.NewRequest(http.MethodGet, "https://api.example/", nil)
	unusual := strings.ToLower("Authorization")
	r.Header[unusual] = []string{token}
	if err := x.Apply(t.Context(), r, target(t, "api.example:443"), true); err != nil || r.Header[unusual][0] != tokenValue || len(r.Header["Authorization"]) > 0 {
		t.Errorf("lower case: %v, %v", r.Header, err)
	}
}

// misplacements returns functions that change a valid request into one that must be refused.
func misplacements(token, key string) map[string]func(*http.Request) {
	set := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	place := func(url string) func(*http.Request) {
		return func(r *http.Request) { r.URL = httptest.NewRequest(http.MethodGet, url, nil).URL }
	}
	b64 := base64.StdEncoding.EncodeToString
	return map[string]func(*http.Request){
		"another header":             set("X-Other", token),
		"a header in the middle":     set("X-Other", "a "+token+" b"),
		"the header of another":      set("X-Api-Key", token),
		"another in the header":      set("Authorization", key),
		"with something behind it":   set("Authorization", token+"x"),
		"with a space behind it":     set("Authorization", token+" "),
		"two words before it":        set("Authorization", "Bearer Bearer "+token),
		"not a scheme":               set("Authorization", `a="b" `+token),
		"twice in one":               set("Authorization", token+" "+token),
		"in upper case":              set("Authorization", strings.ToUpper(token)),
		"another session's":          set("Authorization", "palyra-sec-run2-token"),
		"the tool's":                 set("Authorization", "palyra-sec-token"),
		"a secret that is not there": set("Authorization", "palyra-sec-run1-none"),
		"both sides of Basic":        set("Authorization", basic(token+":"+token)),
		"inside of a password":       set("Authorization", basic("me:x"+token)),
		"encoded after Bearer":       set("Authorization", "Bearer "+b64([]byte(token))),
		"a cookie":                   set("Cookie", "session="+token),
		"in hexadecimal":             set("X-Other", fmt.Sprintf("%x", token)),
		"percent-encoded":            set("X-Other", strings.ReplaceAll(token, "-", "%2D")),
		"encoded twice":              set("X-Other", strings.ReplaceAll(token, "-", "%252d")),
		"the name of a header":       set(token, "x"),
		"the header twice":           func(r *http.Request) { r.Header["Authorization"] = []string{token, token} },
		"a trailer":                  func(r *http.Request) { r.Trailer = http.Header{"X-Sum": {token}} },
		"the name of a trailer":      func(r *http.Request) { r.Trailer = http.Header{http.CanonicalHeaderKey(token): nil} },
		"the host":                   func(r *http.Request) { r.Host = token + ".example" },
		"the method":                 func(r *http.Request) { r.Method = token },
		"the path":                   place("https://api.example/" + token),
		"the query":                  place("https://api.example/?q=" + token),
		"the query in base64":        place("https://api.example/?q=" + b64([]byte("xy"+token))),
		"the query percent-encoded":  place("https://api.example/?q=" + escape([]byte(token), "", "%%%02x")),
		"a letter percent-encoded":   place("https://api.example/p%61lyra-sec-run1-token"),
		"the host of the URL":        place("https://" + token + ".example/"),
	}
}

// TestMisplaced: a placeholder in any other place is refused. No value is requested from a
// source, and the request is unchanged.
func TestMisplaced(t *testing.T) {
	t.Parallel()
	x, v := session(t, "run1")
	for name, change := range misplacements(x.Placeholder("token"), x.Placeholder("key")) {
		r := httptest.NewRequest(http.MethodPost, "https://api.example/path?q=1", strings.NewReader("body"))
		change(r)
		was := r.Header.Clone()
		err := x.Apply(t.Context(), r, target(t, "api.example:443"), true)
		if Word(err) != egress.ReasonSecretMisplaced || reason.Of(err) != reason.EgressDenied {
			t.Errorf("%s: %v", name, err)
		}
		if !maps.EqualFunc(was, r.Header, slices.Equal) {
			t.Errorf("%s: the request became %v", name, r.Header)
		}
	}
	if len(v.asked) > 0 {
		t.Errorf("asked for %v", v.asked)
	}
}

// TestOnlyToItsHostsByTLS: the right header is not sufficient.
func TestOnlyToItsHostsByTLS(t *testing.T) {
	t.Parallel()
	x, v := session(t, "run1")
	for _, test := range []struct {
		to       string
		verified bool
		want     string
	}{
		{"api.example:443", true, ""},
		{"eu.api.example:8443", true, ""},
		{"api.example:443", false, egress.ReasonSecretUnverified},
		{"api.example:8443", true, egress.ReasonSecretMisplaced},
		{"eu.api.example:443", true, egress.ReasonSecretMisplaced},
		{"api.example.evil.example:443", true, egress.ReasonSecretMisplaced},
		{"other.example:443", true, egress.ReasonSecretMisplaced},
	} {
		r := httptest.NewRequest(http.MethodGet, "https://api.example/", nil)
		r.Header.Set("Authorization", "Bearer "+x.Placeholder("token"))
		err := x.Apply(t.Context(), r, target(t, test.to), test.verified)
		if Word(err) != test.want || (err == nil) != (test.want == "") || strings.Contains(r.Header.Get("Authorization"), tokenValue) != (test.want == "") {
			t.Errorf("%s, verified %v: %v, %v", test.to, test.verified, r.Header, err)
		}
	}
	if !slices.Equal(v.asked, []string{"token", "key"}) {
		t.Errorf("asked for %v", v.asked)
	}
}

// TestBodyAndTrailers: the data after the header is inspected while it is sent.
func TestBodyAndTrailers(t *testing.T) {
	t.Parallel()
	x, _ := session(t, "run1")
	token := x.Placeholder("token")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%d bytes, %v, %v", len(b), r.Trailer, err)
	}))
	defer server.Close()
	filler := strings.Repeat("x", 100_000)
	for _, test := range []struct {
		name, body, trailer string
		refused             bool
	}{
		{name: "the control", body: filler + "palyra-se" + filler, trailer: "sum"},
		{name: "the body", body: filler + token + filler, refused: true},
		{name: "the body in base64", body: filler + base64.StdEncoding.EncodeToString([]byte("12"+token)), refused: true},
		{name: "the body in UTF-16", body: wide(token, 0), refused: true},
		{name: "the trailer", body: filler, trailer: token, refused: true},
	} {
		for _, again := range []bool{false, true} {
			r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader(test.body)))(t)
			if test.trailer != "" {
				// The trailer is complete when the body has ended.
				r.Trailer = http.Header{"X-Sum": nil}
				r.ContentLength = -1
				r.Body = io.NopCloser(&ending{strings.NewReader(test.body), func() error { r.Trailer.Set("X-Sum", test.trailer); return nil }})
				r.GetBody = nil
			}
			must.Do(t, x.Apply(t.Context(), r, target(t, "other.example:80"), false))
			if again && r.GetBody != nil {
				r.Body = must.Get(r.GetBody())(t)
			}
			answer, err := http.DefaultTransport.RoundTrip(r)
			if err == nil {
				b, _ := io.ReadAll(answer.Body)
				answer.Body.Close()
				if test.refused {
					t.Errorf("%s: %s", test.name, b)
				}
			}
			if test.refused != (Word(err) == egress.ReasonSecretMisplaced) {
				t.Errorf("%s: %v", test.name, err)
			}
		}
	}
}

// faults are sources without a usable value.
type faults struct {
	value string
	err   error
}

func (f faults) Secret(context.Context, string) ([]byte, error) { return []byte(f.value), f.err }

// TestNoValueNoRequest: if a value is not available, or cannot be in a header, the request
// fails. The error discloses neither the value nor its path.
func TestNoValueNoRequest(t *testing.T) {
	t.Parallel()
	broken := errors.New("open /etc/palyra/token: permission denied")
	for name, source := range map[string]egress.SecretSource{
		"none":        nil,
		"an error":    faults{err: broken},
		"short":       faults{value: "1234567"},
		"long":        faults{value: strings.Repeat("k", maxValue+1)},
		"two lines":   faults{value: "12345678\r\nX-Evil: 1"},
		"a NUL":       faults{value: "12345678\x00"},
		"not ASCII":   faults{value: "pässword"},
		"a space":     faults{value: "12345678 "},
		"placeholder": faults{value: "palyra-sec-run1-token"},
	} {
		x := New("run1", []egress.Secret{{Name: "token", Header: "Authorization", Hosts: []egress.Rule{rule(t, "api.example:443")}, Source: source}})
		r := httptest.NewRequest(http.MethodGet, "https://api.example/", nil)
		r.Header.Set("Authorization", x.Placeholder("token"))
		err := x.Apply(t.Context(), r, target(t, "api.example:443"), true)
		if reason.Of(err) != reason.EgressDenied || err.Error() != "the secret token cannot be read" || r.Header.Get("Authorization") != x.Placeholder("token") {
			t.Errorf("%s: %v, %v", name, r.Header, err)
		}
		if name == "an error" && !errors.Is(err, broken) {
			t.Error("the operator cannot find out why")
		}
	}
}

// TestCloseWipes: Close erases all bytes from the sources, used or not, including earlier
// copies of a late value. After that, no value is returned.
func TestCloseWipes(t *testing.T) {
	t.Parallel()
	x, v := session(t, "run1")
	delete(v.values, "key")
	first := x.known()
	v.values["key"] = keyValue
	must.Get(x.value(t.Context(), x.secrets[1]))(t)
	second := x.known()
	x.Close()
	if len(v.given) != 2 || first == second {
		t.Fatalf("asked for %q", v.asked)
	}
	for _, value := range v.given {
		if strings.Trim(string(value), "\x00") != "" {
			t.Errorf("the value is still there: %q", value)
		}
	}
	for _, n := range slices.Concat(first.needles, second.needles) {
		if strings.Trim(string(n.text), "\x00") != "" {
			t.Errorf("a form is still there: %q", n.text)
		}
	}
	if _, err := x.value(t.Context(), x.secrets[0]); err == nil || x.known() != nil || len(v.given) != 2 {
		t.Error("a closed exchange has values")
	}
	never, v := session(t, "run2")
	never.Close()
	if never.known() != nil || len(v.asked) != 0 {
		t.Error("one that was closed unused asks for values")
	}
}

// TestNothingToExchange: a nil Exchange changes nothing.
func TestNothingToExchange(t *testing.T) {
	t.Parallel()
	var x *Exchange
	r := httptest.NewRequest(http.MethodPost, "https://api.example/palyra-sec-a-b", strings.NewReader("palyra-sec-a-b"))
	must.Check(t, x.Apply(t.Context(), r, target(t, "api.example:443"), true))
	if b, err := io.ReadAll(x.Scrub(x.Watch(x.Body(r.Body)))); err != nil || string(b) != "palyra-sec-a-b" {
		t.Errorf("%q, %v", b, err)
	}
	h := http.Header{"A": {"b"}}
	x.ScrubHeader(h)
	if x.ScrubText("a") != "a" || x.Env() != nil || x.ScrubResponse(&http.Response{}, egress.Target{}) != nil {
		t.Error("it does something")
	}
	x.Close()
	x, _ = session(t, "run1")
	if env := x.Env(); !slices.Equal(env, []string{"GITHUB_TOKEN=palyra-sec-run1-token"}) {
		t.Errorf("variables %v", env)
	}
}

// TestEcho is the round trip with a real server that returns the received value in its header,
// its body and a trailer.
func TestEcho(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := r.Header.Get("Authorization")
		w.Header().Set("Trailer", "X-Last")
		w.Header().Set("X-Echo", got)
		w.Header().Set(strings.TrimPrefix(got, "Bearer "), "1")
		if r.URL.Path == "/gzip" {
			w.Header().Set("Content-Encoding", "gzip")
		}
		for _, encode := range encoders {
			fmt.Fprintln(w, encode(got))
			w.(http.Flusher).Flush()
		}
		w.Header().Set("X-Last", got)
	}))
	defer server.Close()
	for _, scrub := range []bool{true, false} {
		x, _ := session(t, "run1")
		answer := ask(t, server, x, "/", scrub)
		body := must.Get(io.ReadAll(answer.Body))(t)
		text := string(body) + fmt.Sprint(answer.Header, answer.Trailer)
		leaks := 0
		for name, encode := range encoders {
			if strings.Contains(strings.ToLower(text), strings.ToLower(strings.Trim(encode(tokenValue), "\"\n"))) {
				leaks++
				if scrub {
					t.Errorf("%s is left in %q", name, text)
				}
			}
		}
		if !scrub && leaks != len(encoders) {
			t.Errorf("the control finds %d of %d", leaks, len(encoders))
		}
		if scrub && (answer.Trailer.Get("X-Last") != "Bearer "+x.Placeholder("token") || answer.ContentLength != -1) {
			t.Errorf("trailer %v, length %d", answer.Trailer, answer.ContentLength)
		}
		answer.Body.Close()
	}
	x, _ := session(t, "run1")
	answer := ask(t, server, x, "/gzip", false)
	defer answer.Body.Close()
	if err := x.ScrubResponse(answer, target(t, "api.example:443")); reason.Of(err) != reason.EgressDenied {
		t.Errorf("an answer that cannot be looked into: %v", err)
	}
}

func ask(t *testing.T, server *httptest.Server, x *Exchange, path string, scrub bool) *http.Response {
	t.Helper()
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil))(t)
	to := target(t, "api.example:443")
	r.Header.Set("Authorization", "Bearer "+x.Placeholder("token"))
	must.Do(t, x.Apply(t.Context(), r, to, true))
	transport, ok := server.Client().Transport.(*http.Transport)
	if !ok || transport.TLSClientConfig.MinVersion > tls.VersionTLS13 {
		t.Fatal("no transport")
	}
	answer := must.Get(transport.RoundTrip(r))(t)
	if scrub {
		must.Do(t, x.ScrubResponse(answer, to))
	}
	return answer
}
