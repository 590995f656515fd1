package dualcontrol

import (
	"context"
	"encoding/json"
	"fmt"

	"palyra/internal/call/approval"
	"palyra/internal/call/policy"
	"palyra/internal/core/access"
	"palyra/internal/core/provenance"
	"palyra/internal/core/reason"
)

// Rule states who may approve a question, in addition to the rules of its type. One approval is
// enough.
//
// A change of the gateway requires an owner or admin who votes with a live device and is
// independent of the requester. Independent means that neither can act as the other, and no
// third person can act as both (package provenance). A device pairing requires a member who may
// change members. That member may be the one who made the pairing code; see PairingRule.
type Rule struct {
	// Owner is true if the question concerns owners or admins. A change then requires an owner, and
	// a pairing a member who may change owners and admins.
	Owner bool `json:"owner,omitempty"`
	// Own is true for another device of the requester. The requester may allow it with an existing
	// device, but not with a login session, because the new device would outlast the session.
	Own bool `json:"own,omitempty"`
	// Second is true for a device of another member or a new member while dual control is on. The
	// pairing then requires a second person, like a change of the gateway.
	Second bool `json:"second,omitempty"`
	// Not is the device that the question is about. Its own vote does not count.
	Not string `json:"not,omitempty"`
}

// PairingRule returns the rule for a device pairing. A member's own additional device requires no
// other person. A device for another member, or for a new one, requires a second person while dual
// control is on. PairingRule returns an error if no person could be the second.
func (g *Gate) PairingRule(own, owner bool, by access.Caller) (Rule, error) {
	rule := Rule{Owner: owner, Own: own}
	if own || !g.DualControl().On {
		return rule, nil
	}
	rule, err := g.attainable(rule, by)
	rule.Second = true
	return rule, err
}

// missing describes the approver that is missing.
func (r Rule) missing(t approval.SubjectType, requester access.Principal) string {
	if t == approval.SubjectDevicePairing && !r.Second && r.Own {
		return fmt.Sprintf("%s, or a person who may %s", requester, r.permission())
	}
	if t == approval.SubjectDevicePairing && !r.Second {
		return fmt.Sprintf("a person who may %s", r.permission())
	}
	return r.voter() + " who is independent of " + requester.String()
}

// voter describes the required voter of a change.
func (r Rule) voter() string {
	if r.Owner {
		return "another owner"
	}
	return "another owner or admin"
}

func (r Rule) permission() access.Permission {
	if r.Owner {
		return access.PermAccessWriteOwner
	}
	return access.PermAccessWrite
}

// People is the state that the rules read.
type People struct {
	Members *access.Registry
	// History returns the recorded acts on members.
	History func() provenance.History
	// LiveDevice reports whether a device exists and is not revoked.
	LiveDevice func(id string) bool
	// Session reports whether a device is a login session.
	Session func(id string) bool
	// Engine decides whom the gateway admits, and who may change members. A device pairing
	// requires a member who may.
	Engine *policy.Engine
}

// active returns the current state of a member who may answer questions about the gateway: a user
// with the certificate of a device that is not revoked.
func (p People) active(user access.Principal, device string) (access.Member, error) {
	m, ok := p.Members.Active(user)
	if !ok || user.Kind != access.KindUser || !p.LiveDevice(device) || !p.Engine.Current().Access().LetsIn(user) {
		return m, reason.Errorf(reason.PermissionDenied, "%s may not answer: only users with a device of their own may", user)
	}
	return m, nil
}

// mayAdmit returns nil if a user may answer a question about a device pairing.
func (p People) mayAdmit(rule Rule, r approval.Record, user access.Principal, device string) error {
	if _, err := p.active(user, device); err != nil {
		return err
	}
	if rule.Not != "" && device == rule.Not {
		return reason.Errorf(reason.PermissionDenied, "a device cannot approve its own pairing")
	}
	if rule.Own && user == r.RequestedBy {
		return p.checkNotSession(device)
	}
	return p.Engine.Current().Access().Permit(policy.AccessRequest{
		Caller:     access.Caller{Principal: user, OnBehalfOf: user, DeviceID: device, Paired: true},
		Permission: rule.permission(),
	})
}

// checkNotSession refuses a login session as the approver of a device of the same person. A person
// who stole a session, or who has lost the account, would otherwise get a credential that does not
// expire.
func (p People) checkNotSession(device string) error {
	if !p.Session(device) {
		return nil
	}
	return reason.Errorf(reason.PermissionDenied, "a login session cannot allow a device of its own person, because the device would outlast the session").
		WithRemedy("Allow it with a paired device of yours, or ask another person who may change members.")
}

// mayAnswer returns nil if a user may answer a question about a change of the gateway. An
// approval also requires independence (see independent); each of these users may deny.
func (p People) mayAnswer(rule Rule, r approval.Record, user access.Principal, device string) error {
	m, err := p.active(user, device)
	switch {
	case err != nil:
		return err
	case user == r.RequestedBy || user == r.OnBehalfOf:
		return reason.Errorf(reason.PermissionDenied, "a requester cannot answer their own change").
			WithRemedy("Ask %s to answer, or withdraw the question with `palyra approvals cancel %s`.", rule.voter(), r.ID)
	case !rule.holds(m):
		return reason.Errorf(reason.PermissionDenied, "a change of the gateway requires %s", rule.voter())
	default:
		return nil
	}
}

// holds reports whether a member has the role that a change requires.
func (r Rule) holds(m access.Member) bool {
	return m.Holds(access.RoleOwner) || !r.Owner && m.Holds(access.RoleAdmin)
}

// Judge decides about votes on questions about the gateway. It passes questions about calls to
// another judge.
type Judge struct {
	Calls  approval.Judge
	People People
}

var _ approval.Judge = Judge{}

// MayDecide permits owners and admins to answer a change, and members who may change members to
// answer a device pairing. Requesters cannot answer their own change.
func (j Judge) MayDecide(ctx context.Context, caller access.Caller, r approval.Record) error {
	if !r.AboutGateway() {
		return j.Calls.MayDecide(ctx, caller, r)
	}
	if caller.Token != nil || !caller.Paired {
		return reason.Errorf(reason.PermissionDenied, "questions about the gateway can be answered only with the certificate of a device")
	}
	rule, err := ruleOf(r)
	if err != nil {
		return err
	}
	return j.People.may(rule, r, caller.Principal, caller.DeviceID)
}

func (p People) may(rule Rule, r approval.Record, user access.Principal, device string) error {
	if r.SubjectType == approval.SubjectDevicePairing && !rule.Second {
		return p.mayAdmit(rule, r, user, device)
	}
	return p.mayAnswer(rule, r, user, device)
}

// Judge counts the votes that are valid now. The vote of a member who has since lost the device,
// the role or the independence does not count.
func (j Judge) Judge(ctx context.Context, r approval.Record, votes []approval.Vote) (approval.Ruling, error) {
	if !r.AboutGateway() {
		return j.Calls.Judge(ctx, r, votes)
	}
	rule, err := ruleOf(r)
	if err != nil {
		return approval.Ruling{}, err
	}
	return j.People.rule(rule, r, votes), nil
}

func (p People) rule(rule Rule, r approval.Record, votes []approval.Vote) approval.Ruling {
	missing := rule.missing(r.SubjectType, r.RequestedBy)
	hands := p.History().Controllers().Independence()
	for _, v := range votes {
		if !v.Allow || !v.Paired || p.may(rule, r, v.User, v.Device) != nil {
			continue
		}
		if r.SubjectType == approval.SubjectDevicePairing && !rule.Second || independent(hands, v.User, r.RequestedBy, r.OnBehalfOf) {
			return approval.Ruling{Allowed: true}
		}
		missing += fmt.Sprintf("; %s is not independent, because one of the two added or changed the other, or one person added both", v.User)
	}
	return approval.Ruling{Missing: missing, Needs: onePerson()}
}

// onePerson is the requirement of every question about the gateway.
func onePerson() *approval.Needs { return &approval.Needs{Want: 1, Paired: true} }

// MayGrantBroad concerns only calls: questions about the gateway have no grants.
func (j Judge) MayGrantBroad(ctx context.Context, caller access.Caller) error {
	return j.Calls.MayGrantBroad(ctx, caller)
}

// ruleOf returns the rule of a question. A settled record has no rule, and cannot be answered.
func ruleOf(r approval.Record) (rule Rule, err error) {
	if r.State.Terminal() {
		return rule, nil
	}
	if err := json.Unmarshal(r.Request, &rule); err != nil {
		return rule, fmt.Errorf("reading the rule of approval %s: %w", r.ID, err)
	}
	return rule, nil
}
