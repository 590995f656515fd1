package call

import (
	"context"

	"palyra/internal/call/session"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
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
