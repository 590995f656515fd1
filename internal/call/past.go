package call

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"palyra/internal/call/record"
	"palyra/internal/call/session"
	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/journal"
)

// PastCall is a call as journaled, with its progress if it is still under way.
type PastCall struct {
	record.Story
	ProposalID string
	Tool       string
	Caller     Parties
	// Live is true while the call is under way, Running while its tool runs. WaitsFor is the
	// pending approval of the call, or "" if it waits for none.
	Live, Running bool
	WaitsFor      string
}

// Parties are the principals that a call belongs to.
type Parties struct{ Principal, OnBehalfOf string }

// Is reports whether a call is the principal's own or was made on its behalf.
func (o Parties) Is(p access.Principal) bool {
	return p.String() == o.Principal || p.String() == o.OnBehalfOf
}

// PastCalls finds calls.
type PastCalls interface {
	// Calls returns a page of the ids of calls, newest first, and the token of the next page.
	// It filters by parties and by run.
	Calls(ctx context.Context, f Filter) (ids []string, next string, err error)
	// RunCalls counts the calls that a run of the gateway made.
	RunCalls(ctx context.Context, p access.Principal, run string) (int, error)
	// Claimed returns the claim of an idempotency key, if one exists.
	Claimed(ctx context.Context, p access.Principal, key string) (Claim, bool, error)
	// OpenCalls lists the calls that were decided and have no end.
	OpenCalls(ctx context.Context) ([]OpenCall, error)
}

// PastSessions finds and ends sessions.
type PastSessions interface {
	// NewestSession finds the newest session of a key, and Session one by its id. Both call
	// each with the events of the session and its calls, from which the caller computes the
	// state of the session.
	NewestSession(ctx context.Context, k session.Key, each EachEvent) (session.Past, bool, error)
	Session(ctx context.Context, id string, each EachEvent) (session.Past, bool, error)
	// Sessions returns a page of sessions, newest first, and the token of the next page. It sets
	// only the number of calls and LastAt in Past.Did.
	Sessions(ctx context.Context, f session.Filter) ([]session.Past, string, error)
	// EndSession stores the end of a session together with an event.
	EndSession(ctx context.Context, e session.Ending, d event.Draft) error
}

// EachEvent is called with each event of a session and of its calls. e is valid until it
// returns. ofRun is true if the event belongs to a call of a gateway run. An error stops the
// iteration.
type EachEvent func(e *journal.Event, ofRun bool) error

// Filter selects calls. Empty fields select all.
type Filter struct {
	// Of and Principal select calls by their parties, as for sessions. Run selects the calls of
	// one run, Open the calls under way.
	Of, Principal access.Principal
	Run           string
	Open          bool
	PageSize      int
	PageToken     string
}

const defaultCalls = 50

// wants reports whether the filter selects a call of these parties.
func (f *Filter) wants(of Parties) bool {
	return (f.Of.IsZero() || of.Is(f.Of)) && (f.Principal.IsZero() || of.Is(f.Principal))
}

// History finds calls and sessions, including those under way, and ends them.
type History struct {
	ledger   Ledger
	sessions *session.Book
	underWay *callsUnderWay
}

// PastCalls returns a page of calls, newest first, and the token of the next page.
func (h *History) PastCalls(ctx context.Context, f Filter) (list []PastCall, next string, err error) {
	f.PageSize = cmp.Or(f.PageSize, defaultCalls)
	ids := h.underWay.ids(f)
	if !f.Open {
		if ids, next, err = h.ledger.Calls(ctx, f); err != nil {
			return nil, "", err
		}
	}
	for _, id := range ids {
		one, err := h.PastCall(ctx, id)
		switch {
		case reason.Of(err) == reason.NotFound: // erased, or not journaled yet
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

// ids returns the ids of the selected calls.
func (u *callsUnderWay) ids(f Filter) []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	var ids []string
	for c := range u.live {
		if f.wants(c.of()) && (f.Run == "" || f.Run == c.ids.Run) {
			ids = append(ids, c.ids.ID)
		}
	}
	slices.SortFunc(ids, func(a, b string) int { return strings.Compare(b, a) })
	return ids
}

// PastCall returns one call by the id of its proposal.
func (h *History) PastCall(ctx context.Context, id string) (PastCall, error) {
	past := PastCall{ProposalID: id}
	// The live state is read before the journal: the end of a call that ends in between is then
	// found in the journal.
	h.underWay.mu.Lock()
	live := h.underWay.find(id)
	if live != nil {
		past.Live, past.Running, past.Caller = true, live.running.Load(), live.of()
		past.Tool = live.sub.Tool
		if asked := live.asked.Load(); asked != nil {
			past.WaitsFor = *asked
		}
	}
	h.underWay.mu.Unlock()
	var err error
	if past.Story, err = storyOf(ctx, h.ledger, id); err != nil {
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

// Arguments returns the stored arguments of a call, or nil if it has none. It returns
// reason.ResultExpired or reason.VaultLocked if they are unavailable.
func (h *History) Arguments(ctx context.Context, past *PastCall) ([]byte, error) {
	if past.Proposed == nil {
		return nil, nil
	}
	return keptArguments(ctx, h.ledger, past.Proposed.Arguments, past.Proposed.ArgumentsBlob)
}

// ResultKept returns nil if the stored result of a call is available, otherwise
// reason.ResultExpired or reason.VaultLocked.
func (h *History) ResultKept(ctx context.Context, past *PastCall) error {
	if past.Attested == nil || past.Attested.ResultBlob == "" {
		return nil
	}
	_, err := h.ledger.Blob(ctx, past.Attested.ResultBlob)
	return err
}

// NoCall is the error for a call that does not exist. The same error is returned for a call
// that the caller may not see.
func NoCall(id string) error {
	return reason.Errorf(reason.NotFound, "call %s does not exist", id).WithRemedy("List calls with `palyra calls list`.")
}

// CancelCall ends a call at any stage and waits until its end is durable. It does not change a
// call that has ended.
func (h *History) CancelCall(ctx context.Context, by access.Principal, id, why string) error {
	text := by.String() + " cancelled the call"
	if why != "" {
		text += ": " + why
	}
	ended := h.underWay.end(id, reason.Errorf(reason.Cancelled, "%s", text))
	if ended == nil {
		return nil
	}
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return reason.Errorf(reason.Cancelled, "cancelling call %s: it has not ended yet: %w", id, ctx.Err())
	}
}

// of returns the parties of the call.
func (c *call) of() Parties {
	return Parties{c.sub.Caller.Principal.String(), c.sub.Caller.OnBehalfOf.String()}
}

// EndSession ends a session: its caller's next call begins another session with all counts at
// zero. Calls under way end in the session that counts them.
func (h *History) EndSession(ctx context.Context, e session.Ending) error {
	payload, err := canonical.Marshal(record.SessionEnded{
		Session: e.ID, Principal: e.Key.Principal.String(), DeviceID: e.Key.Device, Client: e.Key.Client, EndedBy: e.By.String(), Reason: e.Reason,
	})
	if err != nil {
		return err
	}
	draft := event.Draft{Code: event.SessionEnded, Actor: e.By.String(), Subject: e.ID, Payload: payload}
	if err := h.ledger.EndSession(ctx, e, draft); err != nil {
		return unwritten(err)
	}
	h.sessions.Ended(e.Key, e.ID)
	return nil
}

// Sessions lists sessions, newest first, without the facts that policy reads of them.
func (h *History) Sessions(ctx context.Context, f session.Filter) ([]session.Past, string, error) {
	list, next, err := h.ledger.Sessions(ctx, f)
	for i := range list {
		h.bringUp(&list[i])
	}
	return list, next, err
}

// Session returns one session with all its counts.
func (h *History) Session(ctx context.Context, id string) (session.Past, error) {
	var facts record.Facts
	past, found, err := h.ledger.Session(ctx, id, facts.Add)
	past.Did = facts.Did(past.StartedAt)
	if err == nil && !found {
		err = NoSession(id)
	}
	h.bringUp(&past)
	return past, err
}

// NoSession is the error for a session that does not exist. The same error is returned for a
// session that the caller may not see.
func NoSession(id string) error {
	return reason.Errorf(reason.NotFound, "session %s does not exist", id).WithRemedy("List sessions with `palyra sessions list`.")
}

// bringUp replaces the stored facts of a live session by those in memory, which include the
// calls under way.
func (h *History) bringUp(past *session.Past) {
	if did, live := h.sessions.Did(past.Key, past.ID); live {
		past.Did = did
	}
}

// SessionGoesOn reports whether the session is still active, so that the next call of its
// caller belongs to it.
func (h *History) SessionGoesOn(past session.Past) bool {
	return past.EndedAt.IsZero() && (past.Facts.InFlight > 0 || time.Since(past.LastAt) <= h.sessions.Idle())
}
