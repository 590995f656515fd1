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

// Target is where one connection goes.
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

// Reach is what one program may reach and how far. Its zero value reaches
// nothing.
type Reach struct {
	// Rules decide over every connection; each allow rule names a port, since a
	// sandbox listens where it may be asked for.
	Rules Rules
	// Inspect are the hosts whose TLS is ended and looked into.
	Inspect []Inspection
	// Secrets are put into requests on the way out. The program knows a
	// placeholder of each.
	Secrets []Secret
	Budget  Budget
}

// Check refuses what no sandbox could carry out. Errors carry
// reason.HostInvalid.
func (g Reach) Check() error {
	for _, rule := range g.Rules.Allow {
		if rule.port == 0 {
			return reason.Errorf(reason.HostInvalid, "%s names no port", quoted(rule.text)).
				WithRemedy("Write the port that programs may reach, such as %s:443.", rule.bracketed())
		}
	}
	if n := len(g.Ports()); n > MaxPorts {
		return reason.Errorf(reason.HostInvalid, "the allowed hosts have %d different ports, at most %d are possible", n, MaxPorts).
			WithRemedy("Take out rules until there are fewer ports: a sandbox listens on each.")
	}
	return nil
}

// MaxPorts is how many different ports one call may reach: a sandbox listens on
// each.
const MaxPorts = 64

// Ports are the ports of the allow rules, sorted and without repeats.
func (g Reach) Ports() []uint16 {
	var ports []uint16
	for _, rule := range g.Rules.Allow {
		ports = append(ports, rule.port)
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}

// Inspected returns what is looked at in requests to a target, and false when
// its connections are not looked into. Of several inspections the first that
// fits counts. A secret for a target has it inspected, too.
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

// Inspection says which requests to a host may pass. Lists that are empty let
// all pass.
type Inspection struct {
	Host Rule
	// Methods are in upper case.
	Methods []string
	// Paths are patterns of the path of a URL as path.Match has them, in
	// which a last "/**" stands for everything below.
	Paths []string
}

// Secret is a value that a program uses without ever seeing it.
type Secret struct {
	// Name is that of the configuration ("github"), or the reference of one that the
	// vault keeps, without its scheme ("user:ann/github").
	Name string
	// Version is which value of the vault's it is, counted from 1; 0 is one that a
	// file holds, whose value is whatever the file holds at the time.
	Version int
	// Note says what the secret is for, in its owner's words.
	Note string
	// Env is the variable in which a program finds the placeholder, "" for
	// none.
	Env string
	// Header is the one header, in canonical form, in which the placeholder is
	// replaced.
	Header string
	// Hosts are the targets that get the value, each with a port, by verified
	// TLS alone.
	Hosts  []Rule
	Source SecretSource
}

// For reports whether a target may get the value.
func (s Secret) For(t Target) bool {
	return slices.ContainsFunc(s.Hosts, func(r Rule) bool { return r.matches(t.Host, t.Port) })
}

// Bound is how an approval names the secret: "secret:github@current", or
// "secret:global/github@3" for version 3 of one that the vault keeps: with another
// version it is another call.
func (s Secret) Bound() string {
	version := "current"
	if s.Version > 0 {
		version = strconv.Itoa(s.Version)
	}
	return "secret:" + s.Name + "@" + version
}

// Called is how people are told of the secret.
func (s Secret) Called() string {
	if s.Lent() {
		return "vault://" + s.Name
	}
	return s.Name
}

// Lent reports whether the vault keeps the secret, and lends it to one call at a time.
func (s Secret) Lent() bool { return s.Version > 0 }

// SecretSource hands secrets out. Whoever asks owns the bytes, and wipes them
// after use.
type SecretSource interface {
	Secret(ctx context.Context, name string) ([]byte, error)
}

// Budget bounds what one program exchanges with the hosts that it may reach. A
// zero field means the default.
type Budget struct {
	// Connections are all those of the program, Concurrent those at one time.
	Connections int
	Concurrent  int
	// BytesOut and BytesIn are over all connections.
	BytesOut int64
	BytesIn  int64
	// Requests counts those that can be told apart: of plain HTTP and of hosts
	// that are inspected.
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

// Enforceable refuses what no sandbox could carry out, and one with the
// name localhost: programs know its address by themselves, and connect to that.
func (g Reach) Enforceable() error {
	for _, rule := range g.Rules.Allow {
		host, port, _ := strings.Cut(rule.Canonical(), ":")
		if host == "localhost" || strings.HasSuffix(host, ".localhost") {
			return reason.Errorf(reason.HostInvalid, "programs connect to the address of %s, and no rule with the name covers that", rule).
				WithRemedy("Name the address: 127.0.0.1:%s, and [::1]:%s if need be.", port, port)
		}
	}
	return g.Check()
}
