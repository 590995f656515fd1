package egress

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

func asReason(err error, target **reason.Error) bool { return errors.As(err, target) }

// nameServer is a resolver with fixed answers; each query gets the next one.
type nameServer struct {
	answers map[string][][]string
	asked   []string
}

func (n *nameServer) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	n.asked = append(n.asked, host)
	lists := n.answers[strings.TrimSuffix(host, ".")]
	if len(lists) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, Server: "192.168.7.1:53", IsNotFound: true}
	}
	if len(lists) > 1 {
		n.answers[strings.TrimSuffix(host, ".")] = lists[1:]
	}
	var out []netip.Addr
	for _, s := range lists[0] {
		out = append(out, netip.MustParseAddr(s))
	}
	return out, nil
}

// line is a dial function that only records the addresses.
type line struct{ dialled []string }

func (l *line) dial(_ context.Context, _, address string) (net.Conn, error) {
	l.dialled = append(l.dialled, address)
	here, there := net.Pipe()
	go func() {
		defer there.Close()
		_, _ = io.CopyN(there, there, 4)
	}()
	return here, nil
}

func mustRules(t *testing.T, list ...string) []Rule {
	t.Helper()
	return must.Get(ParseRules(list))(t)
}

func newDialer(l *line, n *nameServer) *Dialer {
	return &Dialer{
		OpenByDefault: true, Log: NewConnectionLog(time.Now()), Resolver: n, Dial: l.dial,
		Interfaces: func() ([]netip.Addr, error) { return []netip.Addr{netip.MustParseAddr("8.8.4.4")}, nil },
	}
}

func observed(d *Dialer) []tool.Connection {
	list, _ := d.Log.List()
	return list
}

func TestAddressesThatAreNotDialled(t *testing.T) {
	t.Parallel()
	answers := []string{
		"127.0.0.1", "127.8.8.8", "0.0.0.0", "0.1.2.3", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1",
		"169.254.169.254", "169.254.1.1", "100.100.100.200", "168.63.129.16", "192.0.0.192", "224.0.0.1", "239.1.1.1", "255.255.255.255",
		"240.0.0.1", "198.18.0.1", "192.0.2.1", "198.51.100.1", "203.0.113.1", "192.88.99.1", "8.8.4.4",
		"::", "::1", "fe80::1", "fec0::1", "ff02::1", "fc00::1", "fd00:ec2::254", "fdff::1", "2001:db8::1", "2001::1", "100::1", "4000::1",
		"::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "::10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b::a00:1", "64:ff9b:1::1",
		"2002:7f00:1::", "2002:a00:1::1", "2002:a9fe:a9fe::", "2600::5efe:a00:1", "2600::200:5efe:7f00:1",
	}
	for _, answer := range answers {
		t.Run(answer, func(t *testing.T) {
			l := &line{}
			d := newDialer(l, &nameServer{answers: map[string][][]string{"evil.example": {{answer}}}})
			_, err := d.DialContext(context.Background(), "tcp", "evil.example:80")
			if reason.Of(err) != reason.EgressDenied || len(l.dialled) != 0 {
				t.Fatalf("%v, dialled %v", err, l.dialled)
			}
			if o := observed(d); len(o) != 1 || o[0].Verdict != VerdictDenied || o[0].Host != "evil.example" {
				t.Errorf("record %+v", o)
			}
			// The same address as a literal is refused, too.
			if _, err := d.DialContext(context.Background(), "tcp", net.JoinHostPort(answer, "80")); err == nil {
				t.Error("the literal address is dialled")
			}
		})
	}
}

func TestPublicAddressesAreDialled(t *testing.T) {
	t.Parallel()
	// Control of the test above: the guard does not refuse everything.
	for _, answer := range []string{"1.1.1.1", "8.8.8.8", "2606:4700::1111", "64:ff9b::808:808", "2002:808:808::1", "172.32.0.1", "100.128.0.1"} {
		l := &line{}
		d := newDialer(l, &nameServer{answers: map[string][][]string{"good.example": {{answer}}}})
		conn, err := d.DialContext(context.Background(), "tcp", "good.example:443")
		if err != nil {
			t.Errorf("%s: %v", answer, err)
			continue
		}
		conn.Close()
		if want := net.JoinHostPort(answer, "443"); l.dialled[0] != want {
			t.Errorf("dialled %s, want %s", l.dialled[0], want)
		}
	}
}

func TestOnlySafeAnswersSurvive(t *testing.T) {
	t.Parallel()
	l := &line{}
	n := &nameServer{answers: map[string][][]string{"mixed.example": {{"127.0.0.1", "1.1.1.1", "10.0.0.1"}}}}
	d := newDialer(l, n)
	conn := must.Get(d.DialContext(context.Background(), "tcp", "mixed.example:80"))(t)
	conn.Close()
	if len(l.dialled) != 1 || l.dialled[0] != "1.1.1.1:80" {
		t.Errorf("dialled %v", l.dialled)
	}
	if len(observed(d)) != 3 {
		t.Errorf("record %+v", observed(d))
	}
	if n.asked[0] != "mixed.example." {
		t.Errorf("asked for %q: a search domain could be added", n.asked[0])
	}
}

func TestRebindingChangesNothing(t *testing.T) {
	t.Parallel()
	l := &line{}
	n := &nameServer{answers: map[string][][]string{"rebind.example": {{"1.1.1.1"}, {"127.0.0.1"}}}}
	d := newDialer(l, n)
	for range 3 {
		conn := must.Get(d.DialContext(context.Background(), "tcp", "rebind.example:80"))(t)
		conn.Close()
	}
	if len(n.asked) != 1 {
		t.Errorf("asked %d times in one call", len(n.asked))
	}
	for _, a := range l.dialled {
		if a != "1.1.1.1:80" {
			t.Errorf("dialled %s", a)
		}
	}
	// Control: the second answer reaches a separate call, and is refused there.
	next := newDialer(l, n)
	if _, err := next.DialContext(context.Background(), "tcp", "rebind.example:80"); reason.Of(err) != reason.EgressDenied {
		t.Errorf("second answer: %v", err)
	}
}

func TestUnlocking(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		allow   []string
		address string
		ok      bool
	}{
		{"literal loopback with port", []string{"127.0.0.1:8080"}, "127.0.0.1:8080", true},
		{"other port", []string{"127.0.0.1:8080"}, "127.0.0.1:8081", false},
		{"private prefix", []string{"10.0.0.0/8"}, "10.1.2.3:80", true},
		{"smaller private prefix", []string{"10.1.0.0/16"}, "10.1.2.3:80", true},
		{"everything does not name private", []string{"0.0.0.0/0"}, "10.1.2.3:80", false},
		{"everything does not name loopback", []string{"0.0.0.0/0"}, "127.0.0.1:80", false},
		{"everything names public", []string{"0.0.0.0/0"}, "1.1.1.1:80", true},
		{"wider than the block", []string{"8.0.0.0/6"}, "10.1.2.3:80", false},
		{"IPv6 loopback", []string{"[::1]:8080"}, "[::1]:8080", true},
		{"mapped loopback is loopback", []string{"127.0.0.1"}, "[::ffff:127.0.0.1]:80", true},
		{"metadata never", []string{"169.254.169.254"}, "169.254.169.254:80", false},
		{"metadata in private prefix never", []string{"100.64.0.0/10"}, "100.100.100.200:80", false},
		{"link-local never", []string{"169.254.0.0/16"}, "169.254.1.1:80", false},
		{"unspecified never", []string{"0.0.0.0"}, "0.0.0.0:80", false},
		{"multicast never", []string{"224.0.0.1"}, "224.0.0.1:80", false},
		{"own interface", []string{"8.8.4.4"}, "8.8.4.4:80", true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			l := &line{}
			d := newDialer(l, &nameServer{})
			d.Rules.Allow = mustRules(t, test.allow...)
			conn, err := d.DialContext(context.Background(), "tcp", test.address)
			if err == nil {
				conn.Close()
			}
			if (err == nil) != test.ok {
				t.Errorf("%s with %v: %v", test.address, test.allow, err)
			}
		})
	}
}

func TestAllowedNameDoesNotUnlockItsAddress(t *testing.T) {
	t.Parallel()
	l := &line{}
	d := newDialer(l, &nameServer{answers: map[string][][]string{"intranet.example": {{"10.0.0.5"}}}})
	d.Rules.Allow = mustRules(t, "intranet.example")
	if _, err := d.DialContext(context.Background(), "tcp", "intranet.example:80"); reason.Of(err) != reason.EgressDenied {
		t.Errorf("got %v", err)
	}
	d = newDialer(l, &nameServer{answers: map[string][][]string{"intranet.example": {{"10.0.0.5"}}}})
	d.Rules.Allow = mustRules(t, "intranet.example", "10.0.0.5")
	conn := must.Get(d.DialContext(context.Background(), "tcp", "intranet.example:80"))(t)
	conn.Close()
}

func TestRules(t *testing.T) {
	t.Parallel()
	rules := Rules{
		Allow: mustRules(t, "example.org", "*.example.net:443", "192.0.2.0/24", "[2001:db8::/32]:8443", "both.example"),
		Deny:  mustRules(t, "bad.example.net", "both.example", "192.0.2.9"),
	}
	tests := []struct {
		host string
		port uint16
		want Answer
	}{
		{"example.org", 80, Allowed}, {"www.example.org", 80, Unlisted}, {"notexample.org", 80, Unlisted}, {"example.org.evil.example", 80, Unlisted},
		{"a.example.net", 443, Allowed}, {"a.b.example.net", 443, Allowed}, {"a.example.net", 80, Unlisted},
		{"example.net", 443, Unlisted}, {"evilexample.net", 443, Unlisted}, {"bad.example.net", 443, Denied},
		{"both.example", 80, Denied}, {"192.0.2.1", 80, Allowed}, {"192.0.2.9", 80, Denied}, {"192.0.3.1", 80, Unlisted},
		{"2001:db8::5", 8443, Allowed}, {"2001:db8::5", 80, Unlisted},
	}
	for _, test := range tests {
		h := must.Get(CanonicalHost(test.host))(t)
		if got, rule := rules.Match(h, test.port); got != test.want {
			t.Errorf("%s:%d: got %v by %q, want %v", test.host, test.port, got, rule, test.want)
		}
	}
	if err := (Rules{}).Check(Host{name: "example.org"}, 80); err != nil {
		t.Errorf("zero rules are not open: %v", err)
	}
	if err := rules.Check(Host{name: "other.example"}, 80); reason.Of(err) != reason.EgressDenied {
		t.Errorf("an allowlist that is not empty is open: %v", err)
	}
}

func TestParseRuleRefuses(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"", "*", "*.", "*.*.example", "a.*.example", "*example.org", "*.1.2.3.4", "10.0.0.1/8", "10.0.0.0/33", "example.org:0", "example.org:99999",
		"example.org:http", "[::1", "[::1]80", "[example.org]:80", "https://example.org", "example.org/path", "::ffff:10.0.0.0/104", "user@example.org", "fe80::1%eth0",
	} {
		if r, err := ParseRule(s); err == nil {
			t.Errorf("%q is accepted as %+v", s, r)
		}
	}
}

func TestDialerRecordsBytesAndFailures(t *testing.T) {
	t.Parallel()
	l := &line{}
	d := newDialer(l, &nameServer{answers: map[string][][]string{"good.example": {{"1.1.1.1"}}}})
	conn, err := d.DialContext(context.Background(), "tcp", "good.example:80")
	must.Do(t, err)
	must.Get(conn.Write([]byte("ping")))(t)
	must.Get(io.ReadAll(conn))(t)
	conn.Close()
	if o := observed(d)[0]; o.BytesOut != 4 || o.BytesIn != 4 || o.Address != "1.1.1.1" || o.Port != 80 || o.Verdict != VerdictAllowed {
		t.Errorf("record %+v", o)
	}
	_, err = d.DialContext(context.Background(), "tcp", "none.example:80")
	if reason.Of(err) != reason.FetchFailed || strings.Contains(err.Error(), "192.168.7.1") {
		t.Errorf("lookup failure: %v", err)
	}
	d.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("refused") }
	if _, err := d.DialContext(context.Background(), "tcp", "good.example:80"); reason.Of(err) != reason.FetchFailed {
		t.Errorf("dial failure: %v", err)
	}
	d = newDialer(l, &nameServer{answers: map[string][][]string{"good.example": {{"1.1.1.1"}}}})
	d.Interfaces = func() ([]netip.Addr, error) { return nil, errors.New("no netlink") }
	if _, err := d.DialContext(context.Background(), "tcp", "good.example:80"); reason.Of(err) != reason.EgressDenied {
		t.Errorf("own addresses unknown: %v", err)
	}
	if _, err := d.DialContext(context.Background(), "udp", "good.example:80"); reason.Of(err) != reason.EgressDenied {
		t.Errorf("udp: %v", err)
	}
}

func TestZeroDialerReachesNothing(t *testing.T) {
	t.Parallel()
	var d Dialer
	if _, err := d.DialContext(context.Background(), "tcp", "1.1.1.1:80"); reason.Of(err) != reason.EgressDenied {
		t.Errorf("got %v", err)
	}
}

// TestPreflightJudgesAndDoesNotConnect: a preflight accepts and refuses the same names as a
// dial, without a connection.
func TestPreflightJudgesAndDoesNotConnect(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		address string
		want    reason.Code
	}{
		{"GOOD.example.:443", ""},
		{"good.example:80", reason.EgressDenied},
		{"inside.example:443", reason.EgressDenied},
		{"other.example:443", reason.EgressDenied},
		{"169.254.169.254:443", reason.EgressDenied},
		{"good.example", reason.HostInvalid},
		{"good.example@evil:443", reason.HostInvalid},
		{"gone.example:443", reason.FetchFailed},
	} {
		t.Run(test.address, func(t *testing.T) {
			l := &line{}
			d := newDialer(l, &nameServer{answers: map[string][][]string{"good.example": {{"1.1.1.1"}}, "inside.example": {{"10.0.0.1"}}}})
			d.OpenByDefault, d.Rules.Allow = false, mustRules(t, "good.example:443", "inside.example", "gone.example")
			if err := d.Preflight(t.Context(), test.address); reason.Of(err) != test.want {
				t.Errorf("%v, want %q", err, test.want)
			}
			if len(l.dialled) != 0 {
				t.Errorf("dialled %v", l.dialled)
			}
		})
	}
}
