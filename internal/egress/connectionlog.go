package egress

import (
	"cmp"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"palyra/internal/core/tool"
)

// mostEntries is how many entries a ConnectionLog lists one by one: connections,
// and names that were asked for, which cost nothing and so have a share of their
// own.
const (
	mostEntries = 2000
	mostNames   = mostEntries / 4
)

// ConnectionLog records the connections of one call; docs/egress.md calls it the
// ledger. While they fit, they are listed one by one. Of more, it lists the first
// of those that were denied and the first of the others, half of the list for
// each at least; the rest is added up by target and by what became of it.
// Example: a program that is denied 5000 times and then connects once cannot hide
// the one: it is listed, and most denials are a sum. It is safe for concurrent
// use.
type ConnectionLog struct {
	start time.Time

	mu                 sync.Mutex
	begun              int
	connections, names entryList
	// waiting are not listed and have not ended, sums are those that have.
	waiting map[*Entry]bool
	sums    sums
}

// NewConnectionLog returns an empty log of a call that began at start.
func NewConnectionLog(start time.Time) *ConnectionLog {
	return &ConnectionLog{start: start, connections: entryList{size: mostEntries - mostNames}, names: entryList{size: mostNames}, waiting: map[*Entry]bool{}}
}

// Entry is the record of one connection. It is safe for concurrent use.
type Entry struct {
	log      *ConnectionLog
	leg      string
	target   Target
	number   int
	started  time.Time
	out, in  atomic.Int64
	requests atomic.Int64
	// summed is true once the entry was added to the sums, as a kind.
	summed atomic.Bool
	kind   kind

	// What follows is guarded by the mutex of the log.
	listed  bool
	ended   time.Time
	verdict string
	reason  string
	rule    Rule
	addr    netip.Addr
}

// Begin records that somebody asks for a target. Until it is decided the
// connection counts as failed.
func (l *ConnectionLog) Begin(leg string, t Target) *Entry {
	e := &Entry{log: l, leg: leg, target: t, started: time.Now()}
	l.mu.Lock()
	defer l.mu.Unlock()
	e.number = l.begun
	l.begun++
	l.list(e)
	return e
}

// list takes an entry into the list. What the list is full for is added up
// when it has ended.
func (l *ConnectionLog) list(e *Entry) {
	delete(l.waiting, e)
	if out := l.listOf(e).add(e); out != nil {
		l.waiting[out] = true
		l.settle(out)
	}
}

func (l *ConnectionLog) listOf(e *Entry) *entryList {
	if e.leg == LegName {
		return &l.names
	}
	return &l.connections
}

// settle adds an entry to the sums if it waits for that.
func (l *ConnectionLog) settle(e *Entry) {
	if !l.waiting[e] || e.ended.IsZero() {
		return
	}
	delete(l.waiting, e)
	e.kind = e.alike()
	e.summed.Store(true)
	l.sums.add(e.kind, amount{count: 1}.plus(e.take()))
}

// late adds what came after an entry was added to the sums.
func (e *Entry) late() {
	if !e.summed.Load() {
		return
	}
	e.log.mu.Lock()
	defer e.log.mu.Unlock()
	e.log.sums.more(e.kind, e.take())
}

// take takes out what was counted. What is counted meanwhile is taken next time.
func (e *Entry) take() amount {
	return amount{requests: int(e.requests.Swap(0)), out: e.out.Swap(0), in: e.in.Swap(0)}
}

// alike is what an entry has in common with others. Names are no targets that
// anything was sent to.
func (e *Entry) alike() kind {
	k := kind{e.leg, e.target, e.outcome(), e.reason}
	if e.leg == LegName {
		return k.anywhere()
	}
	return k
}

// outcome is the verdict, that of what is not decided, too.
func (e *Entry) outcome() string { return cmp.Or(e.verdict, VerdictFailed) }

func (e *Entry) denied() bool { return e.verdict == VerdictDenied }

// severity orders the verdicts. What is not decided has the least.
func severity(verdict string) int {
	return slices.Index([]string{VerdictAllowed, VerdictFailed, VerdictDenied}, verdict)
}

// Decide says what became of the connection. Of several verdicts the worst
// counts, with what came along with the first of its kind: denied before
// failed before allowed. A connection that was allowed and is broken off is
// decided again as allowed, with the reason. A zero rule or address leaves an
// earlier one in place. What was added up already gets an entry beside it, if it
// is worse.
func (e *Entry) Decide(verdict, reason string, rule Rule, addr netip.Addr) {
	l := e.log
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
	switch {
	case worse && e.summed.Load():
		l.again(e)
	case worse && e.denied():
		l.denied(e)
	}
}

// denied counts an entry that has just become denied, and lists it if there is
// room.
func (l *ConnectionLog) denied(e *Entry) {
	if e.listed {
		l.listOf(e).refusals++
		return
	}
	l.list(e)
}

// again lists what became of an entry after it was added up, as one more.
func (l *ConnectionLog) again(e *Entry) {
	other := &Entry{log: l, leg: e.leg, target: e.target, number: l.begun, started: e.started, ended: time.Now(), verdict: e.verdict, reason: e.reason, rule: e.rule, addr: e.addr}
	l.begun++
	l.list(other)
}

// Sent adds bytes that went out to the host.
func (e *Entry) Sent(n int64) {
	e.out.Add(n)
	e.late()
}

// Received adds bytes that came from the host.
func (e *Entry) Received(n int64) {
	e.in.Add(n)
	e.late()
}

// Request counts one request.
func (e *Entry) Request() {
	e.requests.Add(1)
	e.late()
}

// End says that the connection is over. Only the first call counts.
func (e *Entry) End() {
	e.log.mu.Lock()
	defer e.log.mu.Unlock()
	if e.ended.IsZero() {
		e.ended = time.Now()
		e.log.settle(e)
	}
}

// beside records another address of the same host that was not connected to.
func (e *Entry) beside(verdict, reason string, rule Rule, addr netip.Addr) {
	other := e.log.Begin(e.leg, e.target)
	other.Decide(verdict, reason, rule, addr)
	other.End()
}

// Reason is why the connection was denied, failed or broken off, "" so far for
// none.
func (e *Entry) Reason() string {
	e.log.mu.Lock()
	defer e.log.mu.Unlock()
	return e.reason
}

// List returns the connections so far, in the order in which they began, after
// them the sums of those that there was no room for, and how many these are.
func (l *ConnectionLog) List() (list []tool.Connection, missed int) { return l.Since(time.Time{}) }

// Since is List without the connections that had ended by a moment; the sums are of all.
func (l *ConnectionLog) Since(moment time.Time) (list []tool.Connection, missed int) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	var entries []*Entry
	for _, listed := range [][]*Entry{l.connections.listed, l.names.listed} {
		for _, e := range listed {
			if e.ended.IsZero() || e.ended.After(moment) {
				entries = append(entries, e)
			}
		}
	}
	slices.SortFunc(entries, func(a, b *Entry) int { return a.number - b.number })
	list = make([]tool.Connection, 0, len(entries))
	for _, e := range entries {
		list = append(list, e.connection(l.start, now))
	}
	all := l.sums.clone()
	for e := range l.waiting {
		all.add(e.alike(), amount{1, int(e.requests.Load()), e.out.Load(), e.in.Load()})
	}
	rest, missed := all.list()
	return append(list, rest...), missed
}

func (e *Entry) connection(start, now time.Time) tool.Connection {
	if !e.ended.IsZero() {
		now = e.ended
	}
	c := tool.Connection{
		Host: e.target.Host.String(), Port: int(e.target.Port), BytesOut: e.out.Load(), BytesIn: e.in.Load(),
		Verdict: e.outcome(), Leg: e.leg, Rule: e.rule.text, Reason: e.reason,
		Requests: int(e.requests.Load()), Started: e.started.Sub(start), Duration: now.Sub(e.started),
	}
	if e.addr.IsValid() {
		c.Address = e.addr.String()
	}
	return c
}
