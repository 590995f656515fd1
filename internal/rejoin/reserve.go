package rejoin

import (
	"context"
	"errors"
	"time"

	"palyra/internal/reason"
	"palyra/internal/toolcall"
)

// Reserve takes a call as far as it goes without its client: policy and people are
// asked, and nothing is decided or runs. It is for who hears of a call before the call
// comes, such as the hook of an agent that also has the gateway's tools. The call that
// follows by Call, of the same credential, tool, input and CallID, goes on with it and is
// asked about no more; one that differs, or comes after HeldFor, is a call of its own.
//
// It reports whether the call was let through and is held. Where it was not, the outcome
// or the error says why. The limit is that of Call: after reason.StillWaiting, the same
// Reserve again goes on waiting. When ctx ends, the call is cancelled.
func (c *Calls) Reserve(ctx context.Context, s toolcall.Submission, limit time.Duration, observe func(toolcall.Event)) (held bool, o toolcall.Outcome, err error) {
	if s.IdempotencyKey != "" || s.Hold != nil || s.CallID == "" {
		return false, o, errors.New("rejoin: a call without an id of its agent's, with an idempotency key, or held otherwise cannot be reserved")
	}
	v, err := c.reserve(ctx, s)
	if err != nil {
		return false, o, err
	}
	staying, leave := context.WithCancel(ctx)
	defer leave()
	if limit > 0 {
		defer time.AfterFunc(limit-min(margin, limit/2), leave).Stop()
	}
	go func() {
		select {
		case <-v.held:
			leave()
		case <-staying.Done():
		}
	}()
	o, ended, err := v.live.Follow(staying, observe)
	select {
	case <-v.held:
		held = !ended
	default:
	}
	switch {
	case ended:
		c.remove(v)
		return false, o, err
	case held:
		return true, toolcall.Outcome{}, nil
	case ctx.Err() != nil:
		v.cancel(gone(ctx))
		c.remove(v)
		o, _, err = v.live.Follow(context.WithoutCancel(ctx), func(toolcall.Event) {})
		return false, o, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return false, toolcall.Outcome{}, v.stillLocked()
}

// reserve finds what was reserved before, or begins it.
func (c *Calls) reserve(ctx context.Context, s toolcall.Submission) (*visit, error) {
	as, err := reservedKeyOf(&s)
	if err != nil {
		return nil, err
	}
	k, err := keyOf(&s)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if v := c.reserved[as]; v != nil {
		return v, nil
	}
	mine := 0
	for other := range c.reserved {
		if other.principal == as.principal && other.device == as.device {
			mine++
		}
	}
	if mine >= mostLeft {
		return nil, reason.Errorf(reason.RateLimited, "%d calls are reserved that did not come", mine)
	}
	v := c.beginLocked(ctx, k, s)
	v.as = as
	c.reserved[as] = v
	return v, nil
}
