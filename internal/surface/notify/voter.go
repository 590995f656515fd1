package notify

import (
	"context"

	"palyra/internal/call/approval"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
)

// Votes accepts votes (approval.Votes).
type Votes interface {
	Decide(ctx context.Context, caller access.Caller, id string, b approval.Ballot) (approval.Record, error)
}

// Voter casts votes from a chat.
type Voter struct {
	Approvals Approvals
	Votes     Votes
	Users     *Users
	Members   Members
	// Permit returns nil if policy permits a caller of the API a permission.
	Permit func(c access.Caller, p access.Permission) error
}

// ChatVote is a vote from a chat.
type ChatVote struct {
	Team, User string
	Approval   string
	// Digest is the digest that the message displayed.
	Digest string
	Allow  bool
	Reason string
}

// CannotDecideInChat returns the reason why a record cannot be answered in a chat, or nil. Severe
// calls are answered only where all their details are displayed.
func CannotDecideInChat(r approval.Record) error {
	switch {
	case AtLeast(r.Severity, "high"):
		return reason.Errorf(reason.PermissionDenied, "a call of severity %s cannot be answered in a chat", r.Severity).WithRemedy("Open its link.")
	case r.SubjectType != approval.SubjectTool:
		return reason.Errorf(reason.PermissionDenied, "a question about %s cannot be answered in a chat", r.SubjectType).WithRemedy("Open its link.")
	default:
		return nil
	}
}

// Caller returns the member that a user of a chat acts as. The caller is never paired and never
// present.
func (v *Voter) Caller(team, user string) (access.Caller, error) {
	c, found := v.Users.Find(team, user)
	if !found {
		return access.Caller{}, reason.Errorf(reason.Unauthenticated, "no member is mapped to %s/%s", team, user).
			WithRemedy("Ask an admin to map you: `palyra notify slack map %s/%s user:NAME`.", team, user)
	}
	if !c.Votes() {
		return access.Caller{}, reason.Errorf(reason.Unauthenticated, "%s/%s waits for the consent of %s", team, user, c.Member).
			WithRemedy("%s must consent with a device of their own: `palyra notify slack consent %s/%s`.", c.Member, team, user)
	}
	m, active := v.Members.Active(c.Member)
	if !active || m.NoDevice {
		return access.Caller{}, reason.Errorf(reason.Unauthenticated, "%s is disabled or has no device", c.Member)
	}
	return access.Caller{Principal: c.Member, OnBehalfOf: c.Member, Roles: m.Roles, DeviceID: c.ID, Surface: access.SurfaceSlack}, nil
}

// Vote casts a vote with scope once. The digest of the message must match the pending call.
func (v *Voter) Vote(ctx context.Context, vote ChatVote) (approval.Record, error) {
	caller, err := v.Caller(vote.Team, vote.User)
	if err != nil {
		return approval.Record{}, err
	}
	if err := v.Permit(caller, access.PermApprovalDecide); err != nil {
		return approval.Record{}, err
	}
	if vote.Digest == "" {
		return approval.Record{}, reason.Errorf(reason.InvalidInput, "the vote has no digest of the displayed call")
	}
	r, err := v.Approvals.Get(ctx, vote.Approval)
	if err != nil {
		return r, err
	}
	if err := CannotDecideInChat(r); err != nil {
		return r, err
	}
	return v.Votes.Decide(ctx, caller, vote.Approval, approval.Ballot{Allow: vote.Allow, Scope: approval.Once, Reason: vote.Reason, ShownDigest: vote.Digest})
}
