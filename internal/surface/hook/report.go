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

// reported processes an agent's report of a call that it ran.
func (s *Service) reported(ctx context.Context, caller access.Caller, a *Agent, m *Message, id visitID) {
	_, name, input, err := a.submitted(m)
	if err != nil {
		s.Log.WarnContext(ctx, "reading a hook's report failed", slog.String("agent", a.Name), slog.String("error", err.Error()))
		return
	}
	report := statement{failed: m.Kind == Failed, digest: digestOf(input), message: m.Message, response: m.Response}
	v := s.visits.find(id)
	sub := call.Submission{Caller: caller, Tool: name, Input: input, Session: m.Session, CallID: m.CallID}
	switch {
	case v == nil:
		s.reportedBefore(ctx, a, sub, report)
	case !v.hasBegun():
		s.ungoverned(ctx, a, sub, report, v.id(), v.decided(), "the agent reported a call that was not allowed")
	default:
		s.reportedOf(ctx, a, sub, report, v)
	}
}

// reportedOf processes the report of a call that was allowed to run.
func (s *Service) reportedOf(ctx context.Context, a *Agent, sub call.Submission, report statement, v *visit) {
	if sub.Tool != v.tool {
		report.digest = "" // its input differs from the decided one in any case
	}
	first, inTime := v.report(report)
	if first && v.missed() {
		s.unjoined(ctx, a, sub, report, v)
	}
	switch {
	case !first:
		s.Log.WarnContext(ctx, "an agent reported a call twice; the first report counts", slog.String("agent", a.Name), slog.String("proposal", v.id()))
	case inTime && report.digest != v.decided():
		s.alarm(ctx, event.RanOther, a, sub, v.id())
	case inTime:
	case report.digest != v.decided():
		s.ungoverned(ctx, a, sub, report, v.id(), v.decided(), "the agent reported another input than the decided one")
	default:
		s.late(ctx, a, sub, report, v.id(), v.decided())
	}
}

// mostLookedAt bounds the journaled calls that are searched for an earlier one.
const mostLookedAt = 200

// reportedBefore processes the report of a call that is not in memory: the gateway was
// restarted, or the agent's hook sent no request.
func (s *Service) reportedBefore(ctx context.Context, a *Agent, sub call.Submission, report statement) {
	past, _, err := s.Past.PastCalls(ctx, call.Filter{Principal: sub.Caller.Principal, PageSize: mostLookedAt})
	if err != nil {
		s.Log.ErrorContext(ctx, "reading earlier calls failed", slog.String("error", err.Error()))
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
			s.ungoverned(ctx, a, sub, report, past[i].ProposalID, digest, "the agent reported a call that was not allowed")
		case past[i].Tool != sub.Tool || salt == "" && digest != report.digest:
			s.ungoverned(ctx, a, sub, report, past[i].ProposalID, digest, "the agent reported another input than the decided one")
		default:
			s.late(ctx, a, sub, report, past[i].ProposalID, digest)
		}
		return
	}
	s.ungoverned(ctx, a, sub, report, "", "", "the agent reported a call that it did not ask about")
}

// ungoverned records that an agent ran a call that was not allowed. of is the id of the call
// that the agent requested, "" for none.
func (s *Service) ungoverned(ctx context.Context, a *Agent, sub call.Submission, report statement, of, decided, why string) {
	if of != "" {
		why += " (" + of + ")"
	}
	// The report counts in the caller's session as a separate call. The session is therefore
	// tainted regardless of the outcome of the requested call.
	id, err := s.Past.Sight(ctx, call.Sighting{
		Submission: sub, Code: event.Ungoverned, Agent: a.Name, Reason: reason.Ungoverned, Message: why, InputSHA256: report.digest, DecidedSHA256: decided,
	})
	if err != nil {
		s.Log.ErrorContext(ctx, "recording an agent's call that was not allowed failed", slog.String("error", err.Error()))
	}
	s.alarm(ctx, event.Ungoverned, a, sub, id)
}

// late records the report of a call that was already closed.
func (s *Service) late(ctx context.Context, a *Agent, sub call.Submission, report statement, of, decided string) {
	message := "the agent reported success"
	if report.failed {
		message = "the agent reported failure: " + report.message
	}
	s.count(event.ReportedLate)
	if _, err := s.Past.Sight(ctx, call.Sighting{
		Submission: sub, Code: event.ReportedLate, Call: of, Agent: a.Name, Message: message, InputSHA256: report.digest, DecidedSHA256: decided,
	}); err != nil {
		s.Log.ErrorContext(ctx, "recording a late report failed", slog.String("error", err.Error()))
	}
}

// alarm writes a log entry for immediate attention. The journal has the details.
func (s *Service) alarm(ctx context.Context, code event.Code, a *Agent, sub call.Submission, proposal string) {
	s.count(code)
	s.Log.WarnContext(ctx, "an agent ran a call that was not allowed", slog.String("alarm", map[event.Code]string{
		event.RanOther: "ran_other", event.Ungoverned: "ungoverned",
	}[code]), slog.String("agent", a.Name), slog.String("tool", strings.ToValidUTF8(sub.Tool, "?")), slog.String("proposal", proposal),
		slog.String("principal", sub.Caller.Principal.String()))
}
