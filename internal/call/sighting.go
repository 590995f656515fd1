package call

import (
	"context"

	"palyra/internal/call/record"
	"palyra/internal/call/session"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// Sighting is something that an agent says it ran, and that no call which is under
// way accounts for.
type Sighting struct {
	// Submission is the call that the agent names.
	Submission Submission
	// Code is event.Ungoverned or event.ReportedLate.
	Code event.Code
	// Call is the earlier call that it is about, "" for none: then the sighting counts
	// as a call of its own in the session of the caller.
	Call   string
	Agent  string
	Reason reason.Code
	// Message says what is wrong.
	Message string
	// InputSHA256 is of what it says that it ran, DecidedSHA256 of what was decided.
	InputSHA256, DecidedSHA256 string
}

// Sight writes a sighting down. One without a decision taints the session of its
// caller. It returns the id of the call that it is on record as.
func (p *Pipeline) Sight(ctx context.Context, s Sighting) (string, error) {
	leave, err := p.enter()
	if err != nil {
		return "", err
	}
	defer leave()
	c := newCall(p, &s.Submission, nil, func(Event) {})
	if s.Call != "" {
		c.proposal.ID = s.Call
		if err := c.draftSighted(s); err != nil {
			return "", err
		}
		return s.Call, c.flush(ctx)
	}
	if err := c.begin(ctx); err != nil {
		return "", err
	}
	defer c.end()
	c.exchanged = session.Traffic{Read: true}
	if err := c.draftSighted(s); err != nil {
		return "", err
	}
	return c.proposal.ID, c.flush(ctx)
}

func (c *call) draftSighted(s Sighting) error {
	return c.draftRedacted(s.Code, record.Sighted{
		ProposalID: c.proposal.ID, CallID: c.sub.CallID, Principal: c.sub.Caller.Principal.String(), OnBehalfOf: c.sub.Caller.OnBehalfOf.String(),
		Agent: s.Agent, Tool: c.sub.Tool, Reason: s.Reason, Message: s.Message, InputSHA256: s.InputSHA256, DecidedSHA256: s.DecidedSHA256,
		GatewaySession: c.sessionID(),
	})
}

// draftAstray drafts that an agent ran something else than what was decided, if it
// says so.
func (c *call) draftAstray(r *tool.Report, decided string) error {
	if r.Claim == nil || r.Claim.State != tool.RanOther {
		return nil
	}
	return c.draftSighted(Sighting{
		Code: event.RanOther, Agent: r.Claim.Agent, Reason: reason.RanOther, Message: r.Message, InputSHA256: r.Claim.InputSHA256, DecidedSHA256: decided,
	})
}
