package hook

import (
	"context"
	"log/slog"
	"strings"

	"palyra/internal/call"
	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
)

// reported takes in what an agent says of a call that it ran.
func (s *Service) reported(ctx context.Context, caller access.Caller, a *Agent, m *Message, id visitID) {
	_, name, input, err := a.submitted(m)
	if err != nil {
		s.Log.WarnContext(ctx, "a hook's report cannot be read", slog.String("agent", a.Name), slog.String("error", err.Error()))
		return
	}
	said := statement{failed: m.Kind == Failed, digest: digestOf(input), message: m.Message, response: m.Response}
	s.mu.Lock()
	v := s.visits[id]
	s.mu.Unlock()
	sub := call.Submission{Caller: caller, Tool: name, Input: input, Session: m.Session, CallID: m.CallID}
	switch {
	case v == nil:
		s.reportedBefore(ctx, a, sub, said)
	case !v.hasBegun():
		s.ungoverned(ctx, a, sub, said, v.id(), v.decided(), "the agent says that it ran a call that was not allowed")
	default:
		s.reportedOf(ctx, a, sub, said, v)
	}
}

// reportedOf is about a call that was let run.
func (s *Service) reportedOf(ctx context.Context, a *Agent, sub call.Submission, said statement, v *visit) {
	if sub.Tool != v.tool {
		said.digest = "" // whatever its input is, it is not what was decided
	}
	first, inTime := v.report(said)
	if first && v.missed() {
		s.unjoined(ctx, a, sub, said, v)
	}
	switch {
	case !first:
		s.Log.WarnContext(ctx, "an agent reported a call twice; the first report counts", slog.String("agent", a.Name), slog.String("proposal", v.id()))
	case inTime && said.digest != v.decided():
		s.alarm(ctx, event.RanOther, a, sub, v.id())
	case inTime:
	case said.digest != v.decided():
		s.ungoverned(ctx, a, sub, said, v.id(), v.decided(), "the agent says that it ran other input than what was decided")
	default:
		s.late(ctx, a, sub, said, v.id(), v.decided())
	}
}

// mostLookedAt bounds the calls of the journal among which one of before is looked for.
const mostLookedAt = 200

// reportedBefore is about a call that is not remembered: the gateway was started anew
// since, or nobody asked.
func (s *Service) reportedBefore(ctx context.Context, a *Agent, sub call.Submission, said statement) {
	past, _, err := s.Past.PastCalls(ctx, call.Filter{Principal: sub.Caller.Principal, PageSize: mostLookedAt})
	if err != nil {
		s.Log.ErrorContext(ctx, "the calls of before cannot be read", slog.String("error", err.Error()))
	}
	session := call.SessionID(sub.Caller, sub.Session)
	for i := range past {
		p := past[i].Proposed
		if p == nil || p.CallID != sub.CallID || p.DeviceID != sub.Caller.DeviceID || past[i].Session != session {
			continue
		}
		digest, salt := past[i].Arguments()
		allowed := past[i].Decided != nil && past[i].Decided.Allowed
		switch {
		case !allowed:
			s.ungoverned(ctx, a, sub, said, past[i].ProposalID, digest, "the agent says that it ran a call that was not allowed")
		case past[i].Tool != sub.Tool || salt == "" && digest != said.digest:
			s.ungoverned(ctx, a, sub, said, past[i].ProposalID, digest, "the agent says that it ran other input than what was decided")
		default:
			s.late(ctx, a, sub, said, past[i].ProposalID, digest)
		}
		return
	}
	s.ungoverned(ctx, a, sub, said, "", "", "the agent says that it ran a call that it did not ask about")
}

// ungoverned writes down that an agent ran something without having been let. of is
// the call that it asked about, "" for none.
func (s *Service) ungoverned(ctx context.Context, a *Agent, sub call.Submission, said statement, of, decided, why string) {
	if of != "" {
		why += " (" + of + ")"
	}
	// It counts in the session of its caller as a call of its own, so that the session
	// is tainted whatever became of the call that was asked about.
	id, err := s.Past.Sight(ctx, call.Sighting{
		Submission: sub, Code: event.Ungoverned, Agent: a.Name, Reason: reason.Ungoverned, Message: why, InputSHA256: said.digest, DecidedSHA256: decided,
	})
	if err != nil {
		s.Log.ErrorContext(ctx, "what an agent ran without having been let cannot be written down", slog.String("error", err.Error()))
	}
	s.alarm(ctx, event.Ungoverned, a, sub, id)
}

// late writes down the report of a call that had been closed.
func (s *Service) late(ctx context.Context, a *Agent, sub call.Submission, said statement, of, decided string) {
	message := "the agent says that it succeeded"
	if said.failed {
		message = "the agent says that it failed: " + said.message
	}
	s.count(event.ReportedLate)
	if _, err := s.Past.Sight(ctx, call.Sighting{
		Submission: sub, Code: event.ReportedLate, Call: of, Agent: a.Name, Message: message, InputSHA256: said.digest, DecidedSHA256: decided,
	}); err != nil {
		s.Log.ErrorContext(ctx, "a late report cannot be written down", slog.String("error", err.Error()))
	}
}

// alarm tells who watches the log at once. The journal has the rest.
func (s *Service) alarm(ctx context.Context, code event.Code, a *Agent, sub call.Submission, proposal string) {
	s.count(code)
	s.Log.WarnContext(ctx, "an agent ran something else than what it was let run", slog.String("alarm", map[event.Code]string{
		event.RanOther: "ran_other", event.Ungoverned: "ungoverned",
	}[code]), slog.String("agent", a.Name), slog.String("tool", strings.ToValidUTF8(sub.Tool, "?")), slog.String("proposal", proposal),
		slog.String("principal", sub.Caller.Principal.String()))
}
