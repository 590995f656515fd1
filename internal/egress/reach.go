package egress

import (
	"cmp"
	"context"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"palyra/internal/core/reason"
)

// Target is the destination of one connection.
type Target struct {
	Host Host
	Port uint16
}

// String returns "host:port".
func (t Target) String() string { return t.Host.Join(t.Port) }

// ParseTarget reads "host:port", with an IPv6 address in brackets. Errors carry
// reason.HostInvalid.
func ParseTarget(s string) (Target, error) {
	if strings.Contains(s, "://") {
		return Target{}, urlRefused(s)
	}
	text, number, err := net.SplitHostPort(s)
	if err != nil {
		return Target{}, invalid(s, "it is not host:port").WithRemedy("Write host and port, such as example.org:443 or [2001:db8::1]:443.")
	}
	port, err := ParsePort(number)
	if err != nil {
		return Target{}, err
	}
	host, err := CanonicalHost(text)
	if err != nil {
		return Target{}, err
	}
	return Target{host, port}, nil
}

// Reach defines the hosts that one program may reach, and its limits. The zero value reaches
// nothing.
type Reach struct {
	// Rules decide on every connection. Each allow rule names a port, because a sandbox must listen
	// on each port that its program may use.
	Rules Rules
	// Inspect lists the hosts whose TLS is terminated and inspected.
	Inspect []Inspection
	// Secrets are inserted into outgoing requests. The program holds a placeholder of each.
	Secrets []Secret
	Budget  Budget
}

// Check refuses a reach that no sandbox can enforce. Errors carry reason.HostInvalid.
func (g Reach) Check() error {
	for _, rule := range g.Rules.Allow {
		if rule.port == 0 {
			return reason.Errorf(reason.HostInvalid, "%s names no port", quoted(rule.text)).
				WithRemedy("Write the port that programs may reach, such as %s:443.", rule.bracketed())
		}
	}
	if n := len(g.Ports()); n > MaxPorts {
		return reason.Errorf(reason.HostInvalid, "the allowed hosts have %d different ports, at most %d are possible", n, MaxPorts).
			WithRemedy("Remove rules until they have fewer ports: a sandbox listens on each port.")
	}
	return nil
}

// MaxPorts limits the different ports that one call may reach: a sandbox listens on each.
const MaxPorts = 64

// Ports returns the ports of the allow rules, sorted and without duplicates.
func (g Reach) Ports() []uint16 {
	var ports []uint16
	for _, rule := range g.Rules.Allow {
		ports = append(ports, rule.port)
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}

// Inspected returns the inspection of requests to a target, and false if its connections are not
// inspected. The first matching inspection applies. A secret for a target also enables inspection.
func (g Reach) Inspected(t Target) (Inspection, bool) {
	for _, i := range g.Inspect {
		if i.Host.matches(t.Host, t.Port) {
			return i, true
		}
	}
	for _, s := range g.Secrets {
		if s.For(t) {
			return Inspection{}, true
		}
	}
	return Inspection{}, false
}

// Inspection defines which requests to a host are allowed. An empty list allows all.
type Inspection struct {
	Host Rule
	// Methods are in upper case.
	Methods []string
	// Paths are patterns for the path of a URL in the syntax of path.Match; a final "/**" matches
	// everything below.
	Paths []string
}

// Secret is a value that a program uses without access to it.
type Secret struct {
	// Name is the name in the configuration ("github"), or the reference of a vault secret without
	// its scheme ("user:ann/github").
	Name string
	// Version is the version of a vault secret, counted from 1. 0 is a secret in a file, whose
	// value is the current content of the file.
	Version int
	// Note is the owner's description of the secret's purpose.
	Note string
	// Env is the environment variable that holds the placeholder, or "".
	Env string
	// Header is the only header, in canonical form, in which the placeholder is replaced.
	Header string
	// Hosts are the targets that may receive the value, each with a port and only by verified TLS.
	Hosts  []Rule
	Source SecretSource
}

// For reports whether a target may receive the value.
func (s Secret) For(t Target) bool {
	return slices.ContainsFunc(s.Hosts, func(r Rule) bool { return r.matches(t.Host, t.Port) })
}

// Bound returns the name of the secret in an approval: "secret:github@current", or
// "secret:global/github@3" for version 3 of a vault secret. An approval for one version does
// not cover another.
func (s Secret) Bound() string {
	version := "current"
	if s.Version > 0 {
		version = strconv.Itoa(s.Version)
	}
	return "secret:" + s.Name + "@" + version
}

// Called returns the name of the secret as displayed to people.
func (s Secret) Called() string {
	if s.Lent() {
		return "vault://" + s.Name
	}
	return s.Name
}

// Lent reports whether the secret is a vault secret, which is lent to one call at a time.
func (s Secret) Lent() bool { return s.Version > 0 }

// SecretSource provides secrets. The caller owns the returned bytes and MUST wipe them after use.
type SecretSource interface {
	Secret(ctx context.Context, name string) ([]byte, error)
}

// Budget limits the traffic of one program with its reachable hosts. A zero field means the
// default.
type Budget struct {
	// Connections limits all connections of the program, Concurrent the simultaneous ones.
	Connections int
	Concurrent  int
	// BytesOut and BytesIn are over all connections.
	BytesOut int64
	BytesIn  int64
	// Requests limits the requests that can be counted: plain HTTP and inspected hosts.
	Requests int
	// Time is how long one connection may last.
	Time time.Duration
}

// OrDefault returns b with the defaults in place of zero fields.
func (b Budget) OrDefault() Budget {
	const mib = 1 << 20
	return Budget{
		Connections: cmp.Or(b.Connections, 10_000), Concurrent: cmp.Or(b.Concurrent, 128),
		BytesOut: cmp.Or(b.BytesOut, 64*mib), BytesIn: cmp.Or(b.BytesIn, 4096*mib),
		Requests: cmp.Or(b.Requests, 100_000), Time: cmp.Or(b.Time, time.Hour),
	}
}

// Enforceable refuses a reach that no sandbox can enforce, including the name localhost: programs
// resolve it without a query and connect to loopback.
func (g Reach) Enforceable() error {
	for _, rule := range g.Rules.Allow {
		host, port, _ := strings.Cut(rule.Canonical(), ":")
		if host == "localhost" || strings.HasSuffix(host, ".localhost") {
			return reason.Errorf(reason.HostInvalid, "programs connect to the address of %s, and no rule with the name covers that", rule).
				WithRemedy("Specify the address: 127.0.0.1:%s, and [::1]:%s if needed.", port, port)
		}
	}
	return g.Check()
}
