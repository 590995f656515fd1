package secret

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/egress"
)

// answered returns the scrubbed response with a text in its header and its body, as a program
// receives and prints it.
func answered(t *testing.T, x *Exchange, to, text string) string {
	t.Helper()
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+to+"/log/last", nil))(t)
	must.Do(t, x.Apply(t.Context(), r, target(t, to), true))
	res := &http.Response{Header: http.Header{"X-Last": {text}}, Body: io.NopCloser(strings.NewReader(text)), Request: r}
	must.Do(t, x.ScrubResponse(res, target(t, to)))
	body := must.Get(io.ReadAll(res.Body))(t)
	printed := must.Get(io.ReadAll(x.Scrub(strings.NewReader(text))))(t)
	return fmt.Sprintf("%s|%s|%s|%s", res.Header.Get("X-Last"), body, printed, x.ScrubText(text))
}

// TestStoredByTheHost: a session does not see a secret that another session sent, whether or
// not it used the secret itself, whichever host returns it and whichever part is read first.
func TestStoredByTheHost(t *testing.T) {
	t.Parallel()
	one, _ := session(t, "one")
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api.example/log", nil))(t)
	r.Header.Set("Authorization", "Bearer "+one.Placeholder("token"))
	must.Do(t, one.Apply(t.Context(), r, target(t, "api.example:443"), true))
	stored := r.Header.Get("Authorization")
	for _, to := range []string{"api.example:443", "eu.api.example:8443", "other.example:443"} {
		two, v := session(t, "two")
		got := answered(t, two, to, "the last was "+stored)
		if want := "the last was Bearer " + two.Placeholder("token"); got != strings.Join([]string{want, want, want, want}, "|") {
			t.Errorf("%s: %s", to, got)
		}
		if !slices.Equal(v.asked, []string{"token", "key"}) {
			t.Errorf("asked for %q", v.asked)
		}
	}
	// Control: a session without secrets is not scrubbed.
	if got := answered(t, New("none", nil), "api.example:443", stored); !strings.Contains(got, tokenValue) {
		t.Errorf("the control sees %s", got)
	}
	for where, look := range map[string]func(*Exchange) string{
		"output": func(x *Exchange) string { b, _ := io.ReadAll(x.Scrub(strings.NewReader(stored))); return string(b) },
		"header": func(x *Exchange) string { h := http.Header{"A": {stored}}; x.ScrubHeader(h); return h.Get("A") },
		"text":   func(x *Exchange) string { return x.ScrubText(stored) },
		"pieces": func(x *Exchange) string { b, _ := x.Scrubber().Next([]byte(stored), true); return string(b) },
	} {
		two, _ := session(t, "two")
		if got := look(two); got != "Bearer "+two.Placeholder("token") {
			t.Errorf("%s looked at first: %s", where, got)
		}
	}
}

// TestAskedForOnce: whatever is scrubbed, each source is read once, even if one of them fails.
func TestAskedForOnce(t *testing.T) {
	t.Parallel()
	x, v := session(t, "run1")
	delete(v.values, "token")
	for range 3 {
		answered(t, x, "api.example:443", strings.Repeat("text\n", 100_000))
	}
	if !slices.Equal(v.asked, []string{"token", "key"}) {
		t.Errorf("asked for %q", v.asked)
	}
}

// TestSecretThatCannotBeRead: requests without the unreadable secret continue, the other
// secrets are still scrubbed, and a request that uses it reads the source again.
func TestSecretThatCannotBeRead(t *testing.T) {
	t.Parallel()
	x, v := session(t, "run1")
	delete(v.values, "token")
	if got := answered(t, x, "api.example:443", tokenValue+keyValue); strings.Contains(got, keyValue) || strings.Count(got, x.Placeholder("key")) != 4 {
		t.Errorf("it sees %s", got)
	}
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api.example/", nil))(t)
	r.Header.Set("Authorization", x.Placeholder("token"))
	if err := x.Apply(t.Context(), r, target(t, "api.example:443"), true); reason.Of(err) != reason.EgressDenied {
		t.Errorf("it is used: %v", err)
	}
	v.values["token"] = tokenValue
	must.Do(t, x.Apply(t.Context(), r, target(t, "api.example:443"), true))
	if got := answered(t, x, "api.example:443", tokenValue+keyValue); strings.Contains(got, tokenValue) || strings.Contains(got, keyValue) {
		t.Errorf("afterwards it sees %s", got)
	}
}

// TestRevokedSecret: a secret whose lease the vault has ended is no longer sent, but is still
// scrubbed. A secret of the configuration is kept for the session.
func TestRevokedSecret(t *testing.T) {
	t.Parallel()
	for version, want := range map[int]reason.Code{0: "", 3: reason.EgressDenied} {
		x, v := session(t, "run1")
		x.secrets[0].Version = version
		request := func() error {
			r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api.example/", nil))(t)
			r.Header.Set("Authorization", x.Placeholder("token"))
			return x.Apply(t.Context(), r, target(t, "api.example:443"), true)
		}
		must.Do(t, request())
		delete(v.values, "token")
		if got := reason.Of(request()); got != want {
			t.Errorf("version %d: %q", version, got)
		}
		if got := answered(t, x, "api.example:443", tokenValue); strings.Contains(got, tokenValue) {
			t.Errorf("version %d: it sees %s", version, got)
		}
	}
}

// TestEncodings: a response in an encoding that cannot be searched is refused from a host of a
// secret, in any notation of the encoding.
func TestEncodings(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		to     string
		values []string
		denied bool
	}{
		{"api.example:443", nil, false},
		{"api.example:443", []string{""}, false},
		{"api.example:443", []string{"Identity"}, false},
		{"api.example:443", []string{"identity", " identity,"}, false},
		{"api.example:443", []string{"gzip"}, true},
		{"api.example:443", []string{"identity", "gzip"}, true},
		{"api.example:443", []string{"", "br"}, true},
		{"api.example:443", []string{"identity, zstd"}, true},
		{"other.example:443", []string{"gzip"}, false},
	} {
		x, _ := session(t, "run1")
		res := &http.Response{Header: http.Header{"Content-Encoding": test.values}, Body: io.NopCloser(strings.NewReader("x"))}
		if err := x.ScrubResponse(res, target(t, test.to)); (reason.Of(err) == reason.EgressDenied) != test.denied {
			t.Errorf("%s, %q: %v", test.to, test.values, err)
		}
	}
}

// TestPieces: a text has the same result in any pieces, and no value is found across the border
// of two texts.
func TestPieces(t *testing.T) {
	t.Parallel()
	x, _ := session(t, "run1")
	half := len(tokenValue) / 2
	for name, texts := range map[string][][]string{
		"whole":      {{"it is " + tokenValue + "!"}},
		"halves":     {{"it is " + tokenValue[:half], tokenValue[half:], "!"}},
		"empty last": {{tokenValue, ""}, {""}, {tokenValue[half:]}},
		"two texts":  {{tokenValue[:half]}, {tokenValue[half:]}},
	} {
		s, w := x.Scrubber(), Watcher{}
		for _, pieces := range texts {
			var got, sent strings.Builder
			for i, piece := range pieces {
				last := i == len(pieces)-1
				b := must.Get(s.Next([]byte(piece), last))(t)
				got.Write(b)
				b = must.Get(w.Next([]byte(piece), last))(t)
				sent.Write(b)
			}
			if whole := strings.Join(pieces, ""); got.String() != x.ScrubText(whole) || sent.String() != whole {
				t.Errorf("%s: %q, watched %q", name, got.String(), sent.String())
			}
		}
	}
	token := x.Placeholder("token")
	var w Watcher
	for _, text := range []string{token[:5], token[5:]} {
		if _, err := w.Next([]byte(text), true); err != nil {
			t.Errorf("two texts: %v", err)
		}
	}
	if _, err := w.Next([]byte(token[:5]), false); err != nil {
		t.Error(err)
	}
	if b, err := w.Next([]byte(token[5:]), true); Word(err) != egress.ReasonSecretMisplaced || len(b) > 0 {
		t.Errorf("one text: %q, %v", b, err)
	}
}
