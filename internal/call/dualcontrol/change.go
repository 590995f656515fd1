package dualcontrol

import (
	"context"
	"fmt"

	"palyra/internal/call/policy"
	"palyra/internal/core/access"
	"palyra/internal/core/change"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
)

// Plan is a change as it would be made now.
type Plan struct {
	Kind change.Kind
	// Question is the question that a second person answers. Change sets its type and requester.
	// Its details describe the new and the previous state, without values that differ on each
	// attempt, such as times and new ids.
	Question Question
	// Needs is the permission that the requester must still have when the change is made.
	Needs access.Permission
	// Nothing is true if the plan changes nothing. Such a plan needs no approval.
	Nothing bool
	// Make makes exactly the change that is described, and returns its result.
	Make func(context.Context) (any, error)
}

// Planner makes the plan of a change as it would be made now.
type Planner func(context.Context) (*Plan, error)

// Outcome states by whose authority a change was made. It is zero if nothing changed.
type Outcome struct {
	// ApprovalID is the id of the approval by the second person.
	ApprovalID string
	// AloneBecause is the reason why one person was enough.
	AloneBecause string
	// Result is the result of Plan.Make.
	Result any
}

// changed is the payload of event.GatewayChange.
type changed struct {
	Kind change.Kind `json:"change"`
	// Digest is the digest of the question, which identifies the change. The approval has the same
	// digest.
	Digest      string             `json:"digest"`
	RequestedBy access.Principal   `json:"requested_by"`
	Device      string             `json:"device_id"`
	Summary     string             `json:"summary"`
	ApprovalID  string             `json:"approval_id,omitempty"`
	Approvers   []access.Principal `json:"approvers,omitempty"`
	// Alone is true for a change that one person made, and Why is the reason why one person was
	// enough.
	Alone bool   `json:"alone,omitempty"`
	Why   string `json:"why,omitempty"`
}

// Change makes a change for a requester. If dual control is on, a second person must approve it.
// Otherwise the requester makes the change alone, which the journal records. After the approval the
// plan is computed again, and the change is made only if the plan is the same.
//
// A change that waits for its answer does not depend on its caller: it is applied, or ends, even
// after ctx has ended. With wait, Change returns once the change is applied or has ended. Without
// it, Change returns reason.ChangePending, with the fields approval_id and expires_at, once the
// question is stored. The same change by the same requester joins the one that waits.
//
// Change returns the errors of Ask and of the plan. If dual control is on and no person is
// independent of the requester, it returns reason.ApprovalUnattainable. It returns
// reason.BindingMismatch if the plan has changed since the question, and reason.ShuttingDown
// once Run has ended.
func (g *Gate) Change(ctx context.Context, by access.Caller, wait bool, plan Planner) (Outcome, error) {
	p, err := g.plan(ctx, by, plan)
	if err != nil {
		return Outcome{}, err
	}
	if p.Nothing {
		result, err := g.make(ctx, p)
		return Outcome{Result: result}, err
	}
	state := g.DualControl()
	if !state.On {
		result, err := g.makeAlone(ctx, p, state.Why)
		return Outcome{AloneBecause: state.Why, Result: result}, err
	}
	if p.Question.Rule, err = g.attainable(p.Question.Rule, by); err != nil {
		return Outcome{}, err
	}
	w, err := g.start(ctx, p, plan)
	if err != nil {
		return Outcome{}, err
	}
	return w.result(ctx, wait)
}

// plan computes the plan and completes its question.
func (g *Gate) plan(ctx context.Context, by access.Caller, make Planner) (*Plan, error) {
	p, err := make(ctx)
	if err != nil {
		return nil, err
	}
	q := &p.Question
	q.Type, q.Requester = changeType, by
	q.Notes = append(q.Notes, fmt.Sprintf("Requested by %s from device %s.", by.Principal, by.DeviceID))
	return p, nil
}

// attainable returns the rule that a person can satisfy. If no other owner is independent of the
// requester, an independent admin may answer a question that otherwise requires an owner.
func (g *Gate) attainable(rule Rule, by access.Caller) (Rule, error) {
	if len(g.people.answerers(rule, by)) > 0 {
		return rule, nil
	}
	if rule.Owner = false; len(g.people.answerers(rule, by)) > 0 {
		return rule, nil
	}
	return rule, reason.Errorf(reason.ApprovalUnattainable, "a change of the gateway requires a second person, and no owner or admin is independent of %s", by.Principal).
		WithRemedy("Ask %s to make the change, or confirm on the gateway's host that %s is an independent person: `palyrad members confirm %s`.", joinNames(g.people.eligible(rule)), by.Principal, by.Principal.Name)
}

// makeApproved makes the change that was approved.
func (g *Gate) makeApproved(ctx context.Context, by access.Caller, yes Consent, plan Planner) (any, error) {
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
		return nil, reason.Errorf(reason.BindingMismatch, "the change is not the one that was approved: the gateway's state has changed since then").
			WithRemedy("Try again: a new approval shows the change as it would be made now.")
	}
	if err := g.checkRequester(by, p.Needs); err != nil {
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
	return g.make(ctx, p)
}

// makeAlone makes a change by one person, after the journal has recorded it.
func (g *Gate) makeAlone(ctx context.Context, p *Plan, why string) (any, error) {
	g.making.Lock()
	defer g.making.Unlock()
	if g.DualControl().On {
		return nil, reason.Errorf(reason.BindingMismatch, "dual control was turned on meanwhile, and the change requires a second person").WithRemedy("Try again; a second person is then asked.")
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
	return g.make(ctx, p)
}

func (p *Plan) payload(digest string) changed {
	q := p.Question
	return changed{Kind: p.Kind, Digest: digest, RequestedBy: q.Requester.Principal, Device: q.Requester.DeviceID, Summary: q.Summary}
}

// checkRequester returns nil if the requester may still make the change. The permission is checked
// again because the change may have waited for long.
func (g *Gate) checkRequester(by access.Caller, needs access.Permission) error {
	m, ok := g.people.Members.Active(by.Principal)
	if !ok || !g.people.LiveDevice(by.DeviceID) {
		return reason.Errorf(reason.Unauthenticated, "%s is disabled, or its device is revoked", by.Principal)
	}
	if by.Roles = m.Roles; Ceiling(g.people.Engine.Current(), by, needs) {
		return nil
	}
	return g.people.Engine.Current().Access().Permit(policy.AccessRequest{Caller: by, Permission: needs})
}
