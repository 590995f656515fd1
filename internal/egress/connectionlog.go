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

// mostEntries is the number of entries that a ConnectionLog lists individually: connections, and
// name queries, which cost a program nothing and therefore have a separate share.
const (
	mostEntries = 2000
	mostNames   = mostEntries / 4
)

// ConnectionLog records the connections of one call; docs/egress-ledger.md calls it the ledger.
// While they fit, connections are listed individually. Beyond the limit it lists the first
// denied connections and the first other ones, with at least half of the list for each. The
// rest is summed by target and outcome. Example: a program that is denied 5000 times and then
// connects once cannot hide that connection. It is listed, and most denials are a sum. It is
// safe for concurrent use.
type ConnectionLog struct {
	start time.Time

	mu                 sync.Mutex
	begun              int
	connections, names entryList
	// waiting holds unlisted entries that have not ended; sums hold the ended ones.
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

	// The fields below are guarded by the mutex of the log.
	listed  bool
	ended   time.Time
	verdict string
	reason  string
	rule    Rule
	addr    netip.Addr
}

// Begin records an attempt to reach a target. Until it is decided, the connection counts as failed.
func (l *ConnectionLog) Begin(leg string, t Target) *Entry {
	e := &Entry{log: l, leg: leg, target: t, started: time.Now()}
	l.mu.Lock()
	defer l.mu.Unlock()
	e.number = l.begun
	l.begun++
	l.list(e)
	return e
}

// list adds an entry to the list. Entries beyond the limit are summed when they end.
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

// settle adds an entry to the sums if it is waiting and has ended.
func (l *ConnectionLog) settle(e *Entry) {
	if !l.waiting[e] || e.ended.IsZero() {
		return
	}
	delete(l.waiting, e)
	e.kind = e.alike()
	e.summed.Store(true)
	l.sums.add(e.kind, amount{count: 1}.plus(e.take()))
}

// late adds bytes counted after the entry was added to the sums.
func (e *Entry) late() {
	if !e.summed.Load() {
		return
	}
	e.log.mu.Lock()
	defer e.log.mu.Unlock()
	e.log.sums.more(e.kind, e.take())
}

// take returns and clears the counters. Concurrent increments are returned by the next take.
func (e *Entry) take() amount {
	return amount{requests: int(e.requests.Swap(0)), out: e.out.Swap(0), in: e.in.Swap(0)}
}

// alike returns the key by which an entry is summed. Names have no target, because they are many
// and only their queries were sent.
func (e *Entry) alike() kind {
	k := kind{e.leg, e.target, e.outcome(), e.reason}
	if e.leg == LegName {
		return k.anywhere()
	}
	return k
}

// outcome returns the verdict, which is VerdictFailed until the entry is decided.
func (e *Entry) outcome() string { return cmp.Or(e.verdict, VerdictFailed) }

func (e *Entry) denied() bool { return e.verdict == VerdictDenied }

// severity orders the verdicts. An undecided entry has the lowest severity.
func severity(verdict string) int {
	return slices.Index([]string{VerdictAllowed, VerdictFailed, VerdictDenied}, verdict)
}

// Decide records the outcome of the connection. The most severe verdict counts, with the
// details of its first occurrence: denied before failed before allowed. An allowed connection
// that is broken off is decided again as allowed, with the reason. A zero rule or address keeps
// the earlier value. If the entry was already summed, a more severe verdict gets an additional
// entry.
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

// again lists the outcome of an already summed entry as an additional entry.
func (l *ConnectionLog) again(e *Entry) {
	other := &Entry{log: l, leg: e.leg, target: e.target, number: l.begun, started: e.started, ended: time.Now(), verdict: e.verdict, reason: e.reason, rule: e.rule, addr: e.addr}
	l.begun++
	l.list(other)
}

// Sent adds bytes sent to the host.
func (e *Entry) Sent(n int64) {
	e.out.Add(n)
	e.late()
}

// Received adds bytes received from the host.
func (e *Entry) Received(n int64) {
	e.in.Add(n)
	e.late()
}

// Request counts one request.
func (e *Entry) Request() {
	e.requests.Add(1)
	e.late()
}

// End marks the connection as ended. Only the first call counts.
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

// Reason returns why the connection was denied, failed or broken off, or "".
func (e *Entry) Reason() string {
	e.log.mu.Lock()
	defer e.log.mu.Unlock()
	return e.reason
}

// List returns the connections so far in the order in which they started, followed by the sums of
// unlisted connections, and the number of unlisted connections.
func (l *ConnectionLog) List() (list []tool.Connection, missed int) { return l.Since(time.Time{}) }

// Since is List without the connections that ended before a moment; the sums include all
// connections.
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
