package egress

import (
	"cmp"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"palyra/internal/tool"
)

// MaxEntries is how many connections a Ledger lists one by one.
const MaxEntries = 2000

// Ledger records the connections of one call: exactly while there are no more
// than MaxEntries of them. Of more, it lists the first of those that were
// denied and the first of the others, half of its room for each at least, so
// that neither kind can crowd the other out; the rest is counted. It is safe
// for concurrent use.
type Ledger struct {
	start    time.Time
	out, in  atomic.Int64
	mu       sync.Mutex
	begun    int
	listed   []*Entry
	refusals int // how many of listed are denied
}

// NewLedger returns an empty ledger of a call that began at start.
func NewLedger(start time.Time) *Ledger { return &Ledger{start: start} }

// Entry is the record of one connection. It is safe for concurrent use.
type Entry struct {
	ledger   *Ledger
	leg      string
	target   Target
	number   int
	started  time.Time
	out, in  atomic.Int64
	requests atomic.Int64

	// What follows is guarded by the mutex of the ledger.
	listed  bool
	ended   time.Time
	verdict string
	reason  string
	rule    Rule
	addr    netip.Addr
}

// Begin records that somebody asks for a target. Until it is decided the
// connection counts as failed.
func (l *Ledger) Begin(leg string, t Target) *Entry {
	e := &Entry{ledger: l, leg: leg, target: t, started: time.Now()}
	l.mu.Lock()
	defer l.mu.Unlock()
	e.number = l.begun
	l.begun++
	l.list(e)
	return e
}

// list takes an entry into the list, in the place of the newest of the other
// kind when the list is full and that kind has more than its half.
func (l *Ledger) list(e *Entry) {
	if len(l.listed) == MaxEntries {
		others := l.refusals
		if e.denied() {
			others = MaxEntries - l.refusals
		}
		if others <= MaxEntries/2 {
			return
		}
		l.dropNewest(!e.denied())
	}
	e.listed = true
	l.listed = append(l.listed, e)
	if e.denied() {
		l.refusals++
	}
}

// dropNewest takes one entry out, the newest that is denied or that is not.
func (l *Ledger) dropNewest(denied bool) {
	newest := -1
	for i, e := range l.listed {
		if e.denied() == denied && (newest < 0 || e.number > l.listed[newest].number) {
			newest = i
		}
	}
	l.listed[newest].listed = false
	l.listed = slices.Delete(l.listed, newest, newest+1)
	if denied {
		l.refusals--
	}
}

func (e *Entry) denied() bool { return e.verdict == VerdictDenied }

// severity orders the verdicts. What is not decided has the least.
func severity(verdict string) int {
	return slices.Index([]string{VerdictAllowed, VerdictFailed, VerdictDenied}, verdict)
}

// Decide says what became of the connection. Of several verdicts the worst
// counts, with what came along with the first of its kind: denied before
// failed before allowed. A connection that was allowed and is broken off is
// decided again as allowed, with the reason. A zero rule or address leaves an
// earlier one in place.
func (e *Entry) Decide(verdict, reason string, rule Rule, addr netip.Addr) {
	l := e.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	was, now := severity(e.verdict), severity(verdict)
	if now < was {
		return
	}
	worse := now > was
	if worse {
		e.verdict, e.reason = verdict, ""
	}
	e.reason = cmp.Or(e.reason, reason)
	if rule.text != "" && (worse || e.rule.text == "") {
		e.rule = rule
	}
	if addr.IsValid() && (worse || !e.addr.IsValid()) {
		e.addr = addr
	}
	if worse && e.denied() {
		l.denied(e)
	}
}

// denied counts an entry that has just become denied, and lists it if there is
// room.
func (l *Ledger) denied(e *Entry) {
	if e.listed {
		l.refusals++
		return
	}
	l.list(e)
}

// Sent adds bytes that went out to the host.
func (e *Entry) Sent(n int64) {
	e.out.Add(n)
	e.ledger.out.Add(n)
}

// Received adds bytes that came from the host.
func (e *Entry) Received(n int64) {
	e.in.Add(n)
	e.ledger.in.Add(n)
}

// Request counts one request.
func (e *Entry) Request() { e.requests.Add(1) }

// End says that the connection is over. Only the first call counts.
func (e *Entry) End() {
	e.ledger.mu.Lock()
	defer e.ledger.mu.Unlock()
	if e.ended.IsZero() {
		e.ended = time.Now()
	}
}

// beside records another address of the same host that was not connected to.
func (e *Entry) beside(verdict, reason string, rule Rule, addr netip.Addr) {
	other := e.ledger.Begin(e.leg, e.target)
	other.Decide(verdict, reason, rule, addr)
	other.End()
}

// Reason is why the connection was denied, failed or broken off, "" so far for
// none.
func (e *Entry) Reason() string {
	e.ledger.mu.Lock()
	defer e.ledger.mu.Unlock()
	return e.reason
}

// List returns the connections so far, in the order in which they began, and
// how many more there were.
func (l *Ledger) List() (list []tool.Connection, missed int) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	rest := tool.Connection{Verdict: VerdictAllowed, BytesOut: l.out.Load(), BytesIn: l.in.Load()}
	entries := slices.Clone(l.listed)
	slices.SortFunc(entries, func(a, b *Entry) int { return a.number - b.number })
	list = make([]tool.Connection, 0, len(entries))
	for _, e := range entries {
		c := e.connection(l.start, now)
		list = append(list, c)
		rest.BytesOut -= c.BytesOut
		rest.BytesIn -= c.BytesIn
	}
	missed = l.begun - len(l.listed)
	// While connections are open, bytes may have come between the two countings.
	rest.BytesOut, rest.BytesIn = max(rest.BytesOut, 0), max(rest.BytesIn, 0)
	if missed > 0 && (rest.BytesOut > 0 || rest.BytesIn > 0) {
		list = append(list, rest)
	}
	return list, missed
}

func (e *Entry) connection(start, now time.Time) tool.Connection {
	if !e.ended.IsZero() {
		now = e.ended
	}
	c := tool.Connection{
		Host: e.target.Host.String(), Port: int(e.target.Port), BytesOut: e.out.Load(), BytesIn: e.in.Load(),
		Verdict: cmp.Or(e.verdict, VerdictFailed), Leg: e.leg, Rule: e.rule.text, Reason: e.reason,
		Requests: int(e.requests.Load()), Started: e.started.Sub(start), Duration: now.Sub(e.started),
	}
	if e.addr.IsValid() {
		c.Address = e.addr.String()
	}
	return c
}
