// Package session stores the recent past of callers: the facts that policy reads as
// context.session, and the budget of calls.
//
// The gateway names sessions. A session belongs to a principal, a credential and a kind of
// client, all of which the gateway has verified. It ends after the idle window without a call,
// or when a person ends it. Client-chosen names of conversations or runs do not affect it, so
// that a client cannot shed its past by another name. (The field session of a call names a
// conversation: grants of scope session apply to that, see package approval.)
//
// The effects of a call on the facts are counted in the step that decides it, under the lock of
// its session. If two calls arrive at once and the first taints the session, the second is
// therefore decided in a tainted session.
package session

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/tool"
)

// Client is a kind of client, by the surface of its calls.
type Client string

// API is a client of the API, whether it calls tools itself or starts runs.
const API Client = "api"

// ClientOf returns the kind of client of a surface. The surface is the observed one, never one
// that a client claims. All surfaces of the API are one kind, so that a caller cannot have
// several sessions by using several methods.
func ClientOf(s access.Surface) Client {
	switch s {
	case access.SurfaceGRPC, access.SurfaceStream, access.SurfaceCLI, access.SurfaceTUI, "":
		return API
	}
	return Client(s)
}

// Key identifies the owner of a session. Each key has at most one active session at a time.
type Key struct {
	Principal access.Principal
	// Device is the id of the device whose certificate was presented.
	Device string
	Client Client
}

// KeyOf returns the key of a caller.
func KeyOf(c access.Caller) Key { return Key{c.Principal, c.DeviceID, ClientOf(c.Surface)} }

// Did is the state of a session after its calls so far.
type Did struct {
	// Facts are the facts that policy reads. CallsInRun counts the calls outside of the
	// gateway's runs, BytesOut includes the bytes that calls under way may still send.
	Facts tool.SessionFacts
	// RunCalls counts the calls of the gateway's runs.
	RunCalls int
	// Limit is the extended limit of calls, 0 if it was not extended.
	Limit int
	// LastAt is the last time at which one of its calls began or ended.
	LastAt time.Time
}

// session is a session in memory.
type session struct {
	row Row
	// stored is true once the row is durable.
	stored atomic.Bool
	// inFlight counts the calls that have not ended. lastAt is the last time at which a call began
	// or ended, in microseconds since 1970. Both are written under Book.mu, so that a session
	// cannot end as idle while a call is being counted.
	inFlight atomic.Int64
	lastAt   atomic.Int64

	mu    sync.Mutex
	facts tool.SessionFacts // without InFlight; BytesOut counts sent bytes
	// reserved is the number of bytes that decided calls under way may send.
	reserved int64
	runCalls int
	limit    int
	// asking is the pending request for more calls, or nil.
	asking *Turn
}

func restored(p Past) *session {
	s := &session{row: p.Row, facts: p.Facts, runCalls: p.RunCalls, limit: p.Limit}
	s.stored.Store(true)
	s.lastAt.Store(p.LastAt.UnixMicro())
	return s
}

// idle reports whether the session has ended by idling.
func (s *session) idle(now time.Time, window time.Duration) bool {
	return s.inFlight.Load() == 0 && now.Sub(time.UnixMicro(s.lastAt.Load())) > window
}

// copied must be called under the lock.
func (s *session) copied() tool.SessionFacts {
	f := s.facts
	f.InFlight = int(s.inFlight.Load())
	f.ToolsUsed, f.SecretsRead = slices.Clone(f.ToolsUsed), slices.Clone(f.SecretsRead)
	return f
}

// Effects are the changes that an allowed call may make to the facts.
type Effects struct {
	// Tool is "" if its name is unknown.
	Tool string
	// Taints is true for calls that read from the open world.
	Taints  bool
	Secrets []string
	// MaySend is the maximum number of bytes that it can send out.
	MaySend int64
}

// Begin adds the call's effects to f, except for the bytes that it may send, which are reserved
// separately.
func (e Effects) Begin(f *tool.SessionFacts) {
	if e.Tool != "" {
		f.ToolsUsed = withName(f.ToolsUsed, e.Tool)
	}
	f.Tainted = f.Tainted || e.Taints
	for _, name := range e.Secrets {
		f.SecretsRead = withName(f.SecretsRead, name)
	}
}

// Sent returns the number of bytes that count as sent once the call has ended.
func (e Effects) Sent(with Traffic) int64 {
	if with.Unseen {
		return max(with.Sent, e.MaySend)
	}
	return with.Sent
}

// withName adds a name to a sorted list without duplicates.
func withName(list []string, name string) []string {
	if i, known := slices.BinarySearch(list, name); !known {
		list = slices.Insert(list, i, name)
	}
	return list
}

// Call is a call that is counted in its session.
type Call struct {
	open openSessions
	s    *session
	key  Key
	// ofRun is true for a call of the gateway's run of that name.
	ofRun bool
	run   string
	// number is the index of the call in its run, or among the calls of its session outside of
	// runs, from 1.
	number int
	// reserved is the number of bytes that an allowed call may still send.
	reserved int64
}

// Session is the id of the call's session.
func (c *Call) Session() string { return c.s.row.ID }

// Member returns the row that adds the call to its session. Call Stored once it is stored.
func (c *Call) Member(proposal string) Member {
	m := Member{Session: c.s.row.ID, Proposal: proposal, OfRun: c.ofRun}
	if !c.s.stored.Load() {
		row := c.s.row
		m.New = &row
	}
	return m
}

// Stored records that the session is durable.
func (c *Call) Stored() { c.s.stored.Store(true) }

// Facts returns the current session facts that policy reads. They count this call, but not the
// bytes reserved for it.
func (c *Call) Facts() tool.SessionFacts {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.facts()
}

// facts must be called under the lock.
func (c *Call) facts() tool.SessionFacts {
	f := c.s.copied()
	f.CallsInRun = c.number
	f.BytesOut += c.s.reserved - c.reserved
	return f
}

// Decide calls judge with the current facts and counts the returned effects, both under the
// session's lock. No other call of the session is judged in between. If the effects are nil,
// Decide counts nothing. judge must be quick and must not block.
func (c *Call) Decide(judge func(now tool.SessionFacts) (*Effects, error)) error {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	effects, err := judge(c.facts())
	if err != nil || effects == nil {
		return err
	}
	effects.Begin(&c.s.facts)
	c.s.reserved += effects.MaySend
	c.reserved = effects.MaySend
	return nil
}

// Traffic is the external traffic of a call.
type Traffic struct {
	Sent int64
	// Read is true if data was, or may have been, received.
	Read bool
	// Unseen is true if the sent bytes were not counted: then all reserved bytes count as sent.
	Unseen bool
}

// End removes the call from the calls under way. with is zero for a call that did not run.
func (c *Call) End(with Traffic) {
	c.s.mu.Lock()
	c.s.reserved -= c.reserved
	c.s.facts.BytesOut += Effects{MaySend: c.reserved}.Sent(with)
	c.s.facts.Tainted = c.s.facts.Tainted || with.Read
	c.reserved = 0
	c.s.mu.Unlock()
	c.open.leave(c)
}

// Budget returns the call's number in its run or session, from 1, and the maximum: perRun, or
// perSession unless it was extended (Allow).
func (c *Call) Budget(perRun, perSession int) (number, limit int) {
	if c.ofRun {
		return c.number, perRun
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.number, max(perSession, c.s.limit)
}

// Turn is one request to extend a session. One call makes it; other calls beyond the budget
// wait for the same answer.
type Turn struct {
	// Asked is closed when approvers are asked, which may never happen.
	Asked chan struct{}
	// Question is the approval request for the waiting calls, set before Asked is closed.
	Question any
	// Answered is closed when the request is answered, or the asking call has given up.
	Answered chan struct{}
	// Refused is true after a denial, and Said is its reason, or "". Both are set before
	// Answered is closed.
	Refused bool
	Said    string
}

// AskMore begins a Turn, which this call must end with Asked. If another call of the session is
// already asking, AskMore returns the Turn of that call, and created is false.
func (c *Call) AskMore() (turn *Turn, created bool) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.s.asking != nil {
		return c.s.asking, false
	}
	c.s.asking = &Turn{Asked: make(chan struct{}), Answered: make(chan struct{})}
	return c.s.asking, true
}

// Asked ends the turn.
func (c *Call) Asked(turn *Turn, refused bool, said string) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.s.asking = nil
	turn.Refused, turn.Said = refused, said
	close(turn.Answered)
}

// More returns the limit for Allow that permits that many calls in addition to those already
// made, including this one.
func (c *Call) More(calls int) int {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.s.facts.CallsInRun + calls
}

// Allow raises the session's limit of calls.
func (c *Call) Allow(limit int) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.s.limit = max(c.s.limit, limit)
}
