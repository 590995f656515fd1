package notify

import (
	"context"

	"palyra/internal/call/approval"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
)

// Desk is where votes are cast (approval.Desk).
type Desk interface {
	Get(ctx context.Context, id string) (approval.Record, error)
	Decide(ctx context.Context, caller access.Caller, id string, b approval.Ballot) (approval.Record, error)
}

// Voter casts votes that people gave in a chat.
type Voter struct {
	Desk    Desk
	Users   *Users
	Members Members
	// Permit asks policy for a permission of the API.
	Permit func(c access.Caller, p access.Permission) error
}

// ChatVote is a vote as a chat brings it.
type ChatVote struct {
	Team, User string
	Approval   string
	// Digest is the one that the message showed.
	Digest string
	Allow  bool
	Reason string
}

// Elsewhere says why a record cannot be answered in a chat; nil when it can. What is
// grave is looked at where all of it is shown.
func Elsewhere(r approval.Record) error {
	switch {
	case AtLeast(r.Severity, "high"):
		return reason.Errorf(reason.PermissionDenied, "a call of severity %s is not answered in a chat", r.Severity).WithRemedy("Open it by its link.")
	case r.SubjectType != approval.SubjectTool:
		return reason.Errorf(reason.PermissionDenied, "a question about %s is not answered in a chat", r.SubjectType).WithRemedy("Open it by its link.")
	default:
		return nil
	}
}

// Caller is the member that a user of a chat is. It is never paired and never present.
func (v *Voter) Caller(team, user string) (access.Caller, error) {
	c, found := v.Users.Find(team, user)
	if !found {
		return access.Caller{}, reason.Errorf(reason.Unauthenticated, "no member is mapped to %s/%s", team, user).
			WithRemedy("An admin maps you: `palyra notify slack map %s/%s user:NAME`.", team, user)
	}
	if !c.Votes() {
		return access.Caller{}, reason.Errorf(reason.Unauthenticated, "%s/%s waits for the consent of %s", team, user, c.Member).
			WithRemedy("%s agrees with a device of their own: `palyra notify slack consent %s/%s`.", c.Member, team, user)
	}
	m, active := v.Members.Active(c.Member)
	if !active || m.NoDevice {
		return access.Caller{}, reason.Errorf(reason.Unauthenticated, "%s may not act now", c.Member)
	}
	return access.Caller{Principal: c.Member, OnBehalfOf: c.Member, Roles: m.Roles, DeviceID: c.ID, Surface: access.SurfaceSlack}, nil
}

// Vote casts a vote, once. What was shown has to be what waits.
func (v *Voter) Vote(ctx context.Context, vote ChatVote) (approval.Record, error) {
	caller, err := v.Caller(vote.Team, vote.User)
	if err != nil {
		return approval.Record{}, err
	}
	if err := v.Permit(caller, access.PermApprovalDecide); err != nil {
		return approval.Record{}, err
	}
	if vote.Digest == "" {
		return approval.Record{}, reason.Errorf(reason.InvalidInput, "the vote does not say what was shown")
	}
	r, err := v.Desk.Get(ctx, vote.Approval)
	if err != nil {
		return r, err
	}
	if err := Elsewhere(r); err != nil {
		return r, err
	}
	return v.Desk.Decide(ctx, caller, vote.Approval, approval.Ballot{Allow: vote.Allow, Scope: approval.Once, Reason: vote.Reason, ShownDigest: vote.Digest})
}
