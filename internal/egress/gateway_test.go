package egress

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"testing"

	"palyra/internal/core/reason"
)

func listening(at ...string) *Gateway {
	g := &Gateway{}
	for _, s := range at {
		g.Listen(net.TCPAddrFromAddrPort(netip.MustParseAddrPort(s)))
	}
	return g
}

// TestGatewayIsNotReached: no rule permits the gateway's own listeners, by any name or form of
// address. Controls of each row: the same dialer without the gateway's addresses, and the same
// address with another port.
func TestGatewayIsNotReached(t *testing.T) {
	t.Parallel()
	open := []string{"127.0.0.0/8", "[::1]", "10.0.0.0/8", "11.9.9.9", "[::ffff:0:127.0.0.1]", "[64:ff9b::7f00:1]", "[64:ff9b::b09:909]", "*.test"}
	names := map[string][][]string{
		"rebound.test": {{"127.0.0.1"}}, "own.test": {{"11.9.9.9"}}, "lan.test": {{"10.1.2.3"}}, "loop6.test": {{"::1"}}, "loop8.test": {{"127.8.8.8"}},
		"mapped.test": {{"::ffff:127.0.0.1"}}, "nat64.test": {{"64:ff9b::b09:909"}},
	}
	for name, test := range map[string]struct {
		listens string
		reached []string
		free    []string
	}{
		"one address":  {"127.0.0.1:7443", []string{"127.0.0.1:7443", "rebound.test:7443", "mapped.test:7443", "[::ffff:127.0.0.1]:7443"}, []string{"loop8.test:7443", "lan.test:7443", "127.0.0.1:7444"}},
		"all of IPv4":  {"0.0.0.0:7443", []string{"127.0.0.1:7443", "loop8.test:7443", "own.test:7443", "nat64.test:7443", "11.9.9.9:7443"}, []string{"lan.test:7443", "own.test:80"}},
		"all of both":  {"[::]:7443", []string{"127.0.0.1:7443", "loop6.test:7443", "own.test:7443", "rebound.test:7443"}, []string{"lan.test:7443", "loop6.test:80"}},
		"an interface": {"11.9.9.9:7443", []string{"own.test:7443", "nat64.test:7443"}, []string{"127.0.0.1:7443", "own.test:80"}},
	} {
		t.Run(name, func(t *testing.T) {
			dial := func(g *Gateway, target string) (*Dialer, error) {
				d := newDialer(&line{}, &nameServer{answers: names})
				d.Interfaces = func() ([]netip.Addr, error) { return []netip.Addr{netip.MustParseAddr("11.9.9.9")}, nil }
				// The names resolve to addresses that individual rules unlock.
				d.Rules = Rules{Allow: mustRules(t, open...), Gateway: g}
				conn, err := d.DialContext(t.Context(), "tcp", target)
				if err == nil {
					conn.Close()
				}
				return d, err
			}
			for _, target := range test.reached {
				d, err := dial(listening(test.listens), target)
				o := observed(d)
				if reason.Of(err) != reason.EgressDenied || len(o) != 1 || o[0].Verdict != VerdictDenied || o[0].Reason != ReasonGateway {
					t.Errorf("%s: %v, record %+v", target, err, o)
				}
				if _, err := dial(nil, target); err != nil {
					t.Errorf("control: %s is refused without the rule: %v", target, err)
				}
			}
			for _, target := range test.free {
				if _, err := dial(listening(test.listens), target); err != nil {
					t.Errorf("control: %s is refused: %v", target, err)
				}
			}
		})
	}
}

// TestGatewayAtAddressOfNoInterface: a connection that reached a listener on the wildcard
// address, through an address on no interface, is closed.
func TestGatewayAtAddressOfNoInterface(t *testing.T) {
	t.Parallel()
	for _, known := range []bool{true, false} {
		closed := false
		d := newDialer(&line{}, &nameServer{})
		d.Rules = Rules{Allow: mustRules(t, "10.0.0.1")}
		if known {
			d.Rules.Gateway = listening("0.0.0.0:80")
		}
		d.Dial = func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			there.Close()
			return ownConn{here, "10.0.0.1", &closed}, nil
		}
		conn, err := d.DialContext(t.Context(), "tcp", "10.0.0.1:80")
		if err == nil {
			conn.Close()
		}
		if known && (reason.Of(err) != reason.EgressDenied || !closed || observed(d)[0].Reason != ReasonGateway) || !known && err != nil {
			t.Errorf("known %t: %v, closed %t", known, err, closed)
		}
	}
}

// TestGatewayBeforeDialling: a literal address is refused while a call is planned, and narrowed
// rules keep the refusal.
func TestGatewayBeforeDialling(t *testing.T) {
	t.Parallel()
	target := targetsOf(t, "127.0.0.1:7443")[0]
	rules := Rules{Allow: mustRules(t, "127.0.0.1:7443"), Gateway: listening("127.0.0.1:7443")}
	for _, r := range []Rules{rules, rules.Narrow([]Target{target}), (Reach{Rules: rules}).Narrow([]Target{target}).Rules} {
		if err := r.CheckAddress(target.Host, target.Port); reason.Of(err) != reason.EgressDenied {
			t.Errorf("%v", err)
		}
	}
	rules.Gateway = listening("127.0.0.1:1")
	if err := rules.CheckAddress(target.Host, target.Port); err != nil {
		t.Errorf("control: %v", err)
	}
}

// TestGatewayListens: a listener without a TCP address is ignored.
func TestGatewayListens(t *testing.T) {
	t.Parallel()
	g := &Gateway{}
	g.Listen(&net.UnixAddr{Name: "/run/x", Net: "unix"})
	g.Listen(&net.TCPAddr{Port: 9})
	if !slices.Equal(g.at, []netip.AddrPort{netip.MustParseAddrPort("[::]:9")}) {
		t.Errorf("%v", g.at)
	}
	if !g.Listens(netip.MustParseAddr("0.0.0.0"), 9, nil) || g.Listens(netip.MustParseAddr("8.8.8.8"), 9, nil) {
		t.Error("a listener on all addresses is at the wrong ones")
	}
}
