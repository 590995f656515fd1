package call

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"palyra/internal/call/approval"
	"palyra/internal/call/record"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
)

// PastCall is a call as the journal has it, and how far it is if it goes on.
type PastCall struct {
	record.Story
	ProposalID string
	Tool       string
	Caller     Parties
	// Live is true while the call goes on, Running while its tool runs. WaitsFor is
	// the approval that people are asked for, "" when they are not.
	Live, Running bool
	WaitsFor      string
}

// Parties says whose a call is.
type Parties struct{ Principal, OnBehalfOf string }

// Is reports whether a call is a principal's, or was made on its behalf.
func (o Parties) Is(p access.Principal) bool {
	return p.String() == o.Principal || p.String() == o.OnBehalfOf
}

// Filter selects calls. What is empty selects all.
type Filter struct {
	// Of and Principal select by whose the calls are, as for sessions. Run selects
	// those of one run, Open those that go on.
	Of, Principal access.Principal
	Run           string
	Open          bool
	PageSize      int
	PageToken     string
}

const defaultCalls = 50

// wants reports whether the filter selects a call by whose it is.
func (f *Filter) wants(of Parties) bool {
	return (f.Of.IsZero() || of.Is(f.Of)) && (f.Principal.IsZero() || of.Is(f.Principal))
}

// PastCalls returns a page of calls, newest first, and the token of the next one.
func (p *Pipeline) PastCalls(ctx context.Context, f Filter) (list []PastCall, next string, err error) {
	f.PageSize = cmp.Or(f.PageSize, defaultCalls)
	ids := p.liveIDs(f)
	if !f.Open {
		if ids, next, err = p.Ledger.Calls(ctx, f); err != nil {
			return nil, "", err
		}
	}
	for _, id := range ids {
		one, err := p.PastCall(ctx, id)
		switch {
		case reason.Of(err) == reason.NotFound: // it was erased, or is not on record yet
			continue
		case err != nil:
			return nil, "", err
		}
		if f.wants(one.Caller) {
			list = append(list, one)
		}
	}
	return list, next, nil
}

// liveIDs are the calls that go on.
func (p *Pipeline) liveIDs(f Filter) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var ids []string
	for c := range p.live {
		if f.wants(c.of()) && (f.Run == "" || f.Run == c.proposal.Run) {
			ids = append(ids, c.proposal.ID)
		}
	}
	slices.SortFunc(ids, func(a, b string) int { return strings.Compare(b, a) })
	return ids
}

// PastCall returns one call by the id of its proposal.
func (p *Pipeline) PastCall(ctx context.Context, id string) (PastCall, error) {
	past := PastCall{ProposalID: id}
	// Live before the journal: a call that ends in between has its end there.
	p.mu.Lock()
	live := p.liveCall(id)
	if live != nil {
		past.Live, past.Running, past.Caller = true, live.running.Load(), live.of()
		past.Tool = live.sub.Tool
		if asked := live.asked.Load(); asked != nil {
			past.WaitsFor = *asked
		}
	}
	p.mu.Unlock()
	var err error
	if past.Story, err = storyOf(ctx, p.Ledger, id); err != nil {
		return past, err
	}
	switch {
	case past.Proposed != nil:
		past.Tool, past.Caller = past.Proposed.Tool, Parties{past.Proposed.Principal, past.Proposed.OnBehalfOf}
	case past.Refused != nil:
		past.Tool, past.Caller = past.Refused.Tool, Parties{Principal: past.Refused.Principal}
	case past.Sighted != nil:
		past.Tool, past.Caller = past.Sighted.Tool, Parties{past.Sighted.Principal, past.Sighted.OnBehalfOf}
	case live == nil:
		return past, NoCall(id)
	}
	return past, nil
}

// Arguments are those of a call as they are kept, nil for none. They may be
// reason.ResultExpired or reason.VaultLocked.
func (p *Pipeline) Arguments(ctx context.Context, past *PastCall) ([]byte, error) {
	if past.Proposed == nil {
		return nil, nil
	}
	return p.kept(ctx, past.Proposed.Arguments, past.Proposed.ArgumentsBlob)
}

// kept returns arguments that an event has, or the blob that it names.
func (p *Pipeline) kept(ctx context.Context, arguments []byte, blob string) ([]byte, error) {
	if blob != "" {
		return p.Ledger.Blob(ctx, blob)
	}
	return arguments, nil
}

// ResultKept says why the result of a call cannot be had that has one:
// reason.ResultExpired or reason.VaultLocked.
func (p *Pipeline) ResultKept(ctx context.Context, past *PastCall) error {
	if past.Attested == nil || past.Attested.ResultBlob == "" {
		return nil
	}
	_, err := p.Ledger.Blob(ctx, past.Attested.ResultBlob)
	return err
}

// NoCall is the error for a call that does not exist, and in the same words for one
// that the caller may not see.
func NoCall(id string) error {
	return reason.Errorf(reason.NotFound, "there is no call %s", id).WithRemedy("`palyra calls list` shows them.")
}

// CancelCall ends a call that goes on, whatever it waits for, and waits until its
// end is durable. Of a call that has ended it changes nothing.
func (p *Pipeline) CancelCall(ctx context.Context, by access.Principal, id, why string) error {
	text := by.String() + " cancelled the call"
	if why != "" {
		text += ": " + why
	}
	ended := p.endCall(id, reason.Errorf(reason.Cancelled, "%s", text))
	if ended == nil {
		return nil
	}
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return reason.Errorf(reason.Cancelled, "call %s is told to end and has not ended yet: %w", id, ctx.Err())
	}
}

// endCall cancels a live call. The channel is closed once the call has ended; it is
// nil when there is no such call.
func (p *Pipeline) endCall(id string, why error) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.liveCall(id)
	if c == nil {
		return nil
	}
	if c.left == nil {
		c.left = make(chan struct{})
	}
	p.live[c](why)
	return c.left
}

// liveCall finds a call that goes on, under the lock.
func (p *Pipeline) liveCall(id string) *call {
	for c := range p.live {
		if c.proposal.ID == id {
			return c
		}
	}
	return nil
}

// of says whose the call is.
func (c *call) of() Parties {
	return Parties{c.sub.Caller.Principal.String(), c.sub.Caller.OnBehalfOf.String()}
}

// noteAsk remembers which approval the call waits for, for those who ask.
func (c *call) noteAsk(e *Event) {
	switch {
	case e.Asked != nil && e.Asked.State == approval.Pending:
		id := e.Asked.ID
		c.asked.Store(&id)
	case e.Resolved != nil:
		c.asked.Store(nil)
	}
}
