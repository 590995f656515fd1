package dualcontrol

import (
	"context"
	"fmt"

	"palyra/internal/call/policy"
	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
)

// Plan is a change as it would be made now.
type Plan struct {
	Kind Kind
	// Question is what a second person is asked; Change fills in its type and who
	// asks. Its details are what would change, and from what, without what differs
	// each time, such as a time or a new id.
	Question Question
	// Needs is what whoever asks has to be permitted, still, when the change is made.
	Needs access.Permission
	// Nothing is true for what would change nothing: then nobody is asked.
	Nothing bool
	// Make makes the change that is described, and no other, and returns its result.
	Make func(context.Context) (any, error)
}

// Planner makes the plan of a change as it would be made now.
type Planner func(context.Context) (*Plan, error)

// Word is by whose word a change was made. It is zero where nothing changed.
type Word struct {
	// ApprovalID is of the second person's yes.
	ApprovalID string
	// Alone says why one person's word was enough.
	Alone string
	// Made is the result of Plan.Make.
	Made any
}

// changed is the payload of event.GatewayChange.
type changed struct {
	Kind Kind `json:"change"`
	// Digest is of the question, which names the change; it is that of the approval.
	Digest      string             `json:"digest"`
	RequestedBy access.Principal   `json:"requested_by"`
	Device      string             `json:"device_id"`
	Summary     string             `json:"summary"`
	ApprovalID  string             `json:"approval_id,omitempty"`
	Approvers   []access.Principal `json:"approvers,omitempty"`
	// Alone is true for a change by one person's word, and Why says why it was enough.
	Alone bool   `json:"alone,omitempty"`
	Why   string `json:"why,omitempty"`
}

// Change makes a change for a requester: with the yes of a second person where there
// are two, and by the requester's word alone where not, which the journal records. The
// plan is made again once people have answered, and the change is made only if it is the
// same.
//
// A change that waits for its answer does not depend on its caller: it is applied, or
// ends, also after ctx has ended. With wait, Change returns after that. Without it, it
// returns reason.ChangePending, with the fields approval_id and expires_at, once the
// question is stored. The same change by the same requester joins the one that waits.
//
// Errors are those of Ask and of the plan; reason.ApprovalUnattainable where changes
// take two and nobody is independent of the requester; reason.BindingMismatch when
// the change is a different one by then; reason.ShuttingDown once Run has ended.
func (g *Gate) Change(ctx context.Context, by access.Caller, wait bool, plan Planner) (Word, error) {
	p, err := g.plan(ctx, by, plan)
	if err != nil {
		return Word{}, err
	}
	if p.Nothing {
		made, err := p.Make(ctx)
		return Word{Made: made}, err
	}
	state := g.DualControl()
	if !state.On {
		made, err := g.alone(ctx, p, state.Why)
		return Word{Alone: state.Why, Made: made}, err
	}
	if p.Question.Rule, err = g.attainable(p.Question.Rule, by); err != nil {
		return Word{}, err
	}
	w, err := g.start(ctx, p, plan)
	if err != nil {
		return Word{}, err
	}
	return w.result(ctx, wait)
}

// plan makes the plan and completes its question.
func (g *Gate) plan(ctx context.Context, by access.Caller, make Planner) (*Plan, error) {
	p, err := make(ctx)
	if err != nil {
		return nil, err
	}
	q := &p.Question
	q.Type, q.Requester = changeType, by
	q.Notes = append(q.Notes, fmt.Sprintf("It was asked for by %s from device %s.", by.Principal, by.DeviceID))
	return p, nil
}

// attainable is the rule that somebody can meet: where owners are concerned and no
// other owner is independent, an admin who is will do, rather than nobody at all.
func (g *Gate) attainable(rule Rule, by access.Caller) (Rule, error) {
	if len(g.people.answerers(rule, by)) > 0 {
		return rule, nil
	}
	if rule.Owner = false; len(g.people.answerers(rule, by)) > 0 {
		return rule, nil
	}
	return rule, reason.Errorf(reason.ApprovalUnattainable, "a change of the gateway takes a second person, and no owner or admin is independent of %s", by.Principal).
		WithRemedy("Let %s do it, or say on the gateway's host while palyrad is stopped that %s is a person of their own: `palyrad members confirm %s`.", named(g.people.able(rule)), by.Principal, by.Principal.Name)
}

// together makes the change that a yes is for.
func (g *Gate) together(ctx context.Context, by access.Caller, yes Yes, plan Planner) (any, error) {
	g.making.Lock()
	defer g.making.Unlock()
	p, err := g.plan(ctx, by, plan)
	if err != nil {
		return nil, err
	}
	digest, err := p.Question.digest()
	if err != nil {
		return nil, err
	}
	if p.Nothing || digest != yes.answer.CallDigest() {
		return nil, reason.Errorf(reason.BindingMismatch, "what would change is something else by now than what was approved").
			WithRemedy("Try again: the change is asked about as it is now.")
	}
	if err := g.still(by, p.Needs); err != nil {
		return nil, err
	}
	c := p.payload(digest)
	c.ApprovalID = yes.ApprovalID()
	for _, v := range yes.answer.Votes() {
		if v.Allow {
			c.Approvers = append(c.Approvers, v.User)
		}
	}
	draft, err := event.DraftOf(event.GatewayChange, by.Principal.String(), p.Question.ID, c)
	if err != nil {
		return nil, err
	}
	if err := yes.Use(ctx, draft); err != nil {
		return nil, err
	}
	return p.Make(ctx)
}

// alone makes a change by one person's word, after the journal says so.
func (g *Gate) alone(ctx context.Context, p *Plan, why string) (any, error) {
	g.making.Lock()
	defer g.making.Unlock()
	if g.DualControl().On {
		return nil, reason.Errorf(reason.BindingMismatch, "by now, changes of the gateway take a second person").WithRemedy("Try again: somebody is asked.")
	}
	digest, err := p.Question.digest()
	if err != nil {
		return nil, err
	}
	c := p.payload(digest)
	c.Alone, c.Why = true, why
	if err := g.journal.Record(ctx, event.GatewayChange, p.Question.Requester.Principal.String(), p.Question.ID, c); err != nil {
		return nil, err
	}
	g.note(c.notice(g.now().UTC()))
	return p.Make(ctx)
}

func (p *Plan) payload(digest string) changed {
	q := p.Question
	return changed{Kind: p.Kind, Digest: digest, RequestedBy: q.Requester.Principal, Device: q.Requester.DeviceID, Summary: q.Summary}
}

// still returns nil when the requester may still make the change: it waited, perhaps for
// long.
func (g *Gate) still(by access.Caller, needs access.Permission) error {
	m, ok := g.people.Members.Active(by.Principal)
	if !ok || !g.people.LiveDevice(by.DeviceID) {
		return reason.Errorf(reason.Unauthenticated, "%s may not act any more", by.Principal)
	}
	if by.Roles = m.Roles; Ceiling(g.people.Engine.Current(), by, needs) {
		return nil
	}
	return g.people.Engine.Current().Permit(policy.AccessRequest{Caller: by, Permission: needs})
}
