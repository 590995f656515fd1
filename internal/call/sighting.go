package call

import (
	"context"

	"palyra/internal/call/record"
	"palyra/internal/call/session"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// Sighting is an execution that an agent reports and that does not belong to a running call.
type Sighting struct {
	// Submission is the call that the agent names.
	Submission Submission
	// Code is event.Ungoverned or event.ReportedLate.
	Code event.Code
	// Call is the earlier call that the report is about, or "" for none. Without one, the
	// sighting counts as its own call in the session of the caller.
	Call   string
	Agent  string
	Reason reason.Code
	// Message describes the violation.
	Message string
	// InputSHA256 is the digest of the reported input, DecidedSHA256 of the decided input.
	InputSHA256, DecidedSHA256 string
}

// Sight journals a sighting. A sighting without an earlier call taints the session of its caller.
// Sight returns the id of the call under which the sighting is journaled.
func (p *Pipeline) Sight(ctx context.Context, s Sighting) (string, error) {
	leave, err := p.underWay.enter()
	if err != nil {
		return "", err
	}
	defer leave()
	c := newCall(p.services, &s.Submission, nil, func(Event) {})
	if s.Call != "" {
		c.ids.ID = s.Call
		if err := c.draftSighted(s); err != nil {
			return "", err
		}
		return s.Call, c.drafts.flush(ctx)
	}
	if err := c.begin(ctx); err != nil {
		return "", err
	}
	defer c.counted.End(session.Traffic{Read: true})
	if err := c.draftSighted(s); err != nil {
		return "", err
	}
	return c.ids.ID, c.drafts.flush(ctx)
}

// draftAstray drafts the event that an agent reported an execution that differs from the
// decided one.
func (c *call) draftAstray(r *tool.Report, decided string) error {
	if r.Claim == nil || r.Claim.State != tool.RanOther {
		return nil
	}
	return c.draftSighted(Sighting{
		Code: event.RanOther, Agent: r.Claim.Agent, Reason: reason.RanOther, Message: r.Message, InputSHA256: r.Claim.InputSHA256, DecidedSHA256: decided,
	})
}

func (c *call) draftSighted(s Sighting) error {
	return c.drafts.draftRedacted(s.Code, record.Sighted{
		ProposalID: c.ids.ID, CallID: c.sub.CallID, Principal: c.sub.Caller.Principal.String(), OnBehalfOf: c.sub.Caller.OnBehalfOf.String(),
		Agent: s.Agent, Tool: c.sub.Tool, Reason: s.Reason, Message: s.Message, InputSHA256: s.InputSHA256, DecidedSHA256: s.DecidedSHA256,
		GatewaySession: c.sessionID(),
	})
}
