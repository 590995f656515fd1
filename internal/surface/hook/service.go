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

// Calls makes calls that a client may leave before they run, and rejoin later. resume.Calls
// implements it.
type Calls interface {
	CallFor(ctx context.Context, s call.Submission, stay resume.Stay, observe func(call.Event)) (call.Outcome, error)
}

// Past finds earlier calls, and records calls that agents report to have run. call.Pipeline
// implements it.
type Past interface {
	PastCalls(ctx context.Context, f call.Filter) ([]call.PastCall, string, error)
	Sight(ctx context.Context, s call.Sighting) (string, error)
}

// Config holds the dependencies of a Service; all but Announced and Log are required.
type Config struct {
	Calls Calls
	Past  Past
	// Announced returns the digest of a future call to the gateway's own MCP server; name is the
	// tool's name on the wire. It returns "" if such a call cannot exist. If Announced is nil, no
	// call is announced.
	Announced func(ctx context.Context, caller access.Caller, name string, input []byte) string
	// Stopping is closed when the gateway stops. Reports of agents are not awaited after that.
	Stopping <-chan struct{}
	Log      *slog.Logger
}

// Service answers the hooks of agents.
type Service struct {
	Config
	visits openVisits

	mu     sync.Mutex
	counts Counts
}

// visitID identifies a call of an agent. The same call id with another credential is another call.
type visitID struct {
	principal              access.Principal
	credential             string
	agent, session, callID string
}

// Counts are the counters since the start.
type Counts struct {
	// Open is the number of allowed calls that are not reported yet.
	Open int
	// RanOther and Ungoverned count alarms, and Late counts late reports.
	RanOther, Ungoverned, Late int
	// Unjoined counts allowed calls to the gateway's own MCP server that never arrived there.
	Unjoined int
	// LastAlarm is the time of the last alarm, zero for none.
	LastAlarm time.Time
}

// Notices returns the notices for an operator.
func (c Counts) Notices() []string {
	var list []string
	tell := func(n int, what string) {
		if n > 0 {
			list = append(list, fmt.Sprintf("agents reported that they %s, %s since the start, last at %s; list the reports with `palyra journal list --code PAL-H1`, and check for bypassed hooks with `palyra hook status`",
				what, times(n), c.LastAlarm.Format(time.RFC3339)))
		}
	}
	tell(c.Ungoverned, "ran calls without permission")
	tell(c.RanOther, "ran another input than the decided one")
	tell(c.Unjoined, "called the gateway's own MCP server, and no call arrived: another server has its name")
	return list
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// New returns the service.
func New(c Config) (*Service, error) {
	if c.Calls == nil || c.Past == nil || c.Stopping == nil {
		return nil, errors.New("the configuration of hooks is incomplete")
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Service{Config: c, visits: newVisitsInMemory()}, nil
}

// Handle processes one message of an agent's hook. limit is how long the agent waits, 0 for
// DefaultLimit. Only the answer to a Before message has a meaning.
func (s *Service) Handle(ctx context.Context, caller access.Caller, a *Agent, m *Message, limit time.Duration) Answer {
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

// noReason is the remedy if a call requires a reason that the agent's hook cannot pass.
const noReason = "The hooks of this agent cannot pass a reason. Use one of the gateway's own tools, or ask a user to make the call: `palyra call --reason TEXT`."

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
	if known, mine := s.visits.enter(id, v); !mine {
		// An id that was used for a different call or for a call that has ended is refused, because
		// a report with that id would be ambiguous.
		if known.tool != v.tool || known.asked != v.asked || closed(known.ended) {
			return s.denied(ctx, reason.Errorf(reason.InvalidInput, "the call id %q was already used for another call", id.callID).
				WithRemedy("Use a new id for each call of a session."))
		}
		// The same request twice gets one answer.
		return s.wait(ctx, known, known, r, nil, limit)
	}
	v.announce(s.announced(ctx, caller, m))
	return s.propose(ctx, caller, v, r, call.Submission{
		Caller: caller, Tool: name, Input: input, Session: m.Session, Run: m.place(), CallID: m.CallID,
		NoEdit: a.noEdit(r), Reason: m.RequesterReason, ReasonBy: cmp.Or(a.reasonBy, noReason),
	}, limit)
}

// outcome is the result of the pipeline for a call that did not run.
type outcome struct {
	call.Outcome
	err error
}

// propose passes the call to the pipeline. The call continues after this returns, and counts as
// running until the agent reports.
func (s *Service) propose(ctx context.Context, caller access.Caller, v *visit, r row, sub call.Submission, limit time.Duration) Answer {
	// Until the call is allowed to run, the end of the request cancels it.
	own, cancel := context.WithCancelCause(context.WithoutCancel(withVisit(ctx, v)))
	joined := make(chan *visit, 1)
	done := make(chan outcome, 1)
	go func() {
		defer cancel(nil)
		of := v
		o, err := s.Calls.CallFor(own, sub, resume.Stay{Limit: limitOf(limit), UntilRun: true}, func(e call.Event) {
			if e.Proposed != nil {
				// A repeated call joins the visit of the call that is still waiting.
				of = s.visits.ofProposal(e.Proposed.ProposalID, v)
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
		cancel(reason.Errorf(reason.Cancelled, "the agent's hook disconnected before the call was decided"))
	}
	return answer
}

// adopt maps the id of a repeated call to the visit that the call joined.
func (s *Service) adopt(caller access.Caller, repeated, real *visit) {
	if repeated == real {
		return
	}
	m := repeated.msg
	s.visits.put(visitID{caller.Principal, caller.DeviceID, repeated.agent.Name, m.Session, m.CallID}, real)
}

// ended records that the pipeline has finished a call.
func (s *Service) ended(v *visit) {
	v.close()
}

// wait returns when the call is allowed to run or is refused. done is nil for a request that did
// not propose the call.
func (s *Service) wait(ctx context.Context, own, real *visit, r row, done <-chan outcome, limit time.Duration) Answer {
	timer := time.NewTimer(limitOf(limit) - margin)
	defer timer.Stop()
	late, ended := timer.C, real.ended
	if done != nil {
		// The proposer receives the outcome and the timeout.
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
		return Answer{Reason: reason.PermitRefused, Text: answerText(reason.PermitRefused, "an identical call was refused just before", "")}
	case <-late:
		return s.denied(ctx, reason.Errorf(reason.StillWaiting, "an identical call is still waiting for an answer"))
	case <-ctx.Done():
		return s.denied(ctx, reason.Errorf(reason.Cancelled, "the hook disconnected"))
	}
}

// limitOf returns how long an agent waits.
func limitOf(limit time.Duration) time.Duration {
	if limit <= 0 {
		return DefaultLimit
	}
	return max(limit, margin+time.Second)
}

// deniedBy returns the answer for a call that the pipeline did not allow.
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

// denied returns the answer for an error. An internal error is logged, and its details are not
// returned.
func (s *Service) denied(ctx context.Context, err error) Answer {
	known := &reason.Error{}
	if !errors.As(err, &known) || known.Code == reason.Internal {
		s.Log.ErrorContext(ctx, "internal error while answering a hook", slog.String("error", err.Error()))
		known = reason.Fault(err)
	}
	return Answer{Reason: known.Code, Text: answerText(known.Code, known.Message, known.NextStep())}
}

// answerText returns the text of a denial for a model and its user.
func answerText(code reason.Code, message, remedy string) string {
	t := "palyra: " + string(code) + ": " + strings.TrimSuffix(message, ".") + "."
	if remedy != "" {
		t += " " + remedy
	}
	return t
}

// sessionEnded closes the unreported calls of a session.
func (s *Service) sessionEnded(of visitID) {
	of.callID = ""
	s.visits.each(func(id visitID, v *visit) {
		if id.callID = ""; id == of && v.hasBegun() {
			v.leave()
		}
	})
}

// Counts returns the counters since the start.
func (s *Service) Counts() Counts {
	s.mu.Lock()
	c := s.counts
	s.mu.Unlock()
	s.visits.each(func(_ visitID, v *visit) {
		if v.hasBegun() && !closed(v.ended) {
			c.Open++
		}
	})
	return c
}

// count counts an alarm or a late report.
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
