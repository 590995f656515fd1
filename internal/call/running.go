package call

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"sync"

	"palyra/internal/core/access"
	"palyra/internal/core/reason"
)

// UnderWay counts the calls that have not ended, including waiting calls.
func (p *Pipeline) UnderWay() int { return p.sessions.UnderWay() }

// Running is a call whose tool runs.
type Running struct {
	ProposalID string
	Tool       string
	Principal  access.Principal
}

// Running lists the calls whose tool runs, the oldest first.
func (p *Pipeline) Running() []Running {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []Running
	for c := range p.live {
		if c.running.Load() {
			list = append(list, Running{c.proposal.ID, c.sub.Tool, c.sub.Caller.Principal})
		}
	}
	slices.SortFunc(list, func(a, b Running) int { return strings.Compare(a.ProposalID, b.ProposalID) })
	return list
}

// EndCallers ends the calls of the callers for which done returns true, at any stage, and
// returns their number. Running programs are killed, and their changes are not committed.
// EndCallers does not wait for the calls to end.
func (p *Pipeline) EndCallers(done func(access.Caller) bool, why *reason.Error) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c, cancel := range p.live {
		if done(c.sub.Caller) {
			cancel(why)
			n++
		}
	}
	return n
}

// Run admits calls until ctx ends, then waits for the calls under way. The calls that have not
// ended when late is closed are cancelled with reason SHUTTING_DOWN; their pending approvals
// stay pending.
func (p *Pipeline) Run(ctx context.Context, late <-chan struct{}) error {
	<-ctx.Done()
	p.mu.Lock()
	p.closing = true
	p.mu.Unlock()
	done := make(chan struct{})
	var cutting sync.WaitGroup
	cutting.Go(func() {
		select {
		case <-late:
			p.cutOff()
		case <-done:
		}
	})
	p.calls.Wait()
	close(done)
	cutting.Wait()
	return nil
}

// cutOff cancels the calls that have not ended.
func (p *Pipeline) cutOff() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.late = true
	for _, cancel := range p.live {
		cancel(errStopping())
	}
}

// GrowStack grows the stack of a new goroutine to the size that Call and the store below it need.
// Otherwise the stack would double repeatedly, and each time be copied. Call it first in every
// goroutine that makes a call.
//
//go:noinline
func GrowStack() {
	var room [20 << 10]byte
	runtime.KeepAlive(&room)
}
