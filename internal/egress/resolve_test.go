package egress

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/egress/egresstest"
)

// TestAnswersOfANameServer: whatever a name server answers for an allowed name, only public
// addresses are dialled, and the record has the result.
func TestAnswersOfANameServer(t *testing.T) {
	t.Parallel()
	huge := strings.Builder{}
	for i := range 400 {
		fmt.Fprintf(&huge, "10.0.%d.%d ", i/250, i%250+1)
	}
	zone := egresstest.NewZone(map[string][]string{
		"good.test": {"11.0.0.1"}, "loopback.test": {"127.0.0.1"}, "metadata.test": {"169.254.169.254"}, "loopback6.test": {"::1"}, "mapped.test": {"::ffff:10.0.0.1"},
		"own.test": {"11.9.9.9"}, "nat64own.test": {"64:ff9b::b09:909"}, "mixed.test": {"10.0.0.1 11.0.0.2 127.0.0.1 ::1 2606:4700::1"},
		"huge.test": {huge.String()}, "hugegood.test": {"11.0.0.3 " + huge.String()}, "empty.test": {""},
		"alias.test": {"cname:good.test 11.0.0.1"}, "badalias.test": {"cname:localhost 127.0.0.1"},
		"deniedalias.test": {"cname:denied.test 11.5.5.5"}, "deniedaddress.test": {"cname:x.test 11.6.6.6"}, "denied.test": {"11.5.5.5"},
	})
	resolver := egresstest.NewNameServer(t, zone.Answer).Resolver()
	allowed, denied, failed := VerdictAllowed, VerdictDenied, VerdictFailed
	for name, test := range map[string]struct {
		verdict, reason, address string
		dialled                  []string
	}{
		"good.test":      {allowed, "", "11.0.0.1", []string{"11.0.0.1:80"}},
		"loopback.test":  {denied, ReasonAddressNotPublic, "127.0.0.1", nil},
		"metadata.test":  {denied, ReasonAddressNotPublic, "169.254.169.254", nil},
		"loopback6.test": {denied, ReasonAddressNotPublic, "::1", nil},
		"mapped.test":    {denied, ReasonAddressNotPublic, "10.0.0.1", nil},
		"own.test":       {denied, ReasonAddressNotPublic, "11.9.9.9", nil},
		"nat64own.test":  {denied, ReasonAddressNotPublic, "64:ff9b::b09:909", nil},
		"huge.test":      {denied, ReasonAddressNotPublic, "", nil},
		"empty.test":     {failed, ReasonUnresolved, "", nil},
		"none.test":      {failed, ReasonUnresolved, "", nil},
		"alias.test":     {allowed, "", "11.0.0.1", []string{"11.0.0.1:80"}},
		"badalias.test":  {denied, ReasonAddressNotPublic, "127.0.0.1", nil},
		// An alias is an answer of the name server, not a host that the program requested. A denial
		// is by the requested name or by the address.
		"deniedalias.test":   {allowed, "", "11.5.5.5", []string{"11.5.5.5:80"}},
		"deniedaddress.test": {denied, ReasonDeniedRule, "11.6.6.6", nil},
		"denied.test":        {denied, ReasonDeniedRule, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			l := &line{}
			d := &Dialer{
				Rules: Rules{Allow: mustRules(t, "*.test:80"), Deny: mustRules(t, "denied.test", "11.6.0.0/16")}, Log: NewConnectionLog(time.Now()), Resolver: resolver,
				Dial: l.dial, Interfaces: func() ([]netip.Addr, error) { return []netip.Addr{netip.MustParseAddr("11.9.9.9")}, nil },
			}
			e := d.Log.Begin(LegConnect, target(t, name+":80"))
			conn, err := d.Connect(t.Context(), target(t, name+":80"), e)
			if err == nil {
				conn.Close()
			}
			if !slices.Equal(l.dialled, test.dialled) || (err == nil) != (test.dialled != nil) {
				t.Errorf("dialled %v, %v", l.dialled, err)
			}
			c := observed(d)[0]
			if c.Verdict != test.verdict || c.Reason != test.reason || test.address != "" && c.Address != test.address || c.Leg != LegConnect {
				t.Errorf("record %+v", c)
			}
			if rule := map[string]string{allowed: "*.test:80", failed: "*.test:80"}[test.verdict]; rule != "" && c.Rule != rule {
				t.Errorf("rule %q, want %q", c.Rule, rule)
			}
		})
	}
	t.Run("mixed.test", func(t *testing.T) { mixedAnswers(t, resolver) })
	t.Run("hugegood.test", func(t *testing.T) {
		d := testDialer(t, resolver, new(line))
		found, err := d.resolve(t.Context(), Host{name: "hugegood.test"})
		if err != nil || len(found) > maxAddresses {
			t.Errorf("%d addresses, %v", len(found), err)
		}
	})
}

// testDialer returns a dialer that allows *.test:80.
func testDialer(t *testing.T, r Resolver, l *line) *Dialer {
	return &Dialer{
		Rules: Rules{Allow: mustRules(t, "*.test:80")}, Log: NewConnectionLog(time.Now()), Resolver: r, Dial: l.dial,
		Interfaces: func() ([]netip.Addr, error) { return nil, nil },
	}
}

// mixedAnswers: the valid addresses are dialled, and each invalid one is recorded once, however
// often the host is dialled.
func mixedAnswers(t *testing.T, r Resolver) {
	l := &line{}
	d := testDialer(t, r, l)
	for range 3 {
		conn := must.Get(d.DialContext(t.Context(), "tcp", "mixed.test:80"))(t)
		conn.Close()
	}
	for _, a := range l.dialled {
		if a != "11.0.0.2:80" && a != "[2606:4700::1]:80" {
			t.Errorf("dialled %s", a)
		}
	}
	var refused []string
	for _, c := range observed(d) {
		if c.Verdict == VerdictDenied {
			refused = append(refused, c.Address)
		}
	}
	slices.Sort(refused)
	if !slices.Equal(refused, []string{"10.0.0.1", "127.0.0.1", "::1"}) || len(observed(d)) != 6 {
		t.Errorf("refused %v of %+v", refused, observed(d))
	}
}

// TestNameIsResolvedOncePerCall: a call resolves a name once, even if the name server changes its
// answer. The next call checks the new answer.
func TestNameIsResolvedOncePerCall(t *testing.T) {
	t.Parallel()
	zone := egresstest.NewZone(map[string][]string{"rebind.test": {"11.0.0.1", "127.0.0.1"}, "widen.test": {"127.0.0.1", "11.0.0.1"}})
	resolver := egresstest.NewNameServer(t, zone.Answer).Resolver()
	connect := func(d *Dialer, to string) error {
		conn, err := d.DialContext(t.Context(), "tcp", to)
		if err == nil {
			conn.Close()
		}
		return err
	}
	l := &line{}
	d := testDialer(t, resolver, l)
	for range 3 {
		must.Do(t, connect(d, "rebind.test:80"))
		if err := connect(d, "widen.test:80"); reason.Of(err) != reason.EgressDenied {
			t.Fatalf("a later answer added an address: %v", err)
		}
	}
	if again := zone.Repeated(); again != nil {
		t.Errorf("asked again: %q", again)
	}
	if slices.ContainsFunc(l.dialled, func(a string) bool { return a != "11.0.0.1:80" }) {
		t.Errorf("dialled %v", l.dialled)
	}
	// Control: a separate call gets the second answers.
	d = testDialer(t, resolver, l)
	if err := connect(d, "rebind.test:80"); reason.Of(err) != reason.EgressDenied {
		t.Errorf("rebound: %v", err)
	}
	if err := connect(d, "widen.test:80"); err != nil {
		t.Errorf("second answer: %v", err)
	}
}

func TestSlowNameServer(t *testing.T) {
	t.Parallel()
	silent := egresstest.NewNameServer(t, func([]byte) []byte { return nil })
	d := testDialer(t, silent.Resolver(), new(line))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := d.DialContext(ctx, "tcp", "slow.test:80"); reason.Of(err) != reason.FetchFailed {
		t.Errorf("got %v", err)
	}
	if c := observed(d)[0]; c.Verdict != VerdictFailed || c.Reason != ReasonUnresolved {
		t.Errorf("record %+v", c)
	}
}

// slowResolver is a resolver that answers when the test permits it.
type slowResolver struct {
	answer chan []netip.Addr // nil is a failure

	mu    sync.Mutex
	asked int
}

func (g *slowResolver) LookupNetIP(ctx context.Context, _, host string) ([]netip.Addr, error) {
	g.mu.Lock()
	g.asked++
	g.mu.Unlock()
	select {
	case addrs := <-g.answer:
		if addrs == nil {
			return nil, errors.New("no luck")
		}
		return addrs, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func TestOneLookupAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &slowResolver{answer: make(chan []netip.Addr)}
		d := testDialer(t, g, new(line))
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				addrs, err := d.resolve(t.Context(), Host{name: "a.test"})
				if err != nil || !slices.Equal(addrs, []netip.Addr{netip.MustParseAddr("11.0.0.1")}) {
					t.Errorf("%v, %v", addrs, err)
				}
			})
		}
		synctest.Wait()
		// A second query would receive this answer; it stays unread.
		g.answer <- []netip.Addr{netip.MustParseAddr("11.0.0.1"), netip.MustParseAddr("::ffff:11.0.0.1")}
		all.Wait()
		if g.asked != 1 {
			t.Errorf("asked %d times", g.asked)
		}
	})
}

// TestLookupThatIsGivenUp: if the caller that started a lookup cancels, another waiting caller
// repeats the lookup and gets the answer.
func TestLookupThatIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &slowResolver{answer: make(chan []netip.Addr)}
		d := testDialer(t, g, new(line))
		first, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := d.resolve(first, Host{name: "a.test"}); reason.Of(err) != reason.FetchFailed {
				t.Errorf("given up: %v", err)
			}
		})
		synctest.Wait()
		for range 3 {
			all.Go(func() {
				if addrs, err := d.resolve(t.Context(), Host{name: "a.test"}); err != nil || len(addrs) != 1 {
					t.Errorf("%v, %v", addrs, err)
				}
			})
		}
		impatient, leave := context.WithCancel(t.Context())
		all.Go(func() {
			if _, err := d.resolve(impatient, Host{name: "a.test"}); reason.Of(err) != reason.FetchFailed {
				t.Errorf("waiting given up: %v", err)
			}
		})
		synctest.Wait()
		leave()
		synctest.Wait()
		cancel()
		synctest.Wait()
		g.answer <- []netip.Addr{netip.MustParseAddr("11.0.0.1")}
		all.Wait()
		if g.asked != 2 {
			t.Errorf("asked %d times", g.asked)
		}
	})
}

// TestFailedLookupIsRepeatedLater: a failed lookup is repeated after some time, and not at
// once.
func TestFailedLookupIsRepeatedLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &slowResolver{answer: make(chan []netip.Addr)}
		d := testDialer(t, g, new(line))
		resolve := func() error {
			_, err := d.resolve(t.Context(), Host{name: "a.test"})
			return err
		}
		start := time.Now()
		if err := resolve(); err == nil || time.Since(start) != lookupTime {
			t.Errorf("nobody answers: %v after %v", err, time.Since(start))
		}
		for range 10 {
			if err := resolve(); err == nil || time.Since(start) != lookupTime || g.asked != 1 {
				t.Fatalf("%v, asked %d times", err, g.asked)
			}
		}
		time.Sleep(lookupPause)
		go func() { g.answer <- []netip.Addr{netip.MustParseAddr("11.0.0.1")} }()
		if err := resolve(); err != nil || g.asked != 2 {
			t.Errorf("%v, asked %d times", err, g.asked)
		}
		time.Sleep(24 * time.Hour)
		if err := resolve(); err != nil || g.asked != 2 {
			t.Errorf("%v, asked %d times", err, g.asked)
		}
	})
}
