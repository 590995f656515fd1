package egress

import (
	"net/url"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

func TestCanonicalHost(t *testing.T) {
	t.Parallel()
	label63 := strings.Repeat("a", 63)
	longest := strings.Join([]string{label63, label63, label63, strings.Repeat("b", 61)}, ".")
	accepted := map[string]string{
		"example.org":             "example.org",
		"EXAMPLE.Org":             "example.org",
		"example.org.":            "example.org",
		"localhost":               "localhost",
		"a-b.c--d.example":        "a-b.c--d.example",
		"r3---sn-abc.example.org": "r3---sn-abc.example.org",
		"xn--bcher-kva.example":   "xn--bcher-kva.example",
		"XN--BCHER-KVA.example":   "xn--bcher-kva.example",
		"123.example.org":         "123.example.org",
		"1.2.3.4":                 "1.2.3.4",
		"1.2.3.4.":                "1.2.3.4",
		"::1":                     "::1",
		"2001:DB8:0:0:0:0:0:1":    "2001:db8::1",
		"::ffff:127.0.0.1":        "127.0.0.1",
		"::ffff:7f00:1":           "127.0.0.1",
		longest:                   longest,
		longest + ".":             longest,
		label63 + ".example":      label63 + ".example",
		"0xg.example":             "0xg.example",
		"0x7f000001.example":      "0x7f000001.example",
	}
	for in, want := range accepted {
		h, err := CanonicalHost(in)
		if err != nil {
			t.Errorf("%q: %v", in, err)
		} else if h.String() != want {
			t.Errorf("%q: got %q, want %q", in, h, want)
		}
	}
	refused := []string{
		"", ".", "..", "example..org", ".example.org", "example.org..", "-a.example", "a-.example",
		label63 + "a.example", longest + "b", strings.Repeat("a.", 200),
		"exa mple.org", "example.org ", " example.org", "example.org\n", "example.org\x00", "example.org\x00.evil.example",
		"user@example.org", "example.org@evil.example", "example%2eorg", "%65xample.org", "example.org/", "example.org\\", "example.org?x",
		"example.org#x", "example.org:80", "[::1]", "exam_ple.org", "*.example.org", "a,b", "example.org;", "ex\u00e4mple.org", "\u0435xample.org",
		"example\u3002org", "\uff45xample.org", "ex\u200dample.org", "\u202eexample.org", "example.org\u00ad",
		"127.1", "127.0.1", "0x7f.1", "0x7f000001", "2130706433", "017700000001", "0177.0.0.1", "127.0.0.01", "1.2.3.4.5", "256.1.1.1",
		"1.2.3.0x4", "example.123", "0x", "1", "1.2.3.4..", "127.0.0.1:80",
		"fe80::1%eth0", "fe80::1%25eth0", "::1%", ":::1", "::g", "1::2::3", "::ffff:127.1", "::ffff:0177.0.0.1",
		"xn--", "xn--a", "xn--0.example", "xn--999999999.example",
	}
	for _, in := range refused {
		if h, err := CanonicalHost(in); err == nil {
			t.Errorf("%q is accepted as %q", in, h)
		} else if reason.Of(err) != reason.HostInvalid {
			t.Errorf("%q: reason %s", in, reason.Of(err))
		}
	}
}

func TestCanonicalHostSuggestsASCII(t *testing.T) {
	t.Parallel()
	_, err := CanonicalHost("b\u00fccher.example")
	var e *reason.Error
	if !asReason(err, &e) || !strings.Contains(e.Remedy, "xn--bcher-kva.example") {
		t.Errorf("got %#v", err)
	}
}

// TestAgainstNetURL: a URL never means one host to this package and another to net/url, which
// the HTTP client uses.
func TestAgainstNetURL(t *testing.T) {
	t.Parallel()
	hosts := []string{
		"example.org", "EXAMPLE.org", "example.org.", "127.0.0.1", "127.1", "0x7f.1", "2130706433", "[::1]", "[::ffff:127.0.0.1]",
		"[fe80::1%25eth0]", "user@example.org", "user:pw@example.org", "example.org@evil.example", "example.org%2eevil.example",
		"example.org:443", "example.org:", "example.org\\@evil.example", "example.org#@evil.example", "example.org?@evil.example",
		"evil.example\u2044.example.org", "example\u3002org", "[::1", "::1", "a b", "xn--bcher-kva.example", "[127.0.0.1]", "%31%32%37.0.0.1",
	}
	for _, in := range hosts {
		u, err := url.Parse("http://" + in + "/")
		if err != nil {
			continue
		}
		h, err := CanonicalHost(u.Hostname())
		if err != nil {
			continue
		}
		back, err := url.Parse("http://" + h.Join(80) + "/")
		if err != nil {
			t.Errorf("%q: canonical %q is no URL host: %v", in, h, err)
			continue
		}
		if got := back.Hostname(); got != h.String() {
			t.Errorf("%q: canonical %q, net/url reads %q", in, h, got)
		}
		plain := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
		if _, isAddr := h.Addr(); !isAddr && plain != h.String() {
			t.Errorf("%q: net/url says %q, we say %q", in, plain, h)
		}
	}
}

func TestDomain(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"example.org": "example.org", "www.example.org": "example.org", "a.b.example.co.uk": "example.co.uk",
		"co.uk": "co.uk", "localhost": "localhost", "x.github.io": "x.github.io", "127.0.0.1": "",
	}
	for in, want := range tests {
		h := must.Get(CanonicalHost(in))(t)
		if got := h.Domain(); got != want {
			t.Errorf("%s: got %q, want %q", in, got, want)
		}
	}
}

func TestParsePort(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "0", "-1", "+80", "080", "65536", "8a", " 80", "80 "} {
		if n, err := ParsePort(s); err == nil {
			t.Errorf("%q is %d", s, n)
		}
	}
	if n, err := ParsePort("65535"); err != nil || n != 65535 {
		t.Errorf("%d, %v", n, err)
	}
}

func TestModeZeroIsStrict(t *testing.T) {
	t.Parallel()
	var m Mode
	if m != Strict || m.String() != "strict" {
		t.Errorf("zero mode is %v", m)
	}
	for _, want := range []Mode{Strict, Preflight, Unrestricted} {
		if got, err := ParseMode(want.String()); err != nil || got != want {
			t.Errorf("%v: %v, %v", want, got, err)
		}
	}
	if m, err := ParseMode("open"); err == nil || m != Strict {
		t.Errorf("unknown mode: %v, %v", m, err)
	}
}
