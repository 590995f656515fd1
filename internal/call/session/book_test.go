package session

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// store is a store that tests fill.
type store struct {
	mu    sync.Mutex
	past  map[Key]Past
	runs  map[string]int
	err   error
	reads int
}

func (s *store) NewestSession(_ context.Context, k Key) (Past, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	p, found := s.past[k]
	return p, found, s.err
}

func (s *store) RunCalls(_ context.Context, _ access.Principal, run string) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs[run], s.err
}

var coder = access.Caller{Principal: access.Agent("coder"), OnBehalfOf: access.User("alice"), DeviceID: "d", Surface: access.SurfaceGRPC}

// clock is the time of a book.
type clock struct{ at time.Time }

func book(s *store) (*Book, *clock) {
	b, c := NewBook(s, 30*time.Minute), &clock{time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)}
	b.memory().now = func() time.Time { return c.at }
	return b, c
}

func (b *Book) memory() *inMemory {
	m, _ := b.open.(*inMemory)
	return m
}

func begin(t *testing.T, b *Book, c access.Caller, run string) *Call {
	t.Helper()
	return must.Get(b.Begin(t.Context(), c, run))(t)
}

// use decides a call as allowed, with effects.
func use(t *testing.T, c *Call, e Effects) {
	t.Helper()
	must.Do(t, c.Decide(func(tool.SessionFacts) (*Effects, error) { return &e, nil }))
}

func TestIdleEndsASession(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		waits time.Duration
		open  bool // a call runs during the whole time
		same  bool
	}{
		"at once":                {0, false, true},
		"in the window":          {30 * time.Minute, false, true},
		"after it":               {30*time.Minute + time.Microsecond, false, false},
		"with a call that waits": {5 * time.Hour, true, true},
		"the clock went back":    {-time.Hour, false, true},
	} {
		b, now := book(&store{})
		first := begin(t, b, coder, "")
		use(t, first, Effects{Tool: "fs.read", Taints: true})
		if !row.open {
			first.End(Traffic{})
		}
		now.at = now.at.Add(row.waits)
		second := begin(t, b, coder, "")
		if got := second.Session() == first.Session(); got != row.same || second.Facts().Tainted != row.same {
			t.Errorf("%s: the same session: %t, tainted %t, want %t", name, got, second.Facts().Tainted, row.same)
		}
	}
}

// TestStoredSessionResumes: a session from before a restart resumes, unless it was idle for too
// long or was ended.
func TestStoredSessionResumes(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	facts := tool.SessionFacts{CallsInRun: 7, ToolsUsed: []string{"a"}, Tainted: true, BytesOut: 9}
	for name, row := range map[string]struct {
		last  time.Duration
		ended bool
		same  bool
	}{
		"lately": {time.Minute, false, true}, "idle": {time.Hour, false, false}, "ended": {time.Minute, true, false},
	} {
		past := Past{Row: Row{ID: "old", Key: KeyOf(coder)}, Did: Did{Facts: facts, Limit: 50, LastAt: now.Add(-row.last)}}
		if row.ended {
			past.EndedAt = now
		}
		s := &store{past: map[Key]Past{KeyOf(coder): past}}
		b, _ := book(s)
		c := begin(t, b, coder, "")
		want := tool.SessionFacts{CallsInRun: 1, InFlight: 1}
		if row.same {
			want = tool.SessionFacts{CallsInRun: 8, InFlight: 1, ToolsUsed: []string{"a"}, Tainted: true, BytesOut: 9}
		}
		if got := c.Facts(); !reflect.DeepEqual(got, want) || (c.Session() == "old") != row.same {
			t.Errorf("%s: session %s, %+v, want %+v", name, c.Session(), got, want)
		}
		if m := c.Member("p"); (m.New == nil) != row.same || m.Session != c.Session() || m.Proposal != "p" {
			t.Errorf("%s: %+v", name, m)
		}
		if _, limit := c.Budget(1, 20); limit != map[bool]int{true: 50, false: 20}[row.same] {
			t.Errorf("%s: the limit is %d", name, limit)
		}
		begin(t, b, coder, "")
		if s.reads != 1 {
			t.Errorf("%s: the store was read %d times", name, s.reads)
		}
	}
}

func TestUnreadableStoreCountsNothing(t *testing.T) {
	t.Parallel()
	b, _ := book(&store{err: errors.New("no disk")})
	if _, err := b.Begin(t.Context(), coder, ""); reason.Of(err) != reason.JournalUnavailable {
		t.Error(err)
	}
	if b.UnderWay() != 0 {
		t.Error("a call is under way")
	}
}

// TestKeys: only values that the gateway verifies itself distinguish sessions.
func TestKeys(t *testing.T) {
	t.Parallel()
	same := func(change func(*access.Caller)) bool {
		c := coder
		change(&c)
		return KeyOf(c) == KeyOf(coder)
	}
	for name, row := range map[string]struct {
		change func(*access.Caller)
		same   bool
	}{
		"roles":     {func(c *access.Caller) { c.Roles = []access.Role{access.RoleOwner} }, true},
		"address":   {func(c *access.Caller) { c.Address = "10.0.0.1" }, true},
		"presence":  {func(c *access.Caller) { c.Present = true }, true},
		"stream":    {func(c *access.Caller) { c.Surface = access.SurfaceStream }, true},
		"cli":       {func(c *access.Caller) { c.Surface = access.SurfaceCLI }, true},
		"device":    {func(c *access.Caller) { c.DeviceID = "e" }, false},
		"principal": {func(c *access.Caller) { c.Principal = access.User("alice") }, false},
		"in client": {func(c *access.Caller) { c.Surface = access.SurfaceInClient }, false},
	} {
		if got := same(row.change); got != row.same {
			t.Errorf("%s: the same key: %t", name, got)
		}
	}
}

// TestDecideIsAtomic: 64 readers and 64 writers run concurrently, and each is allowed only
// without calls of the other kind. Only one kind runs, in each of 1000 sessions. Control:
// decisions outside Decide.
func TestDecideIsAtomic(t *testing.T) {
	t.Parallel()
	if n := sessionsThatDidBoth(t, 1000, false); n > 0 {
		t.Errorf("%d sessions did both", n)
	}
	if n := sessionsThatDidBoth(t, 10, true); n == 0 {
		t.Error("the control: no session did both")
	}
}

func sessionsThatDidBoth(t *testing.T, rounds int, outside bool) (both int) {
	t.Helper()
	b, _ := book(&store{})
	for round := range rounds {
		caller := coder
		caller.DeviceID = strconv.Itoa(round)
		var calls, judged sync.WaitGroup
		var let [2]atomic.Bool
		judged.Add(128)
		start := make(chan struct{})
		for n := range 128 {
			own, other := []string{"read", "write"}[n%2], []string{"write", "read"}[n%2]
			c := begin(t, b, caller, "")
			judge := func(f tool.SessionFacts) (*Effects, error) {
				if slices.Contains(f.ToolsUsed, other) {
					return nil, nil
				}
				let[n%2].Store(true)
				return &Effects{Tool: own}, nil
			}
			calls.Go(func() {
				defer c.End(Traffic{})
				<-start
				if outside {
					effects, _ := judge(c.Facts())
					judged.Done()
					judged.Wait()
					judge = func(tool.SessionFacts) (*Effects, error) { return effects, nil }
				}
				_ = c.Decide(judge)
			})
		}
		close(start)
		calls.Wait()
		if let[0].Load() && let[1].Load() {
			both++
		}
	}
	return both
}

func TestBytesSettle(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		with Traffic
		want int64
	}{
		"seen":           {Traffic{Sent: 30}, 30},
		"not run":        {Traffic{}, 0},
		"unseen":         {Traffic{Unseen: true}, 100},
		"more than that": {Traffic{Sent: 300, Unseen: true}, 300},
	} {
		b, _ := book(&store{})
		c, other := begin(t, b, coder, ""), begin(t, b, coder, "")
		use(t, c, Effects{Tool: "a", MaySend: 100})
		if own, theirs := c.Facts().BytesOut, other.Facts().BytesOut; own != 0 || theirs != 100 {
			t.Errorf("%s: before the end %d, for others %d", name, own, theirs)
		}
		c.End(row.with)
		if got := other.Facts().BytesOut; got != row.want {
			t.Errorf("%s: %d bytes out, want %d", name, got, row.want)
		}
	}
}

func TestRunsHaveTheirOwnCount(t *testing.T) {
	t.Parallel()
	b, _ := book(&store{runs: map[string]int{"r": 4}})
	plain, ofRun := begin(t, b, coder, ""), begin(t, b, coder, "r")
	if n, limit := ofRun.Budget(10, 20); n != 5 || limit != 10 {
		t.Errorf("of the run: %d of %d", n, limit)
	}
	if n, limit := plain.Budget(10, 20); n != 1 || limit != 20 {
		t.Errorf("of the session: %d of %d", n, limit)
	}
	if ofRun.Session() != plain.Session() || ofRun.Facts().CallsInRun != 5 || ofRun.Facts().InFlight != 2 {
		t.Errorf("session %s and %s, %+v", ofRun.Session(), plain.Session(), ofRun.Facts())
	}
	did, live := b.Did(KeyOf(coder), plain.Session())
	if !live || did.RunCalls != 1 || did.Facts.CallsInRun != 1 {
		t.Errorf("%+v, %t", did, live)
	}
}

func TestOneCallRequestsAnExtension(t *testing.T) {
	t.Parallel()
	b, _ := book(&store{})
	first, second := begin(t, b, coder, ""), begin(t, b, coder, "")
	turn, mine := first.AskMore()
	other, theirs := second.AskMore()
	if !mine || theirs || turn != other {
		t.Fatal("two calls ask")
	}
	first.Allow(first.More(200))
	first.Asked(turn, false, "")
	<-other.Answered
	if _, limit := second.Budget(1, 1); limit != 202 || other.Refused {
		t.Errorf("the limit is %d, refused %t", limit, other.Refused)
	}
	if _, mine := second.AskMore(); !mine {
		t.Error("nobody can ask again")
	}
}

func TestRunningCallsAreBounded(t *testing.T) {
	t.Parallel()
	b, _ := book(&store{})
	var last *Call
	for range mostUnderWay {
		last = begin(t, b, coder, "")
	}
	if _, err := b.Begin(t.Context(), coder, ""); reason.Of(err) != reason.RateLimited {
		t.Error(err)
	}
	other := coder
	other.Principal = access.Agent("other")
	begin(t, b, other, "")
	last.End(Traffic{})
	begin(t, b, coder, "")
	if n := b.UnderWay(); n != mostUnderWay+1 {
		t.Errorf("%d under way", n)
	}
}

// TestEvictedSessionsAreReloaded: the number of sessions in memory is limited. A session with a
// running call is never evicted.
func TestEvictedSessionsAreReloaded(t *testing.T) {
	t.Parallel()
	s := &store{}
	b, _ := book(s)
	held := begin(t, b, coder, "")
	c := coder
	for i := range mostRemembered + 5 {
		c.DeviceID = time.Duration(i).String()
		begin(t, b, c, "").End(Traffic{})
	}
	if n := len(b.memory().sessions); n > mostRemembered {
		t.Errorf("%d are remembered", n)
	}
	if again := begin(t, b, coder, ""); again.Session() != held.Session() {
		t.Error("a session with a call under way was forgotten")
	}
}
