// Package resume lets a call continue after its client has reached its timeout. Agents limit a
// tool call to about a minute, and approvals take longer. A call whose client runs out of time
// continues without a client, and the client receives reason.StillWaiting. A repeated call by
// the same caller in the same session attaches to the waiting call. A call without a client
// never starts to execute: an approval is held until a client returns.
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

// HeldFor is how long an approval, or a finished outcome, is kept for a client that may return.
const HeldFor = 5 * time.Minute

// margin is how long before its timeout the client receives an answer.
const margin = 5 * time.Second

// maxDetached bounds the calls of one caller that ended or wait for a client. The oldest ended
// calls are dropped first.
const maxDetached = 32

// Pipeline executes calls. *call.Pipeline implements it.
type Pipeline interface {
	Call(ctx context.Context, s call.Submission, observe func(call.Event)) (call.Outcome, error)
}

// Calls are the calls that a client may leave and resume.
type Calls struct {
	pipeline Pipeline
	stopping <-chan struct{}

	// mu guards the calls and their mutable fields.
	mu   sync.Mutex
	open openCalls
}

// New returns Calls that execute by the pipeline. Once stopping is closed, approvals are not held.
func New(p Pipeline, stopping <-chan struct{}) *Calls {
	return &Calls{pipeline: p, stopping: stopping, open: callsInMemory{}}
}

// key identifies a call: a submission with the same key resumes it.
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

// heldCall is one call and its attached client. Calls.mu guards the mutable fields.
type heldCall struct {
	key  key
	live *call.Live
	// peer belongs to the client that is attached, or that was attached last.
	peer   tool.Peer
	cancel context.CancelCauseFunc
	// attached is true while a client is attached; attachedCh is closed when a client attaches and
	// replaced when it leaves.
	attached   bool
	attachedCh chan struct{}
	// immediate selects the events that the client receives at once; nil selects all. news is
	// signalled for such events and when the call has ended.
	immediate func(call.Event) bool
	news      chan struct{}
	// asked is the approval that the call waits for, or nil.
	asked *approval.Record
	// proposal is the id of the call once it has one.
	proposal string
	// decided is true once the call was allowed to run.
	decided, ended bool
	// forget removes an ended call that no client resumed.
	forget *time.Timer
}

// Stay sets how long a client stays attached to a call.
type Stay struct {
	// Limit is the client's timeout for the call, 0 for none. The client is answered 5 s before it.
	Limit time.Duration
	// Gone is closed when the client disconnects without cancelling. A cancellation may still
	// follow within a few seconds.
	Gone <-chan struct{}
	// Leave is closed to detach the client at once.
	Leave <-chan struct{}
	// UntilRun removes the limit once the call was allowed to run: the limit then covers only the
	// policy decision and the approval.
	UntilRun bool
	// Asks, unless nil, reports whether the client leaves because the call waits for an approval
	// that the client can request by itself.
	Asks func(approvalID string) bool
	// Immediate, unless nil, reports whether an event is delivered at once. Other events are delivered
	// with the next such event, or when the call ends, because each delivery wakes the client.
	Immediate func(call.Event) bool
	// Digest is the digest of the submission; if empty, it is computed.
	Digest string
}

// Call makes a call, or attaches to the same call if its client left it, and passes all events to
// observe from the first one.
//
// If the call has not ended 5 s before limit, the error is reason.StillWaiting, with the field
// proposal_id and, when approval is pending, approval_id and expires_at. The call then continues. A
// limit of 0 means none. When ctx ends, the call is cancelled. The submission must have neither an
// idempotency key nor a Hold.
func (c *Calls) Call(ctx context.Context, s call.Submission, limit time.Duration, observe func(call.Event)) (call.Outcome, error) {
	return c.CallFor(ctx, s, Stay{Limit: limit}, observe)
}

// CallFor is Call for a client that may leave for other reasons than its timeout.
func (c *Calls) CallFor(ctx context.Context, s call.Submission, stay Stay, observe func(call.Event)) (call.Outcome, error) {
	if s.IdempotencyKey != "" || s.Hold != nil {
		return call.Outcome{}, errors.New("resume: a submission with an idempotency key or a Hold cannot be resumed")
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
		v.cancel(cancelReason(ctx))
	}
	c.remove(v)
	outcome, _, err := v.live.Follow(context.WithoutCancel(ctx), nothing)
	return outcome, err
}

func nothing(call.Event) {}

// follow passes events to observe until the call has ended or its client leaves. It reports whether
// the call has ended.
func (c *Calls) follow(ctx context.Context, v *heldCall, stay *Stay, observe func(call.Event)) (ended bool) {
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

// cancelGrace is how long a disconnected client may still cancel its call.
const cancelGrace = 5 * time.Second

// lateCancel cancels a detached call when its client cancels it late, unless another client has
// resumed it.
func (c *Calls) lateCancel(ctx context.Context, v *heldCall) {
	timer := time.NewTimer(cancelGrace)
	defer timer.Stop()
	c.mu.Lock()
	attachedCh := v.attachedCh
	c.mu.Unlock()
	select {
	case <-ctx.Done():
	case <-attachedCh:
		return
	case <-timer.C:
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !v.attached {
		v.cancel(cancelReason(ctx))
		c.open.remove(v)
	}
}

// cancelReason returns the error of a call whose client's context ended.
func cancelReason(ctx context.Context) error {
	if why := (&reason.Error{}); errors.As(context.Cause(ctx), &why) {
		return why
	}
	return reason.Errorf(reason.Cancelled, "the client cancelled the call")
}

// arrive returns the oldest detached call with the same key, or starts one.
func (c *Calls) arrive(ctx context.Context, s *call.Submission, stay *Stay) (*heldCall, error) {
	k, err := keyOf(s, stay.Digest)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, v := range c.open.of(k) {
		if !v.attached {
			v.attachLocked(s.Peer, stay.Immediate)
			return v, nil
		}
	}
	v := c.beginLocked(ctx, k, s)
	v.attachLocked(s.Peer, stay.Immediate)
	return v, nil
}

// attachLocked attaches a client to the call.
func (v *heldCall) attachLocked(peer tool.Peer, immediate func(call.Event) bool) {
	v.attached, v.peer, v.immediate = true, peer, immediate
	close(v.attachedCh)
	if v.forget != nil {
		v.forget.Stop()
	}
}

// beginLocked starts a call that has no client attached.
func (c *Calls) beginLocked(ctx context.Context, k key, s *call.Submission) *heldCall {
	v := &heldCall{key: k, live: call.NewLive(), peer: s.Peer, attachedCh: make(chan struct{}), news: make(chan struct{}, 1)}
	// The call outlives ctx, and keeps the caller's values.
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	v.cancel = cancel
	made := *s
	made.Hold, made.Peer = func(ctx context.Context) error { return c.hold(ctx, v) }, c.peerOf(v)
	c.open.add(v)
	go func() {
		defer cancel(nil)
		outcome, err := c.pipeline.Call(own, made, func(e call.Event) { c.note(v, e) })
		v.live.End(outcome, err)
		c.end(v)
	}()
	return v
}

// peerOf returns a peer that forwards to the client that is attached.
func (c *Calls) peerOf(v *heldCall) tool.Peer {
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
			// A client that resumes may send the answer to an earlier request.
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

// present returns the attached client, or the zero value if none is attached.
func (c *Calls) present(v *heldCall) tool.Peer {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !v.attached {
		return tool.Peer{}
	}
	return v.peer
}

// note records the progress of a call.
func (c *Calls) note(v *heldCall, e call.Event) {
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
	heeded := v.immediate == nil || v.immediate(e)
	c.mu.Unlock()
	if v.live.Add(e); heeded && !e.Follows {
		v.wake()
	}
}

// wake signals new events to the attached client.
func (v *heldCall) wake() {
	select {
	case v.news <- struct{}{}:
	default: // a wake-up is pending
	}
}

// runs reports whether a call was allowed to run.
func (c *Calls) runs(v *heldCall) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return v.decided
}

func (c *Calls) waitsFor(v *heldCall, approvalID string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return v.asked != nil && v.asked.ID == approvalID
}

// hold returns when a client is attached, so that a call without a client does not start.
func (c *Calls) hold(ctx context.Context, v *heldCall) error {
	late := time.NewTimer(HeldFor)
	defer late.Stop()
	for {
		c.mu.Lock()
		attached, attachedCh := v.attached, v.attachedCh
		c.mu.Unlock()
		if attached {
			return nil
		}
		select {
		case <-attachedCh:
		case <-late.C:
			return reason.Errorf(reason.ApprovalExpired, "resuming the call: it was approved, but its client did not repeat it within %s", HeldFor).
				WithRemedy("Make the call again; it needs a new approval.")
		case <-c.stopping:
			return reason.Errorf(reason.ShuttingDown, "the gateway is stopping")
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// end keeps the outcome of a call that has no client.
func (c *Calls) end(v *heldCall) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v.ended = true; !v.attached {
		c.keepLocked(v)
	}
	v.wake()
}

func (c *Calls) keepLocked(v *heldCall) {
	v.forget = time.AfterFunc(HeldFor, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !v.attached {
			c.open.remove(v)
		}
	})
	c.boundLocked(v.key)
}

// boundLocked drops the oldest ended calls of a caller above the bound.
func (c *Calls) boundLocked(of key) {
	var ended []*heldCall
	for v := range c.open.all() {
		if v.key.principal == of.principal && v.key.device == of.device && v.ended && !v.attached {
			ended = append(ended, v)
		}
	}
	if len(ended) <= maxDetached {
		return
	}
	slices.SortFunc(ended, func(a, b *heldCall) int { return strings.Compare(a.proposal, b.proposal) })
	for _, v := range ended[:len(ended)-maxDetached] {
		v.forget.Stop()
		c.open.remove(v)
	}
}

// depart detaches the client and returns the error that describes how to resume the call.
func (c *Calls) depart(v *heldCall) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	v.attached, v.attachedCh = false, make(chan struct{})
	if v.ended {
		c.keepLocked(v)
	}
	return v.stillLocked()
}

func (v *heldCall) stillLocked() error {
	if a := v.asked; a != nil {
		return reason.Errorf(reason.StillWaiting, "the call is waiting for approval %s until %s", a.ID, a.ExpiresAt.Format(time.RFC3339)).
			WithRemedy("Repeat the identical call to keep waiting. A user other than the agent answers with `palyra approve %s`; an approval is held %d minutes for the repeated call.", a.ID, int(HeldFor.Minutes())).
			WithField("approval_id", a.ID).WithField("expires_at", a.ExpiresAt.Format(time.RFC3339)).WithField("proposal_id", v.proposal)
	}
	what := "the call continues and is not decided yet"
	if v.decided {
		what = "the call was allowed and is still running"
	}
	return reason.Errorf(reason.StillWaiting, "%s", what).
		WithRemedy("Repeat the identical call to wait for its result; `palyra calls cancel %s` ends it.", v.proposal).
		WithField("proposal_id", v.proposal)
}

// Detached returns the number of calls that have no client attached.
func (c *Calls) Detached() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for v := range c.open.all() {
		if !v.attached {
			n++
		}
	}
	return n
}

func (c *Calls) remove(v *heldCall) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open.remove(v)
}
