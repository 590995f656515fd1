package egress

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"palyra/internal/tool"
)

func target(t testing.TB, s string) Target {
	t.Helper()
	parsed, err := ParseTarget(s)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func rule(t testing.TB, s string) Rule {
	t.Helper()
	r, err := ParseRule(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestLedgerIsExact: with 50 connections at one time every entry holds what
// happened on its own connection.
func TestLedgerIsExact(t *testing.T) {
	const connections, steps = 50, 40
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Hour)
		l := NewLedger(time.Now())
		allow := rule(t, "*.example.org:443")
		var all sync.WaitGroup
		for i := range connections {
			all.Go(func() {
				time.Sleep(time.Duration(i) * time.Second)
				e := l.Begin(LegTransparent, target(t, fmt.Sprintf("h%d.example.org:443", i)))
				e.Decide(VerdictAllowed, "", allow, netip.AddrFrom4([4]byte{11, 0, 0, byte(i)}))
				for range steps {
					e.Sent(int64(i))
					e.Received(2 * int64(i))
					e.Request()
					l.List()
				}
				time.Sleep(time.Minute)
				e.End()
				time.Sleep(time.Minute)
				e.End()
			})
		}
		all.Wait()
		list, missed := l.List()
		if len(list) != connections || missed != 0 {
			t.Fatalf("%d listed, %d missed", len(list), missed)
		}
		for i, got := range list {
			want := tool.Connection{
				Host: fmt.Sprintf("h%d.example.org", i), Port: 443, Address: fmt.Sprintf("11.0.0.%d", i), Verdict: VerdictAllowed,
				Leg: LegTransparent, Rule: "*.example.org:443", BytesOut: steps * int64(i), BytesIn: 2 * steps * int64(i), Requests: steps,
				Started: time.Duration(i) * time.Second, Duration: time.Minute,
			}
			if got != want {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		}
	})
}

// TestDecide: of several verdicts the worst stands, and the first reason of its
// kind.
func TestDecide(t *testing.T) {
	type step struct{ verdict, reason, rule, addr string }
	allowed := step{VerdictAllowed, "", "a.example:443", "11.0.0.1"}
	for name, test := range map[string]struct {
		steps []step
		want  step
	}{
		"nothing decided":     {nil, step{verdict: VerdictFailed}},
		"allowed":             {[]step{allowed}, allowed},
		"broken off":          {[]step{allowed, {verdict: VerdictAllowed, reason: ReasonBudgetTime}}, step{VerdictAllowed, ReasonBudgetTime, "a.example:443", "11.0.0.1"}},
		"broken off twice":    {[]step{allowed, {verdict: VerdictAllowed, reason: ReasonBudgetTime}, {verdict: VerdictAllowed, reason: ReasonSlow}}, step{VerdictAllowed, ReasonBudgetTime, "a.example:443", "11.0.0.1"}},
		"denied later":        {[]step{allowed, {verdict: VerdictDenied, reason: ReasonHostMismatch}}, step{VerdictDenied, ReasonHostMismatch, "a.example:443", "11.0.0.1"}},
		"denied after reason": {[]step{allowed, {verdict: VerdictAllowed, reason: ReasonBudgetTime}, {verdict: VerdictDenied, reason: ReasonPath}}, step{VerdictDenied, ReasonPath, "a.example:443", "11.0.0.1"}},
		"denied by its rule":  {[]step{allowed, {VerdictDenied, ReasonDeniedRule, "b.example", "11.0.0.2"}}, step{VerdictDenied, ReasonDeniedRule, "b.example", "11.0.0.2"}},
		"denied stays":        {[]step{{verdict: VerdictDenied, reason: ReasonUnlisted}, allowed}, step{verdict: VerdictDenied, reason: ReasonUnlisted}},
		"first denial":        {[]step{{verdict: VerdictDenied, reason: ReasonNoName}, {verdict: VerdictDenied, reason: ReasonSlow}}, step{verdict: VerdictDenied, reason: ReasonNoName}},
		"failed":              {[]step{{VerdictFailed, ReasonUnreachable, "a.example:443", "11.0.0.1"}}, step{VerdictFailed, ReasonUnreachable, "a.example:443", "11.0.0.1"}},
		"failed stays":        {[]step{{verdict: VerdictFailed, reason: ReasonUnresolved}, allowed}, step{verdict: VerdictFailed, reason: ReasonUnresolved}},
		"denied after failed": {[]step{{verdict: VerdictFailed, reason: ReasonUnresolved}, {verdict: VerdictDenied, reason: ReasonSlow}}, step{verdict: VerdictDenied, reason: ReasonSlow}},
	} {
		t.Run(name, func(t *testing.T) {
			l := NewLedger(time.Now())
			e := l.Begin(LegSOCKS, target(t, "a.example:443"))
			for _, s := range test.steps {
				var by Rule
				if s.rule != "" {
					by = rule(t, s.rule)
				}
				addr, _ := netip.ParseAddr(s.addr)
				e.Decide(s.verdict, s.reason, by, addr)
			}
			list, _ := l.List()
			if got := (step{list[0].Verdict, list[0].Reason, list[0].Rule, list[0].Address}); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestDurationOfWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLedger(time.Now())
		time.Sleep(2 * time.Second)
		l.Begin(LegConnect, target(t, "a.example:443"))
		time.Sleep(3 * time.Second)
		if list, _ := l.List(); list[0].Started != 2*time.Second || list[0].Duration != 3*time.Second {
			t.Errorf("%+v", list[0])
		}
	})
}

// TestLedgerIsBounded: neither kind of connection crowds the other out, in
// whichever order they come; what is not listed is counted, its bytes, too.
func TestLedgerIsBounded(t *testing.T) {
	const half = MaxEntries / 2
	for name, test := range map[string]struct {
		kinds           string // one letter for a block of half the room: a allowed, d denied
		allowed, denied int
	}{
		"as many as fit":       {"ad", half, half},
		"only allowed":         {"aaa", 2 * half, 0},
		"only denied":          {"ddd", 0, 2 * half},
		"denied at the end":    {"aaaad", half, half},
		"allowed at the end":   {"dddda", half, half},
		"many denied after":    {"aaddd", half, half},
		"many allowed after":   {"ddaaa", half, half},
		"half a room is kept":  {"adddd", half, half},
		"and the other is not": {"daaaa", half, half},
	} {
		t.Run(name, func(t *testing.T) {
			l := NewLedger(time.Now())
			port := uint16(0)
			for _, kind := range test.kinds {
				for range half {
					port++
					e := l.Begin(LegTransparent, Target{Host{name: "a.example"}, port})
					e.Sent(3)
					e.Received(5)
					if kind == 'd' {
						e.Decide(VerdictDenied, ReasonUnlisted, Rule{}, netip.Addr{})
					} else {
						e.Decide(VerdictAllowed, "", Rule{}, netip.Addr{})
					}
					e.End()
				}
			}
			list, missed := l.List()
			begun := len(test.kinds) * half
			count := map[string]int{}
			var out int64
			last := 0
			for _, c := range list {
				out += c.BytesOut
			}
			if missed > 0 {
				end := len(list) - 1
				if rest := list[end]; rest != (tool.Connection{Verdict: VerdictAllowed, BytesOut: 3 * int64(missed), BytesIn: 5 * int64(missed)}) {
					t.Errorf("rest %+v of %d missed", rest, missed)
				}
				list = list[:end]
			}
			for _, c := range list {
				count[c.Verdict]++
				if c.Port <= last {
					t.Fatalf("port %d after %d: not in order", c.Port, last)
				}
				last = c.Port
			}
			if count[VerdictAllowed] != test.allowed || count[VerdictDenied] != test.denied || missed != begun-len(list) {
				t.Errorf("%v listed, %d missed of %d", count, missed, begun)
			}
			if out != 3*int64(begun) {
				t.Errorf("%d bytes in all", out)
			}
		})
	}
}

// TestDeniedLateIsListed: a connection that came when the list was full is
// listed once it is denied, in its place.
func TestDeniedLateIsListed(t *testing.T) {
	l := NewLedger(time.Now())
	begin := func(port int) *Entry { return l.Begin(LegTransparent, Target{Host{name: "a.example"}, uint16(port)}) }
	ports := func() (list []int) {
		connections, missed := l.List()
		if len(connections) != MaxEntries || missed != 2 {
			t.Errorf("%d listed, %d missed", len(connections), missed)
		}
		for _, c := range connections[MaxEntries-3:] {
			list = append(list, c.Port)
		}
		return list
	}
	for i := range MaxEntries {
		begin(i + 1)
	}
	late, later := begin(MaxEntries+1), begin(MaxEntries+2)
	late.Decide(VerdictAllowed, "", Rule{}, netip.Addr{})
	if got := ports(); !slices.Equal(got, []int{MaxEntries - 2, MaxEntries - 1, MaxEntries}) {
		t.Errorf("the last are %v", got)
	}
	later.Decide(VerdictDenied, ReasonPath, Rule{}, netip.Addr{})
	late.Decide(VerdictDenied, ReasonPath, Rule{}, netip.Addr{})
	if got := ports(); !slices.Equal(got, []int{MaxEntries - 2, MaxEntries + 1, MaxEntries + 2}) {
		t.Errorf("the last are %v", got)
	}
}
