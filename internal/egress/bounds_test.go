package egress

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"palyra/internal/core/must"
)

// heap returns the size of the live heap.
func heap() int64 {
	for range 2 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Memory of one call does not grow with the number of its connections, names and addresses.
//
// Not parallel: it measures the heap of the process.
func TestMemoryIsBounded(t *testing.T) {
	const (
		events = 100_000
		bound  = 8 << 20
	)
	before := heap()
	log := NewConnectionLog(time.Now())
	rules := Rules{Allow: must.Get(ParseRules([]string{"*.test:7"}))(t)}
	d := &Dialer{
		Rules: rules, Log: log, Resolver: manyAddresses{}, Interfaces: func() ([]netip.Addr, error) { return nil, nil },
		Dial: func(context.Context, string, string) (net.Conn, error) { return nil, net.ErrClosed },
	}
	for i := range events {
		host := must.Get(CanonicalHost(fmt.Sprintf("name%d.with.a.long.suffix.that.costs.memory.test", i)))(t)
		for _, leg := range []string{LegName, LegTransparent} {
			e := log.Begin(leg, Target{host, 7})
			e.Decide(VerdictDenied, ReasonUnlisted, Rule{}, netip.Addr{})
			e.End()
		}
		if i%20 == 0 {
			_, _ = d.DialContext(t.Context(), "tcp", Target{host, 7}.String())
		}
	}
	if got := heap() - before; got > bound {
		t.Errorf("%d MiB are held, at most %d are allowed", got>>20, bound>>20)
	}
	list, missed := log.List()
	if len(list) > mostEntries+mostSums+16 || missed < 2*events-mostEntries {
		t.Errorf("%d entries, %d missed", len(list), missed)
	}
	if len(d.lookups) != maxLookups || len(d.last) > maxRemembered || len(d.dropped) > maxRemembered {
		t.Errorf("%d lookups, %d failed and %d dropped addresses", len(d.lookups), len(d.last), len(d.dropped))
	}
}

// manyAddresses answers every name with private and public addresses of its own.
type manyAddresses struct{}

func (manyAddresses) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	var i uint32
	_, _ = fmt.Sscanf(host, "name%d.", &i)
	return []netip.Addr{
		netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}),
		netip.AddrFrom4([4]byte{11, byte(i >> 16), byte(i >> 8), byte(i)}), netip.AddrFrom4([4]byte{12, byte(i >> 16), byte(i >> 8), byte(i)}),
	}, nil
}
