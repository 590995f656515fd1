// Package session keeps what the callers of the gateway did lately: the facts
// about the past that policy reads as context.session, and the budget of calls.
//
// A session is named by the gateway. It belongs to a principal, a credential
// and a kind of client, all of which the gateway verified itself. It ends after
// the idle window without a call, or when a person ends it. The names that a client
// gives its work, for a conversation or a run, have no influence on it, so that a
// client cannot get rid of its past by another name. (The field session of a call
// names a conversation: grants of scope session live there, see package approval.)
//
// How a call may change the facts is counted in the step that decides it, under the
// lock of its session. So when two calls come at once and the first makes the
// session tainted, the second is decided as a call of a tainted session.
package session

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/tool"
)

// Client is a kind of client, by the surface that its calls come in on.
type Client string

// API is a client of the API, whether it calls tools itself or starts runs.
const API Client = "api"

// ClientOf is the kind of client behind a surface. The surface is the one that the
// gateway saw, never one that a client claims. All surfaces of the API are one kind,
// so that a caller cannot have several sessions by using several of its methods.
func ClientOf(s access.Surface) Client {
	switch s {
	case access.SurfaceGRPC, access.SurfaceStream, access.SurfaceCLI, access.SurfaceTUI, "":
		return API
	}
	return Client(s)
}

// Key says whose session it is. Each key has at most one session at a time that has
// not ended.
type Key struct {
	Principal access.Principal
	// Device is the id of the device whose certificate was shown.
	Device string
	Client Client
}

// KeyOf is the key of a caller.
func KeyOf(c access.Caller) Key { return Key{c.Principal, c.DeviceID, ClientOf(c.Surface)} }

// Row holds the facts of a session that never change.
type Row struct {
	// ID is a ULID.
	ID string
	Key
	OnBehalfOf access.Principal
	StartedAt  time.Time
}

// Did is what the calls of a session did so far.
type Did struct {
	// Facts are those that policy reads. CallsInRun counts the calls outside of
	// the gateway's runs, BytesOut holds what calls under way may still send.
	Facts tool.SessionFacts
	// RunCalls are the calls of the gateway's runs.
	RunCalls int
	// Limit is how many calls people let it make, 0 when nobody was asked.
	Limit int
	// LastAt is when a call of it began or ended last.
	LastAt time.Time
}

// Past is a session as the store has it.
type Past struct {
	Row
	Did
	// EndedAt is zero unless somebody ended it.
	EndedAt time.Time
	EndedBy access.Principal
	// EndReason is what they said.
	EndReason string
}

// Member records that a call belongs to a session, in the transaction of the call's
// first event.
type Member struct {
	Session string
	// New is the session itself, to be stored with the call; nil once it is.
	New *Row
	// Proposal is the call's id. OfRun says that it is of a run of the gateway.
	Proposal string
	OfRun    bool
}

// session is one that is remembered.
type session struct {
	row Row
	// stored says that the row is durable.
	stored atomic.Bool
	// inFlight counts the calls that have not ended, and lastAt is when one began
	// or ended last, in microseconds since 1970. Both are written under Book.mu, so
	// that a session cannot end as idle while a call is being counted in.
	inFlight atomic.Int64
	lastAt   atomic.Int64

	mu    sync.Mutex
	facts tool.SessionFacts // without InFlight; BytesOut is what was sent
	// reserved is what decided calls that have not ended may send.
	reserved int64
	runCalls int
	limit    int
	// asking is the call that asks for more calls; nil when none does.
	asking *Turn
}

func restored(p Past) *session {
	s := &session{row: p.Row, facts: p.Facts, runCalls: p.RunCalls, limit: p.Limit}
	s.stored.Store(true)
	s.lastAt.Store(p.LastAt.UnixMicro())
	return s
}

// idle reports whether the session has ended by being idle.
func (s *session) idle(now time.Time, window time.Duration) bool {
	return s.inFlight.Load() == 0 && now.Sub(time.UnixMicro(s.lastAt.Load())) > window
}

// did is a copy of what the session did.
func (s *session) did() Did {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := Did{Facts: s.copied(), RunCalls: s.runCalls, Limit: s.limit, LastAt: time.UnixMicro(s.lastAt.Load()).UTC()}
	d.Facts.BytesOut += s.reserved
	return d
}

// copied is called under the lock.
func (s *session) copied() tool.SessionFacts {
	f := s.facts
	f.InFlight = int(s.inFlight.Load())
	f.ToolsUsed, f.SecretsRead = slices.Clone(f.ToolsUsed), slices.Clone(f.SecretsRead)
	return f
}

// Effects say how a call may change the facts once it is let through.
type Effects struct {
	// Tool is "" when its name is not known any more.
	Tool string
	// Taints is true for what reads from the open world.
	Taints  bool
	Secrets []string
	// MaySend is the most bytes that it can send out.
	MaySend int64
}

// Begin adds the call's effects to f, but for the bytes that it may send, which are
// reserved apart from f.
func (e Effects) Begin(f *tool.SessionFacts) {
	if e.Tool != "" {
		f.ToolsUsed = withName(f.ToolsUsed, e.Tool)
	}
	f.Tainted = f.Tainted || e.Taints
	for _, name := range e.Secrets {
		f.SecretsRead = withName(f.SecretsRead, name)
	}
}

// Sent is how many bytes count as sent once the call has ended.
func (e Effects) Sent(with Traffic) int64 {
	if with.Unseen {
		return max(with.Sent, e.MaySend)
	}
	return with.Sent
}

// withName adds a name to a sorted list without repeats.
func withName(list []string, name string) []string {
	i, known := slices.BinarySearch(list, name)
	if known {
		return list
	}
	return slices.Insert(list, i, name)
}

// Store knows the sessions and runs of before this process.
type Store interface {
	// NewestSession returns the newest session of a key, whether it ended or
	// not, with what its calls did; false when there was none.
	NewestSession(ctx context.Context, k Key) (Past, bool, error)
	// RunCalls counts the calls that a run of the gateway made.
	RunCalls(ctx context.Context, p access.Principal, run string) (int, error)
}
