package config

import (
	"fmt"
	"net/netip"
	"path"
	"strconv"
	"strings"
	"time"

	"palyra/internal/core/lazyregexp"
)

// EgressBudget limits the traffic of one program with the hosts that it may reach in mode `strict`.
// At a limit the program loses its connection, and the record names the limit (docs/egress.md).
type EgressBudget struct {
	// Connections limits all connections of one program. Range: 1 to 1000000.
	Connections int `toml:"connections" json:"connections"`
	// Concurrent limits simultaneous connections. Range: 1 to 4096.
	Concurrent int `toml:"concurrent" json:"concurrent"`
	// BytesOut limits the bytes sent over all connections, 64 MiB by default. It also limits one
	// call of a WebAssembly guest. Range: 1 KiB to 1 TiB.
	BytesOut int64 `toml:"bytes_out" json:"bytes_out"`
	// BytesIn limits the bytes received over all connections, 4 GiB by default. Range: 1 KiB to 1
	// TiB.
	BytesIn int64 `toml:"bytes_in" json:"bytes_in"`
	// Requests limits the requests of plain HTTP and of inspected hosts. Range: 1 to 1000000000.
	Requests int `toml:"requests" json:"requests"`
	// ConnectionTimeMS limits the duration of one connection in milliseconds, 1 h by default.
	// Range: 1000 to 86400000.
	ConnectionTimeMS int64 `toml:"connection_time_ms" json:"connection_time_ms"`
}

// ConnectionTime returns ConnectionTimeMS as a duration.
func (b EgressBudget) ConnectionTime() time.Duration { return millis(b.ConnectionTimeMS) }

// Inspect names a host whose requests are inspected in mode `strict`: palyrad terminates TLS with a
// certificate that only the sandbox trusts, checks each request, and forwards it over verified TLS
// (docs/egress.md). It can be set in the file only.
type Inspect struct {
	// Host is a host rule with a port, as in `process_runner.allowed_egress_hosts`. It does not
	// allow the host by itself. If several tables match a host, the first one counts. Required.
	Host string `toml:"host" json:"host"`
	// Methods are the allowed methods, in upper case (`["GET", "HEAD"]`). Empty allows all.
	Methods []string `toml:"methods" json:"methods"`
	// Paths are the allowed paths: patterns from the root, in which `*` matches within a segment
	// and a final `/**` everything below (`"/repos/*/issues"`, `"/simple/**"`). Empty allows all.
	Paths []string `toml:"paths" json:"paths"`
}

// oldWords replaces values that have a new name, and adds a note about each.
func (c *Config) oldWords() {
	if mode := &c.ProcessRunner.EgressEnforcementMode; *mode == "none" {
		*mode = EgressUnrestricted
		c.Notes = append(c.Notes, `process_runner.egress_enforcement_mode = "none" means "unrestricted", the network of the machine: write "unrestricted"`)
	}
}

// checkEgress refuses hosts that would have no effect: a setting must not be accepted and then
// ignored.
func (p ProcessRunner) checkEgress(k *checker) {
	if p.EgressEnforcementMode != EgressPreflight && p.EgressEnforcementMode != EgressUnrestricted {
		// An invalid mode is already reported; the other settings are checked against the default.
		p.EgressEnforcementMode = EgressStrict
	}
	for _, list := range []struct {
		key   string
		hosts []string
	}{
		{"process_runner.allowed_egress_hosts", p.AllowedEgressHosts},
		{"process_runner.allowed_dns_suffixes", p.AllowedDNSSuffixes},
		{"process_runner.denied_egress_hosts", p.DeniedEgressHosts},
	} {
		if len(list.hosts) > 0 && p.EgressEnforcementMode == EgressUnrestricted {
			k.find(list.key, "has no effect with egress_enforcement_mode \"unrestricted\", which checks nothing", "leave it out, or set the mode to \"strict\"")
		}
		k.hosts(list.key, list.hosts)
	}
	if p.EgressEnforcementMode == EgressStrict {
		k.ports("process_runner.allowed_egress_hosts", p.AllowedEgressHosts)
	}
	for _, suffix := range p.AllowedDNSSuffixes {
		if strings.ContainsAny(suffix, "*:/") {
			k.find("process_runner.allowed_dns_suffixes", "has "+quote(suffix), "use a domain such as example.org; it and every host below it are allowed")
		}
	}
	if p.EgressEnforcementMode != EgressStrict {
		p.checkUnseen(k)
	} else if len(p.Inspect) > 0 && len(p.AllowedEgressHosts)+len(p.AllowedDNSSuffixes) == 0 {
		k.find("process_runner.inspect", "has no effect without hosts that programs may reach", "name them in process_runner.allowed_egress_hosts")
	}
	p.EgressBudget.check(k)
	checkInspect(k, p.Inspect)
}

// checkUnseen finds settings about requests that have no effect: palyrad inspects requests only
// in mode strict.
func (p ProcessRunner) checkUnseen(k *checker) {
	var set []string
	for _, name := range []string{"connections", "concurrent", "bytes_out", "bytes_in", "requests", "connection_time_ms"} {
		if key := "process_runner.egress_budget." + name; k.origins[key].Source != SourceDefault {
			set = append(set, key)
		}
	}
	if len(p.Inspect) > 0 {
		set = append(set, "process_runner.inspect")
	}
	for _, key := range set {
		k.find(key, "has no effect with egress_enforcement_mode "+quote(p.EgressEnforcementMode)+", in which requests of programs are not inspected",
			"leave it out, or set the mode to \"strict\"")
	}
}

// mostPorts limits the ports on which a sandbox listens.
const mostPorts = 64

// ports finds rules without a port, and too many ports: a sandbox listens on each port of a
// rule.
func (k *checker) ports(key string, rules []string) {
	different := make(map[string]bool)
	for _, rule := range rules {
		switch {
		case rule == "" || isURL(rule):
			// already found by hosts
		case !hasPort(rule):
			k.find(key, "has "+quote(rule)+", which names no port", "write the port that programs may reach, such as "+withPort(rule))
		default:
			different[rule[strings.LastIndexByte(rule, ':'):]] = true
		}
	}
	if len(different) > mostPorts {
		k.find(key, fmt.Sprintf("has %d different ports", len(different)), fmt.Sprintf("use at most %d: a sandbox listens on each", mostPorts))
	}
}

var portForm = lazyregexp.New(`^(\[[^\]]*\]|[^:\[\]]*):[0-9]+$`)

// hasPort reports whether a host rule ends in a port. An IPv6 address with a port is in
// brackets.
func hasPort(rule string) bool { return portForm.MatchString(rule) }

// wrongPort reports whether a host rule ends in an invalid port.
func wrongPort(rule string) bool {
	port, err := strconv.Atoi(rule[strings.LastIndexByte(rule, ':')+1:])
	return hasPort(rule) && (err != nil || port < 1 || port > 65535)
}

// isURL reports whether a host rule has the parts of a URL: a scheme, a user or a path. The
// slash of an address range is not part of a path.
func isURL(rule string) bool {
	if at := strings.LastIndexByte(rule, ':'); at > 0 && hasPort(rule) {
		rule = rule[:at]
	}
	_, err := netip.ParsePrefix(strings.Trim(rule, "[]"))
	return err != nil && strings.ContainsAny(rule, "/?#@")
}

// hostOf returns the intended host rule for a URL or a part of one.
func hostOf(url string) string {
	scheme, rest, ok := strings.Cut(url, "://")
	if !ok {
		scheme, rest = "", url
	}
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	host := rest[strings.LastIndexByte(rest, '@')+1:]
	switch {
	case host == "":
		return "a host and a port, such as example.org:443"
	case hasPort(host):
		return host
	case scheme == "http":
		return strings.TrimSuffix(withPort(host), ":443") + ":80"
	}
	return withPort(host)
}

func withPort(rule string) string {
	if strings.Count(rule, ":") > 1 && !strings.HasPrefix(rule, "[") {
		rule = "[" + rule + "]"
	}
	return strings.TrimSuffix(rule, ":") + ":443"
}

func (b EgressBudget) check(k *checker) {
	const key = "process_runner.egress_budget."
	between(k, key+"connections", b.Connections, 1, 1_000_000)
	between(k, key+"concurrent", b.Concurrent, 1, 4096)
	between(k, key+"bytes_out", b.BytesOut, kib, 1024*gib)
	between(k, key+"bytes_in", b.BytesIn, kib, 1024*gib)
	between(k, key+"requests", b.Requests, 1, 1_000_000_000)
	between(k, key+"connection_time_ms", b.ConnectionTimeMS, 1000, dayMS)
}

var methodForm = lazyregexp.New(`^[A-Z][A-Z-]{0,31}$`)

func checkInspect(k *checker, list []Inspect) {
	seen := make(map[string]bool)
	for i, one := range list {
		each := fmt.Sprintf("process_runner.inspect[%d]", i)
		k.hosts(each+".host", []string{one.Host})
		k.ports(each+".host", []string{one.Host})
		host := strings.ToLower(one.Host)
		if seen[host] {
			k.find(each+".host", "is "+quote(one.Host)+" for the second time", "put its methods and paths into one table")
		}
		seen[host] = true
		for _, method := range one.Methods {
			if !methodForm.MatchString(method) {
				k.find(each+".methods", "has "+quote(method), "write methods in upper case, such as GET")
			}
		}
		for _, pattern := range one.Paths {
			if !pathPattern(pattern) {
				k.find(each+".paths", "has "+quote(pattern), "use a pattern from the root, such as /repos/*/issues or /simple/**")
			}
		}
	}
}

func pathPattern(pattern string) bool {
	body, _ := strings.CutSuffix(pattern, "/**")
	_, err := path.Match(body, "/")
	return err == nil && strings.HasPrefix(pattern, "/") && !strings.Contains(body, "**")
}
