package egress

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/idna"
)

// readers are parsers of other programs that a host may pass through. Each returns the host
// that it reads. It returns false if it refuses the text or, like inet_aton for names, does not
// treat it as a host of its kind.
var readers = map[string]func(string) (string, bool){
	"net/url": func(s string) (string, bool) {
		u, err := url.Parse("http://" + s + "/")
		if err != nil {
			return "", false
		}
		return u.Hostname(), true
	},
	"idna.Lookup":       toASCII(idna.Lookup),
	"idna.Display":      toASCII(idna.Display),
	"idna.Registration": toASCII(idna.Registration),
	"idna.Punycode":     toASCII(idna.Punycode),
	"inet_aton":         inetAton,
	"a C string": func(s string) (string, bool) {
		head, _, _ := strings.Cut(s, "\x00")
		return head, true
	},
	"a percent decoder": func(s string) (string, bool) {
		plain, err := url.PathUnescape(s)
		return plain, err == nil
	},
	"what follows the user": func(s string) (string, bool) { return s[strings.LastIndexByte(s, '@')+1:], true },
	"what ends at a slash": func(s string) (string, bool) {
		end := strings.IndexAny(s, `/\?#`)
		if end < 0 {
			end = len(s)
		}
		return s[:end], true
	},
	"a parser that drops what it does not like": func(s string) (string, bool) {
		return strings.NewReplacer("\t", "", "\n", "", "\r", "", " ", "", "\u00ad", "", "\u200d", "", "\u200c", "", "\u200b", "").Replace(s), true
	},
}

// toASCII converts to Unicode and back, so that text and punycode can be compared.
func toASCII(p *idna.Profile) func(string) (string, bool) {
	return func(s string) (string, bool) {
		shown, err := p.ToUnicode(s)
		if err != nil {
			return "", false
		}
		ascii, err := p.ToASCII(shown)
		return ascii, err == nil
	}
}

// inetAton parses IPv4 as inet_aton(3) and the URL standard of WHATWG do: one to four parts,
// each decimal, octal or hexadecimal; the last part fills the remaining bytes.
func inetAton(s string) (string, bool) {
	parts := strings.Split(strings.TrimSuffix(s, "."), ".")
	if len(parts) > 4 {
		return "", false
	}
	var addr uint64
	for i, part := range parts {
		n, err := parseC(part)
		most := uint64(255)
		if i == len(parts)-1 {
			most = 1<<(8*(5-len(parts))) - 1
		}
		if err != nil || n > most {
			return "", false
		}
		if i < len(parts)-1 {
			n <<= 8 * (3 - i)
		}
		addr |= n
	}
	return netip.AddrFrom4([4]byte{byte(addr >> 24), byte(addr >> 16), byte(addr >> 8), byte(addr)}).String(), true
}

// parseC parses a number in C's notation: the prefix 0x means hexadecimal, 0 means octal.
func parseC(s string) (uint64, error) {
	lower := strings.ToLower(s)
	if digits, ok := strings.CutPrefix(lower, "0x"); ok {
		return strconv.ParseUint(digits, 16, 64)
	}
	if len(s) > 1 && s[0] == '0' {
		return strconv.ParseUint(s, 8, 64)
	}
	return strconv.ParseUint(s, 10, 64)
}

// plainly normalizes equivalent spellings of a host: upper case, one trailing dot, and the
// notation of an address.
func plainly(s string) string {
	s = strings.TrimSuffix(strings.ToLower(s), ".")
	if addr, err := netip.ParseAddr(s); err == nil {
		return addr.Unmap().String()
	}
	return s
}

// TestNoParserReadsAnotherHost: if any parser reads a host in a text, it is the same host that
// this package reads, or this package refuses the text.
func TestNoParserReadsAnotherHost(t *testing.T) {
	t.Parallel()
	label := strings.Repeat("a", 63)
	name253 := strings.Join([]string{label, label, label, label[:61]}, ".")
	for text, want := range map[string]string{
		"example.org": "example.org", "EXAMPLE.org": "example.org", "example.org.": "example.org", "Example.ORG.": "example.org",
		"example.org..": "", ".example.org": "", "example..org": "", ".": "", "": "",
		"xn--bcher-kva.example": "xn--bcher-kva.example", "XN--BCHER-kva.example": "xn--bcher-kva.example",
		"xn--strae-oqa.example": "xn--strae-oqa.example", "xn--3xa.example": "xn--3xa.example", // deviation characters ß and ς, written as punycode
		"xn--example-": "", "xn--allowed.com": "", "xn--a": "", "xn--\u00fc.example": "", "xn--xn---epa.example": "", "xn--ls8h.example": "xn--ls8h.example",
		"xn--a-ecp.ru": "", "xn--0.pt": "", "xn--ab-m1t.example": "", "xn--abc.example": "",
		"b\u00fccher.example": "", "stra\u00dfe.example": "", "\u03bf\u03c2.example": "", "\u0435xample.org": "", "\uff45xample.org": "",
		"example\u3002org": "", "example\uff0eorg": "", "example\uff61org": "", "\uff11\uff12\uff17.0.0.1": "", "\u2488\u2488\u2488\u2488": "", "\u2460.1.1.1": "",
		"exam\u00adple.org": "", "exam\u200dple.org": "", "exam\u200cple.org": "", "exam\u200bple.org": "", "\ufeffexample.org": "", "\u202eexample.org": "",
		"example.org\x00": "", "example.org\x00.evil.example": "", "evil.example\x00.example.org": "", "example.org%00.evil.example": "",
		"allowed.com@evil": "", "allowed.com:443@evil": "", "evil@allowed.com": "", "allowed.com%40evil": "", "a:b@allowed.com": "",
		"allowed.com/evil": "", `allowed.com\evil`: "", `evil\@allowed.com`: "", "allowed.com?evil": "", "allowed.com#@evil": "", "evil#.allowed.com": "",
		"%65xample.org": "", "example%2eorg": "", "example.org%2eevil.example": "", "%31%32%37.0.0.1": "", "ex%61mple.org": "",
		"exam\tple.org": "", "exam\nple.org": "", "example.org\r\n": "", " example.org": "", "example.org ": "", "exam ple.org": "",
		"127.0.0.1": "127.0.0.1", "127.0.0.1.": "127.0.0.1", "127.1": "", "127.0.1": "", "127.0.0.01": "", "0127.0.0.1": "", "0177.0.0.1": "", "0x7f.0.0.1": "",
		"0x7F.1": "", "0x7f000001": "", "2130706433": "", "017700000001": "", "127.0.0.0x1": "", "127.0.0.1.0": "", "0": "", "0x": "", "00.0.0.0": "",
		"1.2.3.256": "", "1.2.3": "", "4294967296": "", "127.0.0.1a": "127.0.0.1a", "1.2.3.a": "1.2.3.a", "0xg": "0xg", "08.example": "08.example",
		"[::1]": "", "::1": "::1", "::ffff:127.0.0.1": "127.0.0.1", "[::ffff:7f00:1]": "", "::FFFF:7F00:1": "127.0.0.1", "::1%lo": "", "[fe80::1%25lo]": "",
		"fe80::1%eth0": "", "[127.0.0.1]": "", "[example.org]": "", "[::1": "", "::1]": "", "::127.0.0.1": "::7f00:1", "1:2:3:4:5:6:7:8:9": "", "::ffff:127.1": "",
		"0:0:0:0:0:0:0:1": "::1", "::00001": "", "1::2::3": "",
		"example.org:443": "", "example.org:": "", "example.org:65536": "", "example.org:0443": "", ":443": "",
		name253: name253, name253 + ".": name253, name253 + "a": "", name253 + "a.": "", label + "a.example": "",
		"exam_ple.org": "", "-example.org": "", "example-.org": "", "*.example.org": "", "a--b.example": "a--b.example", "ab--c.example": "ab--c.example",
	} {
		t.Run(quoted(text), func(t *testing.T) {
			h, err := CanonicalHost(text)
			if h.String() != want || (err == nil) != (want != "") {
				t.Fatalf("%q is %q, %v; want %q", text, h, err, want)
			}
			for name, other := range disagree(text, h.String()) {
				if err == nil {
					t.Errorf("%s reads %q, we read %q", name, other, h)
				}
			}
		})
	}
}

// disagree returns the parsers that read a different host in a text.
func disagree(text, host string) map[string]string {
	others := map[string]string{}
	for name, read := range readers {
		if other, ok := read(text); ok && plainly(other) != host {
			others[name] = other
		}
	}
	return others
}

// TestParsersDoDisagree is the control of the test above: for each kind of trick, some parser
// reads a different host than the literal text.
func TestParsersDoDisagree(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"b\u00fccher.example", "stra\u00dfe.example", "example\u3002org", "\uff11\uff12\uff17.0.0.1", "exam\u00adple.org", "exam\u200dple.org",
		"evil.example\x00.example.org", "allowed.com@evil", `evil\@allowed.com`, "%31%32%37.0.0.1", "exam\tple.org", "127.1", "0177.0.0.1", "0x7f000001",
		"2130706433", "[::ffff:7f00:1]", "example.org:443",
	} {
		if len(disagree(text, plainly(text))) == 0 {
			t.Errorf("%q: all parsers agree, the row proves nothing", text)
		}
	}
}
