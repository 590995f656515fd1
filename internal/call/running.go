package call

import (
	"context"
	"slices"
	"strings"
	"sync"

	"palyra/internal/core/access"
	"palyra/internal/core/reason"
)

// UnderWay counts the calls that have not ended, including waiting calls.
func (h *History) UnderWay() int { return h.sessions.UnderWay() }

// Running is a call whose tool runs.
type Running struct {
	ProposalID string
	Tool       string
	Principal  access.Principal
}

// Running lists the calls whose tool runs, the oldest first.
func (h *History) Running() []Running {
	u := h.underWay
	u.mu.Lock()
	defer u.mu.Unlock()
	var list []Running
	for c := range u.live {
		if c.running.Load() {
			list = append(list, Running{c.ids.ID, c.sub.Tool, c.sub.Caller.Principal})
		}
	}
	slices.SortFunc(list, func(a, b Running) int { return strings.Compare(a.ProposalID, b.ProposalID) })
	return list
}

// EndCallers ends the calls of the callers for which done returns true, at any stage, and
// returns their number. Running programs are killed, and their changes are not committed.
// EndCallers does not wait for the calls to end.
func (h *History) EndCallers(done func(access.Caller) bool, why *reason.Error) (n int) {
	u := h.underWay
	u.mu.Lock()
	defer u.mu.Unlock()
	for c, cancel := range u.live {
		if done(c.sub.Caller) {
			cancel(why)
			n++
		}
	}
	return n
}

// find returns a live call, or nil. The caller holds u.mu.
func (u *callsUnderWay) find(id string) *call {
	for c := range u.live {
		if c.ids.ID == id {
			return c
		}
	}
	return nil
}

// end cancels a live call. The returned channel is closed when the call has ended; it is nil if
// the call is not live.
func (u *callsUnderWay) end(id string, why error) <-chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	c := u.find(id)
	if c == nil {
		return nil
	}
	if c.left == nil {
		c.left = make(chan struct{})
	}
	u.live[c](why)
	return c.left
}

// Run admits calls until ctx ends, then waits for the calls under way. The calls that have not
// ended when late is closed are cancelled with reason SHUTTING_DOWN; their pending approvals
// stay pending.
func (p *Pipeline) Run(ctx context.Context, late <-chan struct{}) error {
	<-ctx.Done()
	u := p.underWay
	u.mu.Lock()
	u.closing = true
	u.mu.Unlock()
	done := make(chan struct{})
	var cutting sync.WaitGroup
	cutting.Go(func() {
		select {
		case <-late:
			u.cutOff()
		case <-done:
		}
	})
	u.calls.Wait()
	close(done)
	cutting.Wait()
	return nil
}

// cutOff cancels the calls that have not ended.
func (u *callsUnderWay) cutOff() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.late = true
	for _, cancel := range u.live {
		cancel(errStopping())
	}
}
