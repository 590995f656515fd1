package egress

import (
	"net"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"

	"palyra/internal/core/reason"
	"palyra/internal/core/text"
)

// Host is a host in canonical form: a lower-case ASCII name without trailing dot, or an IP address.
// The zero value is not a host. Hosts are comparable with ==.
type Host struct {
	name string
	addr netip.Addr
}

// The longest name and label (RFC 1035 section 2.3.4).
const (
	maxName  = 253
	maxLabel = 63
)

// CanonicalHost parses a host of a URL or a rule, without port and without the brackets of an IPv6
// address. A name consists of letters, digits and hyphens; one trailing dot is removed. An address
// is in the form of netip.ParseAddr, without zone; an IPv4-mapped IPv6 address becomes plain IPv4.
// The decimal, octal, hexadecimal and short forms of IPv4 that inet_aton accepts are refused,
// because programs interpret them differently. Errors carry reason.HostInvalid.
func CanonicalHost(s string) (Host, error) {
	if s == "" {
		return Host{}, invalid(s, "it is empty")
	}
	if strings.Contains(s, ":") {
		return hostFromAddress(s)
	}
	if len(s) > maxName+1 {
		return Host{}, invalid(s, "it is longer than 253 characters")
	}
	if err := checkBytes(s); err != nil {
		return Host{}, err
	}
	name := strings.TrimSuffix(strings.ToLower(s), ".")
	if name == "" || len(name) > maxName {
		return Host{}, invalid(s, "it is empty or longer than 253 characters")
	}
	if endsInNumber(name) {
		return hostFromAddress(name)
	}
	for label := range strings.SplitSeq(name, ".") {
		if problem := labelProblem(label); problem != "" {
			return Host{}, invalid(s, problem)
		}
	}
	return Host{name: name}, nil
}

// HostOf returns the host of an address.
func HostOf(addr netip.Addr) Host { return Host{addr: addr.Unmap()} }

func hostFromAddress(s string) (Host, error) {
	addr, err := netip.ParseAddr(s)
	if err != nil {
		return Host{}, invalid(s, "it is neither a name nor an IP address in its usual form")
	}
	if addr.Zone() != "" {
		return Host{}, invalid(s, "an address with a zone is not allowed")
	}
	return Host{addr: addr.Unmap()}, nil
}

func checkBytes(s string) error {
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '.':
		case c >= 0x80:
			return nonASCII(s)
		default:
			return invalid(s, "character "+strconv.QuoteRune(rune(c))+" is not allowed")
		}
	}
	return nil
}

func nonASCII(s string) error {
	refused := invalid(s, "it is not ASCII")
	if ascii, err := idna.Lookup.ToASCII(s); err == nil {
		return refused.WithRemedy("If you mean the host, write %s.", ascii)
	}
	return refused
}

// endsInNumber reports whether the last label is numeric, which makes the host an IPv4 address to a
// WHATWG URL parser.
func endsInNumber(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	if last == "" {
		return false
	}
	if strings.HasPrefix(last, "0x") {
		return strings.Trim(last[2:], "0123456789abcdef") == ""
	}
	return strings.Trim(last, "0123456789") == ""
}

func labelProblem(label string) string {
	switch {
	case label == "":
		return "it has an empty label"
	case len(label) > maxLabel:
		return "a label is longer than 63 characters"
	case label[0] == '-' || label[len(label)-1] == '-':
		return "a label begins or ends with a hyphen"
	case strings.HasPrefix(label, "xn--") && !validPunycode(label):
		return "a label that begins with xn-- is not a valid international name"
	}
	return ""
}

func validPunycode(label string) bool {
	unicode, err := idna.Lookup.ToUnicode(label)
	if err != nil {
		return false
	}
	back, err := idna.Lookup.ToASCII(unicode)
	return err == nil && back == label
}

func invalid(s, problem string) *reason.Error {
	return reason.Errorf(reason.HostInvalid, "host %s: %s", quoted(s), problem)
}

// urlRefused returns the error for a URL given in place of a host and port.
func urlRefused(s string) error {
	return invalid(s, "it is a URL").WithRemedy("Leave out scheme and path, and write the port: example.org:443.")
}

// quoted quotes untrusted text for a message, so that control characters are visible.
func quoted(s string) string { return strconv.QuoteToASCII(text.Ellipsis(s, 100)) }

// String returns the canonical form, "" for no host.
func (h Host) String() string {
	if h.addr.IsValid() {
		return h.addr.String()
	}
	return h.name
}

// IsZero reports whether h is the zero Host.
func (h Host) IsZero() bool { return h == Host{} }

// Addr returns the address if the host is an address.
func (h Host) Addr() (netip.Addr, bool) { return h.addr, h.addr.IsValid() }

// Domain returns the registrable domain by the Public Suffix List: "example.org" for
// "www.example.org". A name that is itself a public suffix, or has no suffix, is returned
// whole. An address has no domain.
func (h Host) Domain() string {
	if h.name == "" {
		return ""
	}
	domain, err := publicsuffix.EffectiveTLDPlusOne(h.name)
	if err != nil {
		return h.name
	}
	return domain
}

// Join returns "host:port", with brackets around an IPv6 address.
func (h Host) Join(port uint16) string {
	return net.JoinHostPort(h.String(), strconv.Itoa(int(port)))
}

// ParsePort reads a port from 1 to 65535 written in plain digits.
func ParsePort(s string) (uint16, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 || s[0] == '0' || s[0] == '+' {
		return 0, reason.Errorf(reason.HostInvalid, "port %s: want a number from 1 to 65535", quoted(s)).
			WithRemedy("Write the port as a number, such as example.org:443.")
	}
	return uint16(n), nil
}
