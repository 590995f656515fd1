package egress

import (
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"testing"
)

const nameBytes = "abcdefghijklmnopqrstuvwxyz0123456789-."

// FuzzCanonicalHost: an accepted host has one canonical form, which every parser reads in the
// same way. A rule made of it applies only to this host.
func FuzzCanonicalHost(f *testing.F) {
	for _, s := range []string{"example.org", "::ffff:1.2.3.4", "0x7f.1", "xn--bcher-kva.de", "a..b", "EX.org.", "fe80::1%0", "1.2.3.4.", "2002:7f00:1::"} {
		f.Add(s, "www."+s)
		f.Add(s, strings.ToUpper(s)+".")
	}
	f.Fuzz(func(t *testing.T, s, other string) {
		h, err := CanonicalHost(s)
		if err != nil {
			if !h.IsZero() {
				t.Fatalf("%q: refused and yet %q", s, h)
			}
			return
		}
		text := h.String()
		again, err := CanonicalHost(text)
		if err != nil || again != h {
			t.Fatalf("%q -> %q -> %q, %v", s, text, again, err)
		}
		addr, isAddr := h.Addr()
		parsed, parseErr := netip.ParseAddr(text)
		if isAddr != (parseErr == nil) || isAddr && (addr != parsed || addr.Is4In6() || addr.Zone() != "") {
			t.Fatalf("%q -> %q: address %v, %v", s, text, addr, parseErr)
		}
		if allowed := nameBytes; strings.Trim(text, allowed) != "" && !(isAddr && strings.Trim(text, allowed+":") == "") {
			t.Fatalf("%q -> %q holds other characters", s, text)
		}
		u, err := url.Parse("https://" + h.Join(443))
		if err != nil || u.Hostname() != text {
			t.Fatalf("%q -> %q: net/url reads %v, %v", s, text, u, err)
		}
		r, err := ParseRule(text)
		if err != nil || !r.matches(h, 443) || r.Canonical() != text {
			t.Fatalf("%q -> %q: as a rule %q, %v", s, text, r.Canonical(), err)
		}
		if o, err := CanonicalHost(other); err == nil && r.matches(o, 443) != (o == h) {
			t.Fatalf("rule %q and host %q: %t", r, o, r.matches(o, 443))
		}
	})
}

// FuzzParseTarget: an accepted target has one canonical form with the same meaning, also for
// net and net/url.
func FuzzParseTarget(f *testing.F) {
	for _, s := range []string{"example.org:443", "EX.org.:1", "[::1]:65535", "1.2.3.4:80", "a:b:1", "a:065", "[::1%1]:2", "a@b:80", ":80", "[::ffff:7f00:1]:80", "a:80\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		to, err := ParseTarget(s)
		if err != nil {
			return
		}
		if to.Host.IsZero() || to.Port == 0 {
			t.Fatalf("%q -> %+v", s, to)
		}
		text := to.String()
		if again, err := ParseTarget(text); err != nil || again != to {
			t.Fatalf("%q -> %q -> %q, %v", s, text, again, err)
		}
		if strings.Trim(text, nameBytes+":[]") != "" {
			t.Fatalf("%q -> %q holds other characters", s, text)
		}
		host, port, err := net.SplitHostPort(s)
		if h, hostErr := CanonicalHost(host); err != nil || hostErr != nil || h != to.Host || port != strconv.Itoa(int(to.Port)) {
			t.Fatalf("%q -> %q: net reads %q %q, %v", s, text, host, port, err)
		}
		if u, err := url.Parse("https://" + text + "/"); err != nil || u.Hostname() != to.Host.String() || u.Port() != port {
			t.Fatalf("%q -> %q: net/url reads %v, %v", s, text, u, err)
		}
		if r, err := ParseRule(text); err != nil || !r.matches(to.Host, to.Port) || r.matches(to.Host, to.Port^1) {
			t.Fatalf("%q -> %q: as a rule %+v, %v", s, text, r, err)
		}
	})
}

// FuzzParseRule: an accepted rule keeps its text, and has one canonical form with the same
// meaning.
func FuzzParseRule(f *testing.F) {
	for _, s := range []string{"example.org", "*.EX.org.:443", "10.0.0.0/8:22", "[2001:db8::/32]:8443", "[::1]:80", "::1", "*.1.2.3.4", "[::ffff:1.2.3.4]", "::/0", "0.0.0.0/0", "*.0x1"} {
		f.Add(s, "www.example.org", uint16(443))
		f.Add(s, "10.1.2.3", uint16(22))
		f.Add(s, "2001:db8::1", uint16(8443))
	}
	f.Fuzz(func(t *testing.T, s, host string, port uint16) {
		r, err := ParseRule(s)
		if err != nil {
			return
		}
		text := r.Canonical()
		again, err := ParseRule(text)
		if err != nil || r.String() != s || again.Canonical() != text {
			t.Fatalf("%q -> %q -> %q, %v", s, text, again.Canonical(), err)
		}
		again.text = r.text
		if again != r {
			t.Fatalf("%q: %+v, in canonical form %+v", s, r, again)
		}
		if strings.Trim(text, nameBytes+":[]/*") != "" {
			t.Fatalf("%q -> %q holds other characters", s, text)
		}
		h, err := CanonicalHost(host)
		if err != nil || !r.matches(h, port) {
			return
		}
		addr, isAddr := h.Addr()
		switch {
		case r.port != 0 && r.port != port:
			t.Fatalf("%q matches port %d", s, port)
		case isAddr != r.prefix.IsValid() || isAddr && !r.prefix.Contains(addr):
			t.Fatalf("%q matches %q", s, h)
		case r.suffix != "" && (len(h.name) <= len(r.suffix) || h.name[len(h.name)-len(r.suffix):] != r.suffix):
			t.Fatalf("%q matches %q", s, h)
		case !isAddr && r.suffix == "" && r.host != h:
			t.Fatalf("%q matches %q", s, h)
		}
	})
}
