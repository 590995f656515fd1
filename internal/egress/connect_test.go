package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/egress/egresstest"
)

// TestConnectIsPlainTCP: Connect returns the plain TCP connection, because relays let the
// kernel copy between connections.
func TestConnectIsPlainTCP(t *testing.T) {
	t.Parallel()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	address := listener.Addr().String()
	l := NewConnectionLog(time.Now())
	// The dialer has no list of own addresses, so it uses the real one, which contains the
	// loopback address.
	d := &Dialer{Rules: Rules{Allow: mustRules(t, address)}}
	e := l.Begin(LegTransparent, target(t, address))
	conn := must.Get(d.Connect(t.Context(), target(t, address), e))(t)
	defer conn.Close()
	if _, ok := conn.(*net.TCPConn); !ok {
		t.Errorf("it is a %T", conn)
	}
	e.Sent(7)
	e.End()
	list, _ := l.List()
	if c := list[0]; len(list) != 1 || c.Verdict != VerdictAllowed || c.Address != "127.0.0.1" || c.Rule != address || c.Leg != LegTransparent || c.BytesOut != 7 {
		t.Errorf("record %+v", list)
	}
}

// TestConnectRefusals: the record of a refusal names the check that refused.
func TestConnectRefusals(t *testing.T) {
	t.Parallel()
	n := &nameServer{answers: map[string][][]string{"a.test": {{"11.0.0.1"}}, "ten.test": {{"10.0.0.1"}}, "bad.test": {{"11.6.6.6"}}}}
	rules := Rules{Allow: mustRules(t, "*.test:80", "bad.test:22", "169.254.169.254:80"), Deny: mustRules(t, "no.test", "11.6.0.0/16")}
	for text, want := range map[string][3]string{
		"a.test:80": {VerdictAllowed, "", "*.test:80"}, "a.test:22": {VerdictDenied, ReasonUnlisted, ""}, "other.example:80": {VerdictDenied, ReasonUnlisted, ""},
		"no.test:80": {VerdictDenied, ReasonDeniedRule, "no.test"}, "bad.test:22": {VerdictDenied, ReasonDeniedRule, "11.6.0.0/16"},
		"ten.test:80": {VerdictDenied, ReasonAddressNotPublic, ""}, "169.254.169.254:80": {VerdictDenied, ReasonAddressNotPublic, ""},
		"11.6.1.1:80": {VerdictDenied, ReasonDeniedRule, "11.6.0.0/16"}, "gone.test:80": {VerdictFailed, ReasonUnresolved, "*.test:80"},
	} {
		t.Run(text, func(t *testing.T) {
			l := &line{}
			d := testDialer(t, n, l)
			d.Rules = rules
			conn, err := d.Connect(t.Context(), target(t, text), d.Log.Begin(LegSOCKS, target(t, text)))
			if err == nil {
				conn.Close()
			}
			c := observed(d)[0]
			if got := [3]string{c.Verdict, c.Reason, c.Rule}; got != want || len(observed(d)) != 1 {
				t.Errorf("got %v, want %v", got, want)
			}
			if allowed := want[0] == VerdictAllowed; allowed != (err == nil) || allowed != (len(l.dialled) == 1) {
				t.Errorf("%v, dialled %v", err, l.dialled)
			}
		})
	}
}

// swallow is a dial function without an answer from some addresses and with a refusal from
// others.
type swallow struct {
	line
	silent, refused []string
}

func (s *swallow) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, _ := net.SplitHostPort(address)
	switch {
	case slices.Contains(s.silent, host):
		s.dialled = append(s.dialled, address)
		<-ctx.Done()
		return nil, ctx.Err()
	case slices.Contains(s.refused, host):
		s.dialled = append(s.dialled, address)
		return nil, errors.New("refused")
	}
	return s.line.dial(ctx, network, address)
}

// TestAddressesInTurn: an address that never answers delays the others only briefly, and only
// once.
func TestAddressesInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &swallow{silent: []string{"2606:4700::1"}, refused: []string{"2606:4700::2"}}
		n := &nameServer{answers: map[string][][]string{"a.test": {{"2606:4700::1", "2606:4700::2", "11.0.0.1"}}}}
		d := testDialer(t, n, &s.line)
		d.Dial = s.dial
		start := time.Now()
		connect := func() {
			conn := must.Get(d.DialContext(t.Context(), "tcp", "a.test:80"))(t)
			conn.Close()
		}
		connect()
		if took := time.Since(start); took != connectFirst {
			t.Errorf("it took %v", took)
		}
		connect()
		connect()
		if took := time.Since(start); took != connectFirst {
			t.Errorf("with the next it took %v", took)
		}
		want := []string{"[2606:4700::1]:80", "[2606:4700::2]:80", "11.0.0.1:80", "11.0.0.1:80", "11.0.0.1:80"}
		if !slices.Equal(s.dialled, want) {
			t.Errorf("dialled %v", s.dialled)
		}
		var words []string
		for _, c := range observed(d) {
			words = append(words, c.Address+" "+c.Verdict+" "+c.Reason)
		}
		if want := []string{"11.0.0.1 allowed ", "2606:4700::1 failed unreachable", "2606:4700::2 failed unreachable", "11.0.0.1 allowed ", "11.0.0.1 allowed "}; !slices.Equal(words, want) {
			t.Errorf("record %q", words)
		}
		// An address that failed once is tried last, but is not given up.
		s.silent, s.refused, s.dialled = nil, []string{"11.0.0.1"}, nil
		connect()
		if want := []string{"11.0.0.1:80", "[2606:4700::1]:80"}; !slices.Equal(s.dialled, want) {
			t.Errorf("then dialled %v", s.dialled)
		}
	})
}

// TestUnreachable: a single address has a longer timeout than one of several, and all together
// have a limit.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	many := make([]string, maxAddresses)
	for i := range many {
		many[i] = fmt.Sprintf("11.0.0.%d", i+1)
	}
	for name, test := range map[string]struct {
		answers []string
		took    time.Duration
		tried   int
	}{
		"one":  {many[:1], connectTime, 1},
		"two":  {many[:2], connectFirst + connectTime, 2},
		"many": {many, connectAll, 7},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &swallow{silent: many}
				d := testDialer(t, &nameServer{answers: map[string][][]string{"a.test": {test.answers}}}, &s.line)
				d.Dial = s.dial
				start := time.Now()
				_, err := d.DialContext(t.Context(), "tcp", "a.test:80")
				if took := time.Since(start); reason.Of(err) != reason.FetchFailed || took != test.took || len(s.dialled) != test.tried {
					t.Errorf("%v after %v, dialled %v", err, took, s.dialled)
				}
				list := observed(d)
				if c := list[0]; len(list) != test.tried || c.Verdict != VerdictFailed || c.Reason != ReasonUnreachable || c.Duration != test.took {
					t.Errorf("%d in the record, first %+v", len(list), c)
				}
			})
		})
	}
}

// TestClosingEndsTheEntry: closing a connection ends its record, for clients such as net/http.
func TestClosingEndsTheEntry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := testDialer(t, &nameServer{answers: map[string][][]string{"a.test": {{"11.0.0.1"}}}}, new(line))
		time.Sleep(time.Second)
		conn := must.Get(d.DialContext(t.Context(), "tcp", "a.test:80"))(t)
		time.Sleep(time.Second)
		conn.Close()
		time.Sleep(time.Second)
		if c := observed(d)[0]; c.Started != time.Second || c.Duration != time.Second || c.Leg != LegTool {
			t.Errorf("record %+v", c)
		}
	})
}

// ownConn is a connection with the same address on both ends.
type ownConn struct {
	net.Conn
	local  string
	closed *bool
}

func (c ownConn) LocalAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(c.local), 5))
}

func (c ownConn) Close() error { *c.closed = true; return c.Conn.Close() }

// TestConnectionToOneself: an address of the machine that is on no interface is detected when
// it is connected to.
func TestConnectionToOneself(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		local, rule string
		ok          bool
	}{
		"another machine":        {"192.168.1.2", "a.test:80", true},
		"this machine":           {"11.0.0.1", "a.test:80", false},
		"this machine, mapped":   {"::ffff:11.0.0.1", "a.test:80", false},
		"this machine, unlocked": {"11.0.0.1", "11.0.0.1:80", true},
	} {
		t.Run(name, func(t *testing.T) {
			closed := false
			d := testDialer(t, &nameServer{answers: map[string][][]string{"a.test": {{"11.0.0.1"}}}}, nil)
			d.Rules.Allow = append(mustRules(t, test.rule), d.Rules.Allow...)
			d.Dial = func(context.Context, string, string) (net.Conn, error) {
				here, there := net.Pipe()
				there.Close()
				return ownConn{here, test.local, &closed}, nil
			}
			conn, err := d.DialContext(t.Context(), "tcp", "a.test:80")
			if (err == nil) != test.ok || closed == test.ok {
				t.Errorf("%v, closed %t", err, closed)
			}
			if c := observed(d)[0]; !test.ok && (reason.Of(err) != reason.EgressDenied || c.Verdict != VerdictDenied || c.Reason != ReasonAddressNotPublic) {
				t.Errorf("%v, record %+v", err, c)
			}
			if err == nil {
				conn.Close()
			}
		})
	}
}

// TestOwnAddressesAreReadForAMoment: one listing of the interfaces serves the connections of
// the same moment, and the next one contains a new address.
func TestOwnAddressesAreReadForAMoment(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var own []netip.Addr
		listed := 0
		d := testDialer(t, &nameServer{answers: map[string][][]string{"a.test": {{"11.0.0.1"}}}}, new(line))
		d.Interfaces = func() ([]netip.Addr, error) { listed++; return own, nil }
		connect := func() error {
			conn, err := d.DialContext(t.Context(), "tcp", "a.test:80")
			if err == nil {
				conn.Close()
			}
			return err
		}
		for range 20 {
			must.Do(t, connect())
		}
		own = []netip.Addr{netip.MustParseAddr("11.0.0.1")}
		time.Sleep(ownFor)
		if err := connect(); reason.Of(err) != reason.EgressDenied || listed != 2 {
			t.Errorf("%v, listed %d times", err, listed)
		}
	})
}

// TestConnectAtOneTime: 50 concurrent connections of one Dialer to a real server each have
// their own entry.
func TestConnectAtOneTime(t *testing.T) {
	t.Parallel()
	const connections, bytes = 50, 1000
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	var serving sync.WaitGroup
	defer serving.Wait()
	defer listener.Close()
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			})
		}
	})
	port := listener.Addr().(*net.TCPAddr).Port
	zone := egresstest.NewZone(map[string][]string{"here.test": {"127.0.0.1"}})
	resolver := egresstest.NewNameServer(t, zone.Answer).Resolver()
	d := &Dialer{Rules: Rules{Allow: mustRules(t, fmt.Sprintf("here.test:%d", port), fmt.Sprintf("127.0.0.1:%d", port))}, Log: NewConnectionLog(time.Now()), Resolver: resolver}
	var all sync.WaitGroup
	for i := range connections {
		all.Go(func() {
			conn, err := d.DialContext(t.Context(), "tcp", fmt.Sprintf("HERE.test.:%d", port))
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			if _, err := conn.Write(make([]byte, bytes+i)); err != nil {
				t.Error(err)
			}
			if _, err := io.ReadFull(conn, make([]byte, bytes+i)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	list, missed := d.Log.List()
	seen := map[int64]bool{}
	for _, c := range list {
		if c.BytesIn != c.BytesOut || c.Address != "127.0.0.1" || c.Verdict != VerdictAllowed || c.Host != "here.test" {
			t.Errorf("record %+v", c)
		}
		seen[c.BytesOut] = true
	}
	if len(list) != connections || len(seen) != connections || missed != 0 {
		t.Errorf("%d entries, %d different, %d missed", len(list), len(seen), missed)
	}
	if again := zone.Repeated(); again != nil {
		t.Errorf("asked again: %q", again)
	}
}
