package upstream

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/upstream/declared"
)

// slotKey identifies a slot by server and owner.
type slotKey struct {
	server string
	owner  access.Principal
}

// slot holds one instance. One goroutine at a time holds the slot.
type slot struct {
	held chan struct{}
	// asking is held by the call that requests approval for the start of the server.
	asking   chan struct{}
	instance *instance
	// current is a copy of instance for readers that do not hold the slot.
	current atomic.Pointer[instance]
	// failures counts the failures since the last success. The server is not retried before
	// until.
	failures int
	until    time.Time
	last     *reason.Error
}

// good reports whether the slot has an instance that a call with launch l can use. The caller
// holds the slot.
func (s *slot) good(l launch) bool {
	in := s.instance
	return in != nil && in.alive() && in.made == l.key() && !in.process.wroteSince()
}

// set stores an instance in the slot. The caller holds it.
func (s *slot) set(in *instance) {
	s.instance = in
	s.current.Store(in)
}

// Pool holds the instances of servers. It MUST NOT call the catalog while it holds its lock.
type Pool struct {
	starter *starter
	// standing is Config.Standing.
	standing func(access.Caller) error

	mu     sync.Mutex
	slots  map[slotKey]*slot
	closed bool
}

// enter returns an instance for the call: the current one or a new one. A new instance that
// receives secrets requires approval. The caller must call leave. A server that may write handles
// one call at a time.
func (pl *Pool) enter(ctx context.Context, c tool.Call, l launch, lent []egress.Secret) (in *instance, leave func(), err error) {
	for range mostStarts {
		in, leave, err = pl.enterBy(ctx, l, func(s *slot) (*instance, error) { return pl.fill(ctx, s, l, lent) })
		if !errors.Is(err, errUnstarted) {
			return in, leave, err
		}
		if err := pl.askToStart(ctx, c, l); err != nil {
			return nil, nil, err
		}
	}
	return nil, nil, unstarted(l.server.Name)
}

// enterBy returns the instance of a slot; fill finds or creates it.
func (pl *Pool) enterBy(ctx context.Context, l launch, fill func(*slot) (*instance, error)) (in *instance, leave func(), err error) {
	s, err := pl.slot(slotKey{l.server.Name, l.owner})
	if err != nil {
		return nil, nil, err
	}
	select {
	case s.held <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	in, err = fill(s)
	if err != nil {
		<-s.held
		return nil, nil, err
	}
	in.begin()
	if l.mode == sandbox.CopyOnWrite {
		return in, func() { in.done(); <-s.held }, nil
	}
	<-s.held
	return in, in.done, nil
}

func (pl *Pool) slot(k slotKey) (*slot, error) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	if pl.closed {
		return nil, reason.Errorf(reason.ShuttingDown, "the gateway is stopping")
	}
	s, ok := pl.slots[k]
	if !ok {
		if len(pl.slots) >= mostInstances {
			pl.forget()
		}
		if len(pl.slots) >= mostInstances {
			return nil, reason.Errorf(reason.RateLimited, "the limit of %d instances of upstream servers is reached", mostInstances).
				WithRemedy("Try again when others end, or declare servers as shared where possible.")
		}
		s = &slot{held: make(chan struct{}, 1), asking: make(chan struct{}, 1)}
		pl.slots[k] = s
	}
	return s, nil
}

// forget removes slots without an instance. The caller holds pl.mu.
func (pl *Pool) forget() {
	for k, s := range pl.slots {
		select {
		case s.held <- struct{}{}:
			if s.instance == nil && time.Now().After(s.until) {
				delete(pl.slots, k)
			}
			<-s.held
		default:
		}
	}
}

// close ends all instances and admits no more.
func (pl *Pool) close() {
	pl.mu.Lock()
	pl.closed = true
	pl.mu.Unlock()
	pl.sweep(func(*instance) bool { return true })
	pl.starter.processes.Wait()
}

// fill creates the instance of a slot unless a usable one exists. The caller holds the slot.
func (pl *Pool) fill(ctx context.Context, s *slot, l launch, lent []egress.Secret) (*instance, error) {
	if in := s.instance; in != nil {
		if s.good(l) {
			return in, nil
		}
		s.set(nil)
		if in.died() {
			pl.failed(s, l.server.Name, in.unavailable(errors.New("it ended")))
		}
		in.retire()
	}
	if wait := time.Until(s.until); wait > 0 {
		if s.last.Code == reason.SpawnFailed { // waiting does not fix a missing program
			return nil, s.last
		}
		return nil, reason.Errorf(reason.UpstreamUnavailable, "the upstream server %s failed %d times in a row; the next attempt is in %s: %s",
			l.server.Name, s.failures, wait.Round(time.Second/10), strings.TrimPrefix(s.last.Message, failedPrefix(l.server.Name))).WithField("retry_after", wait.Round(time.Second/10).String()).WithRemedy("%s", s.last.NextStep())
	}
	if len(l.injections) > 0 && l.handed == nil {
		return nil, errUnstarted
	}
	in, err := pl.starter.start(ctx, l, lent)
	if err != nil {
		// A server that requires a login is retried as soon as the login exists.
		if ctx.Err() == nil && reason.Of(err) != reason.UpstreamLogin {
			pl.failed(s, l.server.Name, reason.Known(err, reason.UpstreamUnavailable))
		}
		return nil, err
	}
	s.set(in)
	// A caller that lost permissions during the start had no instance yet for EndOf to end.
	if err := pl.standing(l.by); err != nil {
		pl.kill(in)
		return nil, err
	}
	s.failures, s.last = 0, nil
	pl.starter.catalog.noted(l.server.Name, func(k *kept) { k.problem = nil })
	return in, nil
}

// count returns the instances of a server that accept calls, and their calls in progress.
func (pl *Pool) count(server string) (instances, calls int) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	for key, s := range pl.slots {
		if in := s.current.Load(); key.server == server && in != nil {
			in.mu.Lock()
			if !in.over {
				instances++
				calls += in.active
			}
			in.mu.Unlock()
		}
	}
	return instances, calls
}

// current returns the instance of a slot, nil if it has none.
func (pl *Pool) current(k slotKey) *instance {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	if s := pl.slots[k]; s != nil {
		return s.current.Load()
	}
	return nil
}

// failed sets the backoff of a server for all callers.
func (pl *Pool) failed(s *slot, server string, why *reason.Error) {
	wait := min(shortestWait<<min(s.failures, 10), longestWait)
	s.failures++
	s.until, s.last = time.Now().Add(wait), why
	pl.starter.catalog.noted(server, func(k *kept) { k.problem = why })
}

// forgive clears the backoff of a server. A slot in use clears its own.
func (pl *Pool) forgive(server string) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	for k, s := range pl.slots {
		if k.server != server {
			continue
		}
		select {
		case s.held <- struct{}{}:
			s.failures, s.until = 0, time.Time{}
			<-s.held
		default:
		}
	}
}

// withInstance starts an instance for one inspection; leave ends it. For a server that receives
// secrets, withInstance uses the instance that already runs for the same principal.
func (pl *Pool) withInstance(ctx context.Context, l launch, lent []egress.Secret) (in *instance, leave func(), err error) {
	if len(l.injections) == 0 {
		if in, err = pl.starter.start(ctx, l, lent); err != nil {
			return nil, nil, err
		}
		return in, func() { in.close(errIdle); in.discard() }, nil
	}
	in, leave, err = pl.enterBy(ctx, l, func(s *slot) (*instance, error) { return pl.fill(ctx, s, l, lent) })
	if errors.Is(err, errUnstarted) {
		err = unstarted(l.server.Name)
	}
	return in, leave, err
}

// askToStart starts a server for a call, on behalf of its caller. The call's timeout pauses while
// approval is pending.
func (pl *Pool) askToStart(ctx context.Context, c tool.Call, l launch) error {
	s, err := pl.slot(slotKey{l.server.Name, l.owner})
	if err != nil {
		return err
	}
	select {
	case s.asking <- struct{}{}: // concurrent calls wait for the same answer
		defer func() { <-s.asking }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if in := s.current.Load(); in != nil && in.alive() && in.made == l.key() {
		return nil
	}
	if pl.starter.asker.calls == nil {
		return reason.Errorf(reason.ShuttingDown, "the gateway is not ready to decide calls")
	}
	if c.Pause != nil {
		defer c.Pause()()
	}
	from := c.Proposal
	out, err := pl.starter.asker.calls.CallDependent(ctx, tool.DependentCall{
		Caller: from.Caller, Tool: l.server.Name + "/" + declared.Start, Channel: from.Channel, Session: c.Peer.Session,
	}, func(approval string) {
		if c.Peer.Progress != nil {
			c.Peer.Progress(tool.Progress{Message: "waiting for approval " + approval + ": the upstream server " + l.server.Name + " receives secrets when it starts"})
		}
	})
	switch r := out.Report; {
	case err != nil:
		return err
	case out.Denied != nil:
		return reason.Errorf(out.Denied.Code, "the upstream server %s was not started: %w", l.server.Name, out.Denied).WithRemedy("%s", out.Denied.Remedy)
	case r.Outcome != tool.Succeeded:
		return reason.Errorf(reason.Code(r.Reason), "%s", r.Message).WithRemedy("%s", r.Remedy)
	}
	return nil
}

// sweep ends the instances that match, except those whose slot is held.
func (pl *Pool) sweep(should func(*instance) bool) {
	pl.mu.Lock()
	slots := slices.Collect(maps.Values(pl.slots))
	pl.mu.Unlock()
	var ending sync.WaitGroup
	for _, s := range slots {
		select {
		case s.held <- struct{}{}:
		default:
			continue
		}
		in := s.instance
		if in == nil || !should(in) {
			<-s.held
			continue
		}
		s.set(nil)
		ending.Go(func() {
			in.close(errIdle)
			in.discard()
			<-s.held
		})
	}
	ending.Wait()
}

// EndIdle ends all instances without a call in progress.
func (pl *Pool) EndIdle() {
	pl.sweep(func(in *instance) bool { return in.idleFor(0) })
}

// EndOf ends the instances of a caller that lost permissions or one of its credentials. These
// instances get no grace period. A shared instance that a call of p started ends after the calls
// of other principals. EndOf does not wait for any instance. Later calls start new instances.
func (pl *Pool) EndOf(p access.Principal) (ended []Ended) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	for _, s := range pl.slots {
		in := s.current.Load()
		switch {
		case in == nil || !in.alive():
			continue
		case in.owner == p:
			pl.kill(in)
		case in.startedBy == p:
			pl.starter.processes.Go(in.retire)
		default:
			continue
		}
		ended = append(ended, Ended{in.server.Name, in.id, in.owner != p})
	}
	return ended
}

// kill ends an instance without a grace period and does not wait for it.
func (pl *Pool) kill(in *instance) {
	in.mu.Lock()
	in.over, in.retired = true, true
	in.mu.Unlock()
	if in.process == nil {
		pl.starter.processes.Go(func() { in.close(errReduced) })
	} else {
		in.process.stop(errReduced)
	}
}

// drop ends all instances of a server and waits for their calls in progress.
func (pl *Pool) drop(ctx context.Context, server string) error {
	pl.mu.Lock()
	var slots []*slot
	for k, s := range pl.slots {
		if k.server == server {
			slots = append(slots, s)
			delete(pl.slots, k)
		}
	}
	pl.mu.Unlock()
	for _, s := range slots {
		select {
		case s.held <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if in := s.instance; in != nil {
			s.set(nil)
			in.close(errIdle)
			in.discard()
		}
		<-s.held
	}
	return nil
}

// endOversized ends the instances whose state exceeds the limit.
func (pl *Pool) endOversized() {
	pl.sweep(func(in *instance) bool {
		if !pl.starter.states.keepsState(in.server) {
			return false
		}
		err := pl.starter.states.checkState(in.server.Name, pl.starter.states.stateDir(in.server.Name, in.owner))
		if err == nil {
			return false
		}
		pl.starter.catalog.noted(in.server.Name, func(k *kept) { k.problem = reason.Known(err, reason.QuotaExceeded) })
		return true
	})
}
