package hook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"palyra/internal/call"
	"palyra/internal/call/decision"
	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/surface/resume"
)

// Calls makes calls that a client may leave as long as they do not run, and come back
// to (resume.Calls).
type Calls interface {
	CallFor(ctx context.Context, s call.Submission, stay resume.Stay, observe func(call.Event)) (call.Outcome, error)
}

// Past knows the calls of before, and writes down what agents say that they ran
// (call.Pipeline).
type Past interface {
	PastCalls(ctx context.Context, f call.Filter) ([]call.PastCall, string, error)
	Sight(ctx context.Context, s call.Sighting) (string, error)
}

// Config is what a Service needs; all of it is required but Announced and Log.
type Config struct {
	Calls Calls
	Past  Past
	// Announced is the digest of the call that a call of the gateway's own MCP server will
	// be, by the name of its tool on the wire; "" for what no call will be. nil knows of
	// none.
	Announced func(ctx context.Context, caller access.Caller, name string, input []byte) string
	// Stopping is closed when the gateway stops: then no report is waited for.
	Stopping <-chan struct{}
	Log      *slog.Logger
}

// Service answers the hooks of agents.
type Service struct {
	Config
	mu sync.Mutex
	// visits are the calls that are under way or were not long ago, by what their agents
	// call them; proposals are the same by the gateway's name.
	visits    map[visitID]*visit
	proposals map[string]*visit
	// order lists the ids from the oldest, so that the past can be forgotten.
	order  []visitID
	counts Counts
}

// visitID is how an agent names a call. Who else uses the same name, with another
// credential, names another call.
type visitID struct {
	principal              access.Principal
	credential             string
	agent, session, callID string
}

// Counts are what happened since the start.
type Counts struct {
	// Open are the calls that were let run and have not been reported.
	Open int
	// RanOther and Ungoverned count alarms, Late reports that came too late.
	RanOther, Ungoverned, Late int
	// Unjoined are the calls to the gateway's own MCP server that were let run and
	// never arrived there.
	Unjoined int
	// LastAlarm is when the last alarm was, zero for never.
	LastAlarm time.Time
}

// Notices are what an operator should know, in words.
func (c Counts) Notices() []string {
	var list []string
	tell := func(n int, what string) {
		if n > 0 {
			list = append(list, fmt.Sprintf("agents say that they %s, %s since the start, the last time at %s; look at them with `palyra journal list --code PAL-H1`, and at what bypasses the hooks with `palyra hook status`",
				what, times(n), c.LastAlarm.Format(time.RFC3339)))
		}
	}
	tell(c.Ungoverned, "ran calls that were not allowed, or not asked about")
	tell(c.RanOther, "ran something else than what was decided")
	tell(c.Unjoined, "called the gateway's own MCP server, and no call arrived: another server has its name")
	return list
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// mostVisits bounds those that are remembered.
const mostVisits = 20_000

// New returns the service.
func New(c Config) (*Service, error) {
	if c.Calls == nil || c.Past == nil || c.Stopping == nil {
		return nil, errors.New("hooks need the pipeline")
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Service{Config: c, visits: make(map[visitID]*visit), proposals: make(map[string]*visit)}, nil
}

// Hear takes one message of an agent's hook in. limit is how long the agent waits, 0
// for its default. The answer counts for Before alone.
func (s *Service) Hear(ctx context.Context, caller access.Caller, a *Agent, m *Message, limit time.Duration) Answer {
	id := visitID{caller.Principal, caller.DeviceID, a.Name, m.Session, m.CallID}
	switch m.Kind {
	case Before:
		return s.ask(ctx, caller, a, m, id, limit)
	case After, Failed:
		s.reported(ctx, caller, a, m, id)
	case SessionEnd:
		s.sessionEnded(id)
	case TurnEnd:
		if !m.Busy {
			s.sessionEnded(id)
		}
	}
	return Answer{Allowed: true}
}

// noReason is the next step of who asks by a hook that cannot bring a reason.
const noReason = "The hooks of this agent bring no reason along. Use one of the gateway's own tools, or have a person make the call: `palyra call --reason TEXT`."

// ask proposes a call and waits for its decision.
func (s *Service) ask(ctx context.Context, caller access.Caller, a *Agent, m *Message, id visitID, limit time.Duration) Answer {
	r, name, input, err := a.submitted(m)
	if err != nil {
		return s.denied(ctx, err)
	}
	v := newVisit(a, m, name, s.Stopping)
	v.asked = digestOf(input)
	if v.digest = v.asked; v.digest == "" {
		_, err := canonical.JSON(input)
		return s.denied(ctx, tool.InputError(err))
	}
	v, mine, err := s.enter(id, v)
	if err != nil {
		return s.denied(ctx, err)
	}
	if !mine { // the same question twice: one answer
		return s.wait(ctx, v, v, r, nil, limit)
	}
	v.announce(s.announced(ctx, caller, m))
	return s.propose(ctx, caller, v, r, call.Submission{
		Caller: caller, Tool: name, Input: input, Session: m.Session, Run: m.place(), CallID: m.CallID,
		NoEdit: a.noEdit(r), Reason: m.RequesterReason, ReasonBy: cmp.Or(a.reasonBy, noReason),
	}, limit)
}

// enter remembers a visit. An id that was used for another call, or whose call has
// ended, is refused: a report could not be told to belong to either.
func (s *Service) enter(id visitID, v *visit) (*visit, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.visits[id]
	switch {
	case !ok:
		s.forgetLocked()
		s.visits[id], s.order = v, append(s.order, id)
		return v, true, nil
	case known.tool != v.tool || known.asked != v.asked || closed(known.ended):
		return nil, false, reason.Errorf(reason.InvalidInput, "the agent used the id %q of a call before, for another one", id.callID).
			WithRemedy("Each call needs an id of its own in its session.")
	}
	return known, false, nil
}

// forgetLocked forgets the oldest visit when there are too many. Its report, should it
// still come, is looked up in the journal.
func (s *Service) forgetLocked() {
	for len(s.order) >= mostVisits {
		v := s.visits[s.order[0]]
		delete(s.visits, s.order[0])
		delete(s.proposals, v.id())
		s.order = s.order[1:]
	}
}

// outcome is how the pipeline was done with a call before it ran.
type outcome struct {
	call.Outcome
	err error
}

// propose sends the call through the pipeline. It goes on when this returns: until the
// agent has reported, it runs.
func (s *Service) propose(ctx context.Context, caller access.Caller, v *visit, r row, sub call.Submission, limit time.Duration) Answer {
	// The end of the request is the end of the call as long as it was not let run.
	own, cancel := context.WithCancelCause(context.WithoutCancel(withVisit(ctx, v)))
	joined := make(chan *visit, 1)
	done := make(chan outcome, 1)
	go func() {
		defer cancel(nil)
		of := v
		o, err := s.Calls.CallFor(own, sub, resume.Stay{Limit: limitOf(limit), UntilRun: true}, func(e call.Event) {
			if e.Proposed != nil {
				// The same call as before, which waits for an answer, has a visit.
				of = s.visitOf(e.Proposed.ProposalID, v)
				joined <- of
			}
			if e.Resolved != nil {
				of.answered(*e.Resolved)
			}
			if e.Decision != nil {
				of.knows()
			}
		})
		if reason.Of(err) != reason.StillWaiting {
			s.ended(of)
		}
		done <- outcome{o, err}
	}()
	real := v
	select {
	case real = <-joined:
		s.adopt(caller, v, real)
	case o := <-done:
		done <- o
	case <-ctx.Done():
	}
	answer := s.wait(ctx, v, real, r, done, limit)
	if !answer.Allowed && !real.hasBegun() && ctx.Err() != nil {
		cancel(reason.Errorf(reason.Cancelled, "the agent's hook left before the call was decided"))
	}
	return answer
}

// visitOf returns the visit of a proposal, which is own unless it was proposed before.
func (s *Service) visitOf(proposal string, own *visit) *visit {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v, ok := s.proposals[proposal]; ok {
		return v
	}
	s.proposals[proposal] = own
	return own
}

// adopt makes the name of a repeated call one of the call that it joined.
func (s *Service) adopt(caller access.Caller, repeated, real *visit) {
	if repeated == real {
		return
	}
	m := repeated.msg
	s.mu.Lock()
	defer s.mu.Unlock()
	s.visits[visitID{caller.Principal, caller.DeviceID, repeated.agent.Name, m.Session, m.CallID}] = real
}

// ended notes that the pipeline is done with a call.
func (s *Service) ended(v *visit) {
	v.close()
}

// wait returns once the call was let run, or is not going to be. done is nil for one
// who did not propose it.
func (s *Service) wait(ctx context.Context, own, real *visit, r row, done <-chan outcome, limit time.Duration) Answer {
	timer := time.NewTimer(limitOf(limit) - margin)
	defer timer.Stop()
	late, ended := timer.C, real.ended
	if done != nil {
		// Whoever makes the call hears how it ended, and when the time is up.
		late, ended = nil, nil
	}
	select {
	case <-real.began:
		select {
		case <-real.known:
		case <-ctx.Done():
		}
		return real.hand(own, r)
	case o := <-done:
		if o.err == nil && o.Decision.Allowed && real.hasBegun() {
			return real.hand(own, r)
		}
		return s.deniedBy(ctx, o)
	case <-ended:
		return Answer{Reason: reason.PermitRefused, Text: answerText(reason.PermitRefused, "the same call was refused a moment ago", "")}
	case <-late:
		return s.denied(ctx, reason.Errorf(reason.StillWaiting, "the same call still waits for an answer"))
	case <-ctx.Done():
		return s.denied(ctx, reason.Errorf(reason.Cancelled, "the hook left"))
	}
}

// limitOf is how long an agent waits.
func limitOf(limit time.Duration) time.Duration {
	if limit <= 0 {
		return DefaultLimit
	}
	return max(limit, margin+time.Second)
}

// deniedBy says why the pipeline did not let a call run.
func (s *Service) deniedBy(ctx context.Context, o outcome) Answer {
	switch {
	case o.err != nil:
		return s.denied(ctx, o.err)
	case !o.Decision.Allowed:
		return deniedRecord(o.Decision)
	}
	return Answer{Reason: reason.Code(o.Report.Reason), Text: answerText(reason.Code(o.Report.Reason), o.Report.Message, o.Report.Remedy)}
}

func deniedRecord(d decision.Record) Answer {
	return Answer{Reason: d.Reason, Text: answerText(d.Reason, d.Message, d.Remedy)}
}

// denied is the answer for an error. What has no reason is told to the log alone.
func (s *Service) denied(ctx context.Context, err error) Answer {
	known := &reason.Error{}
	if !errors.As(err, &known) || known.Code == reason.Internal {
		s.Log.ErrorContext(ctx, "a hook met a fault of the gateway", slog.String("error", err.Error()))
		known = reason.Fault(err)
	}
	return Answer{Reason: known.Code, Text: answerText(known.Code, known.Message, known.NextStep())}
}

// answerText is a denial for a model and its user.
func answerText(code reason.Code, message, remedy string) string {
	t := "palyra: " + string(code) + ": " + strings.TrimSuffix(message, ".") + "."
	if remedy != "" {
		t += " " + remedy
	}
	return t
}

// sessionEnded closes what an agent did not report in a session.
func (s *Service) sessionEnded(of visitID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, v := range s.visits {
		id.callID, of.callID = "", ""
		if id == of && v.hasBegun() {
			v.leave()
		}
	}
}

// Counts returns what happened since the start.
func (s *Service) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counts
	for _, v := range s.visits {
		if v.hasBegun() && !closed(v.ended) {
			c.Open++
		}
	}
	return c
}

// count notes an alarm, or a report that came late.
func (s *Service) count(code event.Code) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch code {
	case event.RanOther:
		s.counts.RanOther++
	case event.Ungoverned:
		s.counts.Ungoverned++
	default:
		s.counts.Late++
		return
	}
	s.counts.LastAlarm = time.Now().UTC()
}
