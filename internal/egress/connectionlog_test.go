package egress

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/core/tool"
)

func target(t testing.TB, s string) Target {
	t.Helper()
	return must.Get(ParseTarget(s))(t)
}

func rule(t testing.TB, s string) Rule {
	t.Helper()
	return must.Get(ParseRule(s))(t)
}

// TestConnectionLogIsExact: with 50 concurrent connections, every entry describes exactly its
// own connection.
func TestConnectionLogIsExact(t *testing.T) {
	t.Parallel()
	const connections, steps = 50, 40
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Hour)
		l := NewConnectionLog(time.Now())
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

// TestDecide: of several verdicts, the worst is kept, with the first reason for it.
func TestDecide(t *testing.T) {
	t.Parallel()
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
			l := NewConnectionLog(time.Now())
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

func TestDurationOfOpenConnections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := NewConnectionLog(time.Now())
		time.Sleep(2 * time.Second)
		l.Begin(LegConnect, target(t, "a.example:443"))
		time.Sleep(3 * time.Second)
		if list, _ := l.List(); list[0].Started != 2*time.Second || list[0].Duration != 3*time.Second {
			t.Errorf("%+v", list[0])
		}
	})
}

// TestLogSince: connections that ended before a given time are omitted, and open ones are included.
func TestLogSince(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := NewConnectionLog(time.Now())
		l.Begin(LegConnect, target(t, "open.example:443"))
		l.Begin(LegConnect, target(t, "over.example:443")).End()
		time.Sleep(time.Second)
		moment := time.Now()
		time.Sleep(time.Second)
		l.Begin(LegConnect, target(t, "later.example:443")).End()
		var hosts []string
		list, _ := l.Since(moment)
		for _, c := range list {
			hosts = append(hosts, c.Host)
		}
		if all, _ := l.List(); !slices.Equal(hosts, []string{"open.example", "later.example"}) || len(all) != 3 {
			t.Errorf("since then there are %v, of %d", hosts, len(all))
		}
	})
}

// TestConnectionLogIsBounded: neither kind of connection displaces the other, in any order, and
// names do not displace connections. Connections that are not listed are summed up.
func TestConnectionLogIsBounded(t *testing.T) {
	t.Parallel()
	for _, room := range []struct {
		leg    string
		half   int
		target Target // of the sums
	}{
		{LegTransparent, (mostEntries - mostNames) / 2, Target{Host{name: "a.example"}, 80}},
		{LegName, mostNames / 2, Target{}},
	} {
		half := room.half
		for name, test := range map[string]struct {
			kinds           string // one letter per block of half the limit: a allowed, d denied
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
			t.Run(room.leg+" "+name, func(t *testing.T) {
				l := NewConnectionLog(time.Now())
				begun := map[string]int{}
				for _, letter := range test.kinds {
					verdict, why := VerdictAllowed, ""
					if letter == 'd' {
						verdict, why = VerdictDenied, ReasonUnlisted
					}
					for range half {
						e := l.Begin(room.leg, Target{Host{name: "a.example"}, 80})
						e.Sent(3)
						e.Decide(verdict, why, Rule{}, netip.Addr{})
						e.Received(5)
						e.End()
						begun[verdict]++
					}
				}
				list, missed := l.List()
				listed, last := map[string]int{}, time.Duration(-1)
				for _, c := range list {
					if c.Count > 0 {
						want := tool.Connection{
							Host: room.target.Host.String(), Port: int(room.target.Port), Leg: room.leg, Verdict: c.Verdict, Reason: c.Reason,
							Count: begun[c.Verdict] - listed[c.Verdict], BytesOut: 3 * int64(c.Count), BytesIn: 5 * int64(c.Count),
						}
						if c != want {
							t.Errorf("sum %+v, want %+v", c, want)
						}
						missed -= c.Count
						continue
					}
					listed[c.Verdict]++
					if c.Started < last {
						t.Fatalf("%s after %s: not in order", c.Started, last)
					}
					last = c.Started
				}
				if listed[VerdictAllowed] != test.allowed || listed[VerdictDenied] != test.denied || missed != 0 {
					t.Errorf("%v listed of %v, %d missed neither listed nor added up", listed, begun, missed)
				}
			})
		}
	}
}

// fill fills the list of connections to its limit.
func fill(l *ConnectionLog) {
	for i := range mostEntries - mostNames {
		e := l.Begin(LegTransparent, Target{Host{name: fmt.Sprintf("n%d.example", i)}, 443})
		e.Decide(VerdictAllowed, "", Rule{}, netip.Addr{})
		e.End()
	}
}

// TestManyNamesDoNotEvictOthers: a program that queries many names, which costs nothing, cannot
// hide its connections.
func TestManyNamesDoNotEvictOthers(t *testing.T) {
	t.Parallel()
	l := NewConnectionLog(time.Now())
	for i := range 2 * mostEntries {
		e := l.Begin(LegName, Target{Host: Host{name: fmt.Sprintf("n%d.example", i)}})
		e.Decide(VerdictAllowed, "", Rule{}, netip.Addr{})
		e.End()
	}
	e := l.Begin(LegTransparent, target(t, "paste.test:443"))
	e.Decide(VerdictAllowed, "", rule(t, "*.test:443"), netip.Addr{})
	e.Sent(50 << 20)
	e.End()
	list, missed := l.List()
	if got := list[mostNames]; got.Host != "paste.test" || got.BytesOut != 50<<20 || got.Rule == "" {
		t.Errorf("%+v", got)
	}
	want := tool.Connection{Leg: LegName, Verdict: VerdictAllowed, Count: 2*mostEntries - mostNames}
	if got := list[mostNames+1:]; !slices.Equal(got, []tool.Connection{want}) || missed != want.Count {
		t.Errorf("%+v, %d missed", got, missed)
	}
}

// TestMostBytesAreNamed: if there are more targets than sums, the targets with the most bytes
// are named, in any order of arrival. No byte and no connection is lost.
func TestMostBytesAreNamed(t *testing.T) {
	t.Parallel()
	const many = 3 * mostSums
	for name, sent := range map[string]func(i int) int64{
		"more and more": func(i int) int64 { return int64(i) },
		"less and less": func(i int) int64 { return int64(many - i) },
		"nothing":       func(int) int64 { return 0 },
	} {
		t.Run(name, func(t *testing.T) {
			l := NewConnectionLog(time.Now())
			fill(l)
			var all int64
			for i := range many {
				for _, part := range []int64{1000 * sent(i), sent(i)} {
					e := l.Begin(LegConnect, Target{Host{name: fmt.Sprintf("x%d.example", i)}, 443})
					e.Decide(VerdictAllowed, "", Rule{}, netip.Addr{})
					e.Sent(part)
					e.Request()
					e.End()
					all += part
				}
				if i == many/2 {
					e := l.Begin(LegConnect, target(t, "paste.test:443"))
					e.Decide(VerdictAllowed, ReasonBudgetBytesOut, Rule{}, netip.Addr{})
					e.Sent(50 << 20)
					e.End()
					all += 50 << 20
				}
			}
			list, missed := l.List()
			list = list[mostEntries-mostNames:]
			if len(list) != mostSums+1 || missed != 2*many+1 {
				t.Fatalf("%d sums of %d", len(list), missed)
			}
			first := tool.Connection{Host: "paste.test", Port: 443, Leg: LegConnect, Verdict: VerdictAllowed, Reason: ReasonBudgetBytesOut, BytesOut: 50 << 20, Count: 1}
			if all > 50<<20 && list[0] != first {
				t.Errorf("first %+v", list[0])
			}
			var least int64 = 1 << 60
			for i, c := range list {
				all -= c.BytesOut
				missed -= c.Count
				if named := c.Host != ""; named != (i < mostSums) || named && c.BytesOut > least {
					t.Errorf("%d: %+v after %d", i, c, least)
				}
				least = min(least, c.BytesOut)
			}
			if all != 0 || missed != 0 {
				t.Errorf("%d bytes and %d connections are lost", all, missed)
			}
		})
	}
}

// TestAddedUpAfterItsEnd: bytes and verdicts that arrive after a connection was summed up are
// not lost. The bytes are added to the same sum, and a denial is listed.
func TestAddedUpAfterItsEnd(t *testing.T) {
	t.Parallel()
	l := NewConnectionLog(time.Now())
	fill(l)
	e := l.Begin(LegConnect, target(t, "a.example:443"))
	e.Decide(VerdictAllowed, "", Rule{}, netip.Addr{})
	e.Sent(5)
	sums := func() []tool.Connection {
		list, _ := l.List()
		return slices.DeleteFunc(list, func(c tool.Connection) bool { return c.Leg == LegTransparent && c.Count == 0 })
	}
	sum := tool.Connection{Host: "a.example", Port: 443, Leg: LegConnect, Verdict: VerdictAllowed, BytesOut: 5, Count: 1}
	if got := sums(); !slices.Equal(got, []tool.Connection{sum}) {
		t.Errorf("open: %+v", got)
	}
	e.End()
	e.Sent(2)
	e.Sent(-1)
	e.Received(3)
	e.Request()
	sum.BytesOut, sum.BytesIn, sum.Requests = 6, 3, 1
	if got := sums(); !slices.Equal(got, []tool.Connection{sum}) {
		t.Errorf("ended: %+v", got)
	}
	for range 2 {
		e.Decide(VerdictDenied, ReasonSecretMisplaced, Rule{}, netip.Addr{})
	}
	got := sums() // the denied connection takes the place of the last one
	if got[0].Verdict != VerdictDenied || got[0].Reason != ReasonSecretMisplaced || got[0].Host != "a.example" || got[0].Count != 0 || got[1] != sum || len(got) != 3 {
		t.Errorf("denied: %+v", got)
	}
	for i := range mostSums { // they replace its sum
		x := l.Begin(LegConnect, Target{Host{name: fmt.Sprintf("x%d.example", i)}, 443})
		x.Sent(1000)
		x.End()
	}
	e.Sent(5000)
	sum.Host, sum.Port, sum.BytesOut = "", 0, 5006
	if got := sums(); !slices.Contains(got, sum) {
		t.Errorf("without a place: %+v", got[len(got)-3:])
	}
}

// TestAddedUpExactly: no bytes are lost while connections are counted and summed up
// concurrently.
func TestAddedUpExactly(t *testing.T) {
	t.Parallel()
	l := NewConnectionLog(time.Now())
	fill(l)
	const connections, steps = 50, 500
	var all sync.WaitGroup
	for i := range connections {
		e := l.Begin(LegConnect, Target{Host{name: fmt.Sprintf("x%d.example", i)}, 443})
		for range 2 {
			all.Go(func() {
				for range steps {
					e.Sent(1)
					e.Received(2)
				}
				e.End()
			})
		}
	}
	all.Wait()
	list, missed := l.List()
	var out, in int64
	for _, c := range list {
		out += c.BytesOut
		in += c.BytesIn
	}
	if want := int64(2 * connections * steps); out != want || in != 2*want || missed != connections {
		t.Errorf("%d sent, %d received, want %d; %d missed", out, in, want, missed)
	}
	if len(l.waiting) > 0 {
		t.Errorf("%d entries wait for ever", len(l.waiting))
	}
}

// TestDeniedLateIsListed: a connection that started when the list was full is listed, in order,
// once it is denied.
func TestDeniedLateIsListed(t *testing.T) {
	t.Parallel()
	const room = mostEntries - mostNames
	l := NewConnectionLog(time.Now())
	begin := func(port int) *Entry { return l.Begin(LegTransparent, Target{Host{name: "a.example"}, uint16(port)}) }
	ports := func() (list []int) {
		connections, missed := l.List()
		if len(connections) != room+2 || missed != 2 {
			t.Errorf("%d listed, %d missed", len(connections), missed)
		}
		for _, c := range connections[room-3:] {
			list = append(list, c.Port)
		}
		return list
	}
	for i := range room {
		begin(i + 1)
	}
	late, later := begin(room+1), begin(room+2)
	late.Decide(VerdictAllowed, "", Rule{}, netip.Addr{})
	if got := ports(); !slices.Equal(got, []int{room - 2, room - 1, room, room + 1, room + 2}) {
		t.Errorf("the last are %v", got)
	}
	later.Decide(VerdictDenied, ReasonPath, Rule{}, netip.Addr{})
	late.Decide(VerdictDenied, ReasonPath, Rule{}, netip.Addr{})
	if got := ports(); !slices.Equal(got, []int{room - 2, room + 1, room + 2, room - 1, room}) {
		t.Errorf("the last are %v", got)
	}
}
