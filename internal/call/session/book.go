package session

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
)

const (
	// mostRemembered bounds the sessions, and the runs, in memory; the store has the others.
	mostRemembered = 10_000
	// mostUnderWay bounds the calls of one principal under way, including waiting ones.
	mostUnderWay = 256
)

// Book holds the sessions that have not ended. It is safe for concurrent use.
type Book struct {
	store Store
	idle  time.Duration
	open  openSessions
}

// inMemory is openSessions for one process.
type inMemory struct {
	idle time.Duration
	now  func() time.Time

	// mu guards the following fields. It is never held while a call is judged.
	mu       sync.Mutex
	sessions map[Key]*session
	runs     map[runKey]*runCalls
	// underWay counts the calls of each principal that have not ended.
	underWay map[access.Principal]int
}

type runKey struct {
	principal access.Principal
	run       string
}

// runCalls counts the calls of a run of the gateway.
type runCalls struct{ made, inFlight int }

// Begin counts a call. run is the gateway run of the call; it is "" for any other call.
func (b *Book) Begin(ctx context.Context, caller access.Caller, run string) (*Call, error) {
	key := KeyOf(caller)
	for {
		if err := b.load(ctx, key, run); err != nil {
			return nil, err
		}
		if c, err := b.count(caller, key, run); c != nil || err != nil {
			return c, err
		}
	}
}

// load reads the session and the run of a call from the store, unless they are in memory.
func (b *Book) load(ctx context.Context, key Key, run string) error {
	known, counted := b.open.known(key, run)
	// A call whose caller disconnects is counted, too.
	ctx = context.WithoutCancel(ctx)
	if !known {
		past, found, err := b.store.NewestSession(ctx, key)
		if err != nil {
			return reason.Errorf(reason.JournalUnavailable, "counting the calls of the session: %w", err)
		}
		b.open.remember(key, past, found)
	}
	if !counted {
		made, err := b.store.RunCalls(ctx, key.Principal, run)
		if err != nil {
			return reason.Errorf(reason.JournalUnavailable, "counting the calls of the run: %w", err)
		}
		b.open.rememberRun(runKey{key.Principal, run}, made)
	}
	return nil
}

func (b *inMemory) known(key Key, run string) (session, counted bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, session = b.sessions[key]
	return session, run == "" || b.runs[runKey{key.Principal, run}] != nil
}

func (b *inMemory) remember(key Key, past Past, found bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, known := b.sessions[key]; known {
		return
	}
	makeRoom(b.sessions, func(s *session) bool { return s == nil || s.inFlight.Load() == 0 })
	b.sessions[key] = nil
	if found && past.EndedAt.IsZero() {
		b.sessions[key] = restored(past)
	}
}

func (b *inMemory) rememberRun(key runKey, made int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.runs[key] == nil {
		makeRoom(b.runs, func(r *runCalls) bool { return r.inFlight == 0 })
		b.runs[key] = &runCalls{made: made}
	}
}

// makeRoom removes a session or run without calls from memory if there are too many.
func makeRoom[K comparable, V any](counted map[K]V, isIdle func(V) bool) {
	if len(counted) < mostRemembered {
		return
	}
	for key, v := range counted {
		if isIdle(v) {
			delete(counted, key)
			return
		}
	}
}

// count counts a call in its session. It returns nil if the session was removed since load.
func (b *Book) count(caller access.Caller, key Key, run string) (*Call, error) {
	c, err := b.open.enter(caller, key, run)
	if c == nil || err != nil {
		return nil, err
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.ofRun {
		c.s.runCalls++
		return c, nil
	}
	c.s.facts.CallsInRun++
	c.number = c.s.facts.CallsInRun
	return c, nil
}

func (b *inMemory) enter(caller access.Caller, key Key, run string) (*Call, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.underWay[key.Principal] >= mostUnderWay {
		return nil, reason.Errorf(reason.RateLimited, "%s has %s under way", key.Principal, text.Plural(mostUnderWay, "call")).
			WithRemedy("Wait until some have ended, or cancel calls that wait for approval.")
	}
	s, known := b.sessions[key]
	r := b.runs[runKey{key.Principal, run}]
	if !known || run != "" && r == nil {
		return nil, nil
	}
	now := b.now()
	if s == nil || s.idle(now, b.idle) {
		id := ulid.MustNew(ulid.Timestamp(now), rand.Reader)
		s = &session{row: Row{ID: id.String(), Key: key, OnBehalfOf: caller.OnBehalfOf, StartedAt: now.UTC().Truncate(time.Microsecond)}}
		b.sessions[key] = s
	}
	b.underWay[key.Principal]++
	s.inFlight.Add(1)
	s.lastAt.Store(now.UnixMicro())
	c := &Call{open: b, s: s, key: key}
	if run != "" {
		r.made++
		r.inFlight++
		c.ofRun, c.run, c.number = true, run, r.made
	}
	return c, nil
}

func (b *inMemory) leave(c *Call) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.underWay[c.key.Principal]--; b.underWay[c.key.Principal] == 0 {
		delete(b.underWay, c.key.Principal)
	}
	c.s.inFlight.Add(-1)
	c.s.lastAt.Store(b.now().UnixMicro())
	if c.ofRun {
		b.runs[runKey{c.key.Principal, c.run}].inFlight--
	}
}
