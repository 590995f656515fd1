package dns

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"palyra/internal/core/tool"
	"palyra/internal/egress"
)

// TestPool: a name keeps its addresses, no two names share one, and names beyond the limit are
// refused.
func TestPool(t *testing.T) {
	t.Parallel()
	s := newService(t, "*.example.org")
	seen := map[string]string{}
	for i := range mostNames {
		name := fmt.Sprintf("n%d.example.org", i)
		for _, kind := range []dnsmessage.Type{dnsmessage.TypeAAAA, dnsmessage.TypeA, dnsmessage.TypeA} {
			_, text, _ := strings.Cut(ask(t, s, query(t, name+".", kind)), " ")
			if other, ok := seen[text]; ok && other != name {
				t.Fatalf("%s and %s are both %s", name, other, text)
			}
			seen[text] = name
			if host, ok := s.Lookup(netip.MustParseAddr(text)); !ok || host.String() != name {
				t.Fatalf("%s is %s, which is %q", name, text, host)
			}
		}
	}
	if len(seen) != 2*mostNames {
		t.Errorf("%d addresses for %d names", len(seen), mostNames)
	}
	if got := ask(t, s, query(t, "one.more.example.org.", dnsmessage.TypeA)); got != "Refused" {
		t.Errorf("one too many: %s", got)
	}
	list, missed := s.log.List()
	sum := slices.IndexFunc(list, func(c tool.Connection) bool { return c.Count > 0 })
	if last := list[sum-1]; sum+missed != mostNames+1 || last.Reason != egress.ReasonBudgetNames || last.Host != "one.more.example.org" {
		t.Errorf("%d entries and %d more, the last %+v", len(list), missed, last)
	}
	if got := ask(t, s, query(t, "n7.example.org.", dnsmessage.TypeA)); got != "Success 198.18.0.8" {
		t.Errorf("an old name: %s", got)
	}
}

func TestReverseLookup(t *testing.T) {
	t.Parallel()
	s := newService(t, "*.example.org")
	ask(t, s, query(t, "a.example.org.", dnsmessage.TypeA))
	for text, want := range map[string]string{
		"198.18.0.1": "a.example.org", "::ffff:198.18.0.1": "a.example.org", "fd00::1": "a.example.org",
		"198.18.0.0": "", "198.18.0.2": "", "198.19.255.255": "", "198.20.0.1": "", "0.0.0.1": "", "::1": "", "fd00::": "", "fd00::2": "", "fd00::1:0:1": "", "fd00:1::1": "",
		"fd00::ffff:ffff": "", "1.1.1.1": "",
	} {
		if host, ok := s.Lookup(netip.MustParseAddr(text)); host.String() != want || ok != (want != "") {
			t.Errorf("%s is %q", text, host)
		}
	}
	if host, ok := s.Lookup(netip.Addr{}); ok {
		t.Errorf("no address is %q", host)
	}
}

// TestManyDeniedNames: each denied name is recorded, and the number of remembered names is
// limited.
func TestManyDeniedNames(t *testing.T) {
	t.Parallel()
	s := newService(t, "example.org")
	const count = mostNames + 10
	for i := range count {
		ask(t, s, query(t, fmt.Sprintf("data%d.evil.example.", i), dnsmessage.TypeA))
	}
	list, missed := s.log.List()
	listed := slices.DeleteFunc(list, func(c tool.Connection) bool { return c.Count > 0 })
	if len(listed)+missed != count || len(s.noted) != mostNames {
		t.Errorf("%d entries, %d missed, %d remembered", len(listed), missed, len(s.noted))
	}
}

// TestPoolsDiffer: every service has its own prefix and its own first address.
func TestPoolsDiffer(t *testing.T) {
	t.Parallel()
	begins, prefixes := map[uint32]bool{}, map[netip.Prefix]bool{}
	for range 20 {
		s := New(func(egress.Host) string { return "" }, egress.NewConnectionLog(time.Now()))
		p := s.pool.prefix6
		begins[s.pool.begin], prefixes[p] = true, true
		if p.Bits() != 96 || p != p.Masked() || p.Addr().As16()[0] != 0xfd || s.pool.begin > most4 {
			t.Errorf("%s, %d", p, s.pool.begin)
		}
		for _, kind := range []dnsmessage.Type{dnsmessage.TypeA, dnsmessage.TypeAAAA} {
			_, text, _ := strings.Cut(ask(t, s, query(t, "example.org.", kind)), " ")
			addr, err := netip.ParseAddr(text)
			if host, ok := s.Lookup(addr); err != nil || !ok || host.String() != "example.org" || !prefix4.Contains(addr) && !p.Contains(addr) {
				t.Errorf("%q is %s", text, host)
			}
		}
		for _, other := range []string{"fd00::1", "fd12:3456:789a:1::1"} {
			if host, ok := s.Lookup(netip.MustParseAddr(other)); ok {
				t.Errorf("%s is %s", other, host)
			}
		}
	}
	// Two of 20 start at the same address once in 700 runs, three once in millions.
	if len(begins) < 18 || len(prefixes) != 20 {
		t.Errorf("%d begins, %d prefixes of 20", len(begins), len(prefixes))
	}
}

// TestPoolWrapsAround: the first address follows the last one of 198.18.0.0/15.
func TestPoolWrapsAround(t *testing.T) {
	t.Parallel()
	s := newService(t, "*.example.org")
	s.pool.begin = most4 - 2
	for i, want := range []string{"198.19.255.254", "198.19.255.255", "198.18.0.0", "198.18.0.1"} {
		name := fmt.Sprintf("n%d.example.org", i)
		if got := ask(t, s, query(t, name+".", dnsmessage.TypeA)); got != "Success "+want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
		if host, ok := s.Lookup(netip.MustParseAddr(want)); !ok || host.String() != name {
			t.Errorf("%s is %s", want, host)
		}
	}
	for _, other := range []string{"198.19.255.253", "198.18.0.2"} {
		if host, ok := s.Lookup(netip.MustParseAddr(other)); ok {
			t.Errorf("%s is %s", other, host)
		}
	}
}
