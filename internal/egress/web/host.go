package web

import (
	"strings"

	"palyra/internal/core/reason"
	"palyra/internal/egress"
)

// parseAuthority parses "host" or "host:port" as in Host and :authority; port is the default.
// Errors carry reason.HostInvalid.
func parseAuthority(s string, port uint16) (egress.Target, error) {
	name := s
	if bracketed, ok := strings.CutPrefix(s, "["); ok {
		inside, rest, _ := strings.Cut(bracketed, "]")
		if !strings.Contains(inside, ":") {
			return egress.Target{}, reason.Errorf(reason.HostInvalid, "only an IPv6 address may be in brackets")
		}
		if rest != "" {
			return egress.ParseTarget(s)
		}
		name = inside
	} else if strings.Contains(s, ":") {
		return egress.ParseTarget(s)
	}
	host, err := egress.CanonicalHost(name)
	return egress.Target{Host: host, Port: port}, err
}

// scheme is the scheme of all requests of a connection.
type scheme string

// The schemes. Requests that arrive by TLS are sent by TLS.
const (
	plain scheme = "http"
	https scheme = "https"
)

func (s scheme) defaultPort() uint16 {
	if s == https {
		return 443
	}
	return 80
}

// authority returns the Host of requests to a target, as most clients write it: without the
// port that the scheme implies.
func (s scheme) authority(t egress.Target) string {
	if t.Port != s.defaultPort() {
		return t.String()
	}
	if addr, ok := t.Host.Addr(); ok && addr.Is6() {
		return "[" + t.Host.String() + "]"
	}
	return t.Host.String()
}

// isNameOf reports whether a TLS server name matches the host. TLS to an address has no server name
// (RFC 6066 section 3).
func isNameOf(serverName string, host egress.Host) bool {
	if _, ok := host.Addr(); ok {
		return serverName == ""
	}
	named, err := egress.CanonicalHost(serverName)
	return err == nil && named == host
}
