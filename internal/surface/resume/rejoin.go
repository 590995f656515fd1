// Package resume lets a call outlive the patience of its client. Agents give a tool
// call a time, often a minute, and people take longer than that to answer. A call
// whose client has no more time goes on without it, and the client is told so with
// reason.StillWaiting; the same call again, by the same caller in the same session,
// joins it. While nobody is there, no answer lets a call begin: a yes is held for
// somebody to come back.
package resume

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"palyra/internal/call"
	"palyra/internal/call/approval"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// HeldFor is how long a yes, or an end, waits for somebody to come back for it.
const HeldFor = 5 * time.Minute

// margin is how long before the end of a client's time it gets its answer.
const margin = 5 * time.Second

// mostLeft bounds the calls of one caller that ended or wait for somebody to come
// back. The oldest that ended are forgotten first.
const mostLeft = 32

// Pipeline makes calls. It is *call.Pipeline.
type Pipeline interface {
	Call(ctx context.Context, s call.Submission, observe func(call.Event)) (call.Outcome, error)
}

// Calls are the calls that somebody may leave and come back to.
type Calls struct {
	pipeline Pipeline
	stopping <-chan struct{}

	mu   sync.Mutex
	left map[key][]*visit
}

// New returns what makes its calls by the pipeline. Once stopping is closed, no yes is
// held any more.
func New(p Pipeline, stopping <-chan struct{}) *Calls {
	return &Calls{pipeline: p, stopping: stopping, left: make(map[key][]*visit)}
}

// key says which calls are the same one.
type key struct {
	principal, onBehalfOf access.Principal
	device, digest        string
}

func keyOf(s *call.Submission, digest string) (k key, err error) {
	if digest == "" {
		digest, err = s.Digest()
	}
	return key{s.Caller.Principal, s.Caller.OnBehalfOf, s.Caller.DeviceID, digest}, err
}

// visit is one call and who is there for it. Calls.mu guards what changes.
type visit struct {
	key  key
	live *call.Live
	// peer is that of the client which is there, or was there last.
	peer   tool.Peer
	cancel context.CancelCauseFunc
	// there is true while a client is there; came is closed when one comes, and
	// replaced when it leaves.
	there bool
	came  chan struct{}
	// heeds are the events that the client is told of at once, nil for all; news has one
	// when there are some, or the call has ended.
	heeds func(call.Event) bool
	news  chan struct{}
	// asked is the approval that the call waits for, nil when it waits for none.
	asked *approval.Record
	// proposal is the id of the call once it has one.
	proposal string
	// decided is true once the call was let run.
	decided, ended bool
	// forget takes an ended call that nobody came back for away.
	forget *time.Timer
}

// Stay says how long a client stays with a call.
type Stay struct {
	// Limit is the client's time for the call, 0 for as long as it takes. It has its
	// answer 5 s earlier.
	Limit time.Duration
	// Gone, when it is closed, says that the client went away without a word. That it
	// cancels the call may come after it, within a few seconds.
	Gone <-chan struct{}
	// Leave, when it is closed, has the client leave at once.
	Leave <-chan struct{}
	// UntilRun has the limit count no more once the call was let run: what it was for
	// is the answer of policy and people.
	UntilRun bool
	// Asks, unless nil, reports whether the client leaves because of an approval that
	// the call waits for, since it has a way of its own to ask.
	Asks func(approvalID string) bool
	// Heeds, unless nil, reports whether the client is told of an event at once. It is
	// told of the others with the next one of these, or when the call ends: each time it
	// is told something, it has to be woken.
	Heeds func(call.Event) bool
	// Digest is that of the submission; "" has it taken.
	Digest string
}

// Call makes a call, or joins the same one if its client had left it, and tells
// observe what happens, from the beginning.
//
// When limit, less 5 s, is over before the call has ended, the error is
// reason.StillWaiting, with the fields proposal_id and, where people are asked,
// approval_id and expires_at. The call goes on then. A limit of 0 is none. When ctx
// ends, the call is cancelled. A submission may have neither an idempotency key nor a
// Hold of its own.
func (c *Calls) Call(ctx context.Context, s call.Submission, limit time.Duration, observe func(call.Event)) (call.Outcome, error) {
	return c.CallFor(ctx, s, Stay{Limit: limit}, observe)
}

// CallFor is Call for a client that leaves for other reasons as well.
func (c *Calls) CallFor(ctx context.Context, s call.Submission, stay Stay, observe func(call.Event)) (call.Outcome, error) {
	if s.IdempotencyKey != "" || s.Hold != nil {
		return call.Outcome{}, errors.New("rejoin: a call with an idempotency key, or held otherwise, cannot be left")
	}
	v, err := c.arrive(ctx, &s, &stay)
	if err != nil {
		return call.Outcome{}, err
	}
	ended := c.follow(ctx, v, &stay, observe)
	if !ended && ctx.Err() == nil {
		still := c.depart(v)
		select {
		case <-stay.Gone:
			c.lateCancel(ctx, v)
		default:
		}
		return call.Outcome{}, still
	}
	if !ended {
		v.cancel(gone(ctx))
	}
	c.remove(v)
	outcome, _, err := v.live.Follow(context.WithoutCancel(ctx), nothing)
	return outcome, err
}

func nothing(call.Event) {}

// follow tells observe what happens, until the call has ended, which it reports, or its
// client leaves.
func (c *Calls) follow(ctx context.Context, v *visit, stay *Stay, observe func(call.Event)) (ended bool) {
	var late <-chan time.Time
	if stay.Limit > 0 {
		timer := time.NewTimer(stay.Limit - min(margin, stay.Limit/2))
		defer timer.Stop()
		late = timer.C
	}
	seen, leaves := 0, false
	for {
		events, ended := v.live.Since(seen)
		for _, e := range events {
			observe(e)
			leaves = leaves || stay.Asks != nil && e.Asked != nil && c.waitsFor(v, e.Asked.ID) && stay.Asks(e.Asked.ID)
		}
		if seen += len(events); ended || leaves {
			return ended
		}
		select {
		case <-v.news:
		case <-late:
			leaves = !stay.UntilRun || !c.runs(v)
		case <-stay.Gone:
			return false
		case <-stay.Leave:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// lateWord is how long a client that went away may still cancel its call.
const lateWord = 5 * time.Second

// lateCancel cancels a call that was left when its client says so after all, unless
// somebody came back for it.
func (c *Calls) lateCancel(ctx context.Context, v *visit) {
	timer := time.NewTimer(lateWord)
	defer timer.Stop()
	c.mu.Lock()
	came := v.came
	c.mu.Unlock()
	select {
	case <-ctx.Done():
	case <-came:
		return
	case <-timer.C:
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !v.there {
		v.cancel(gone(ctx))
		c.removeLocked(v)
	}
}

// gone is why a call ends whose client's context did.
func gone(ctx context.Context) error {
	if why := (&reason.Error{}); errors.As(context.Cause(ctx), &why) {
		return why
	}
	return reason.Errorf(reason.Cancelled, "the client cancelled the call")
}

// arrive returns the oldest of the same calls that was left, or begins one.
func (c *Calls) arrive(ctx context.Context, s *call.Submission, stay *Stay) (*visit, error) {
	k, err := keyOf(s, stay.Digest)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, v := range c.left[k] {
		if !v.there {
			v.comesLocked(s.Peer, stay.Heeds)
			return v, nil
		}
	}
	v := c.beginLocked(ctx, k, s)
	v.comesLocked(s.Peer, stay.Heeds)
	return v, nil
}

// comesLocked has a client be there.
func (v *visit) comesLocked(peer tool.Peer, heeds func(call.Event) bool) {
	v.there, v.peer, v.heeds = true, peer, heeds
	close(v.came)
	if v.forget != nil {
		v.forget.Stop()
	}
}

// beginLocked begins a call at which no client is yet.
func (c *Calls) beginLocked(ctx context.Context, k key, s *call.Submission) *visit {
	v := &visit{key: k, live: call.NewLive(), peer: s.Peer, came: make(chan struct{}), news: make(chan struct{}, 1)}
	// The call outlives ctx, and keeps what it says of the caller.
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	v.cancel = cancel
	made := *s
	made.Hold, made.Peer = func(ctx context.Context) error { return c.hold(ctx, v) }, c.peerOf(v)
	c.left[k] = append(c.left[k], v)
	go func() {
		defer cancel(nil)
		call.Deepen()
		outcome, err := c.pipeline.Call(own, made, func(e call.Event) { c.note(v, e) })
		v.live.End(outcome, err)
		c.end(v)
	}()
	return v
}

// peerOf passes on what runs the call has to say, to whichever client is there.
func (c *Calls) peerOf(v *visit) tool.Peer {
	passed := v.peer
	passed.Progress = func(p tool.Progress) {
		if to := c.present(v); to.Progress != nil {
			to.Progress(p)
		}
	}
	passed.Log = func(l tool.LogLine) {
		if to := c.present(v); to.Log != nil {
			to.Log(l)
		}
	}
	if v.peer.Ask != nil {
		passed.Ask = func(ctx context.Context, requests map[string]tool.Request) (map[string]json.RawMessage, error) {
			// Whoever left comes back, perhaps with the answer to what was asked before.
			if err := c.hold(ctx, v); err != nil {
				return nil, err
			}
			to := c.present(v)
			if to.Ask == nil {
				return nil, nil
			}
			return to.Ask(ctx, requests)
		}
	}
	return passed
}

// present is the client that is there; the zero value when none is.
func (c *Calls) present(v *visit) tool.Peer {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !v.there {
		return tool.Peer{}
	}
	return v.peer
}

// note remembers how far a call is.
func (c *Calls) note(v *visit, e call.Event) {
	c.mu.Lock()
	switch {
	case e.Proposed != nil:
		v.proposal = e.Proposed.ProposalID
	case e.Asked != nil && e.Asked.State == approval.Pending:
		v.asked = e.Asked
	case e.Resolved != nil:
		v.asked = nil
	case e.Decision != nil:
		v.decided = e.Decision.Allowed
	}
	heeded := v.heeds == nil || v.heeds(e)
	c.mu.Unlock()
	if v.live.Add(e); heeded && !e.Follows {
		v.wake()
	}
}

// wake has the client that is there look for what is new.
func (v *visit) wake() {
	select {
	case v.news <- struct{}{}:
	default: // it looks already
	}
}

// runs reports whether a call was let run.
func (c *Calls) runs(v *visit) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return v.decided
}

func (c *Calls) waitsFor(v *visit, approvalID string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return v.asked != nil && v.asked.ID == approvalID
}

// hold returns when a client is there, so that nothing begins that nobody wants any
// more.
func (c *Calls) hold(ctx context.Context, v *visit) error {
	late := time.NewTimer(HeldFor)
	defer late.Stop()
	for {
		c.mu.Lock()
		there, came := v.there, v.came
		c.mu.Unlock()
		if there {
			return nil
		}
		select {
		case <-came:
		case <-late.C:
			return reason.Errorf(reason.ApprovalExpired, "the call could have gone on, and its client did not come back for it within %s", HeldFor).
				WithRemedy("Make the call again; it is asked about anew.")
		case <-c.stopping:
			return reason.Errorf(reason.ShuttingDown, "the gateway is stopping")
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// end keeps what came of a call that nobody is there for.
func (c *Calls) end(v *visit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v.ended = true; !v.there {
		c.keepLocked(v)
	}
	v.wake()
}

func (c *Calls) keepLocked(v *visit) {
	v.forget = time.AfterFunc(HeldFor, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !v.there {
			c.removeLocked(v)
		}
	})
	c.boundLocked(v.key)
}

// boundLocked forgets the ends of a caller's calls that are too many.
func (c *Calls) boundLocked(of key) {
	var ended []*visit
	for k, list := range c.left {
		if k.principal != of.principal || k.device != of.device {
			continue
		}
		for _, v := range list {
			if v.ended && !v.there {
				ended = append(ended, v)
			}
		}
	}
	if len(ended) <= mostLeft {
		return
	}
	slices.SortFunc(ended, func(a, b *visit) int { return strings.Compare(a.proposal, b.proposal) })
	for _, v := range ended[:len(ended)-mostLeft] {
		v.forget.Stop()
		c.removeLocked(v)
	}
}

// depart leaves a call, and says how to come back to it.
func (c *Calls) depart(v *visit) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	v.there, v.came = false, make(chan struct{})
	if v.ended {
		c.keepLocked(v)
	}
	return v.stillLocked()
}

func (v *visit) stillLocked() error {
	if a := v.asked; a != nil {
		return reason.Errorf(reason.StillWaiting, "the call still waits for approval %s, until %s", a.ID, a.ExpiresAt.Format(time.RFC3339)).
			WithRemedy("Make the very same call again: it goes on waiting where this one left off. Somebody else than the agent answers with `palyra approve %s`; a yes is held %d minutes for the repeated call.", a.ID, int(HeldFor.Minutes())).
			WithField("approval_id", a.ID).WithField("expires_at", a.ExpiresAt.Format(time.RFC3339)).WithField("proposal_id", v.proposal)
	}
	what := "the call is not decided yet, and goes on"
	if v.decided {
		what = "the call was let run and still runs"
	}
	return reason.Errorf(reason.StillWaiting, "%s", what).
		WithRemedy("Make the very same call again to wait for its result; `palyra calls cancel %s` ends it.", v.proposal).
		WithField("proposal_id", v.proposal)
}

// Detached returns the number of calls that have no client attached.
func (c *Calls) Detached() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, list := range c.left {
		for _, v := range list {
			if !v.there {
				n++
			}
		}
	}
	return n
}

func (c *Calls) remove(v *visit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removeLocked(v)
}

func (c *Calls) removeLocked(v *visit) {
	rest := slices.DeleteFunc(c.left[v.key], func(other *visit) bool { return other == v })
	if len(rest) == 0 {
		delete(c.left, v.key)
		return
	}
	c.left[v.key] = rest
}
