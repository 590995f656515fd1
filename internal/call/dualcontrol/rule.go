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

// Rule says whose yes a question takes, beside what its type says. One yes is
// enough.
//
// A change of the gateway takes an owner or admin who votes with a live device and
// is independent of whoever asks: neither can act as the other, and nobody else as
// both (package provenance). A device that pairs takes somebody who may change
// members, which may be the one who made the pairing code; see PairingRule.
type Rule struct {
	// Owner is true where owners or admins are concerned: a change then takes an
	// owner, and a device somebody who may change those.
	Owner bool `json:"owner,omitempty"`
	// Own is true for another device of whoever asks: they may allow it themselves, with
	// a device that they have, not with the session of a login, which a device outlasts.
	Own bool `json:"own,omitempty"`
	// Second is true for a device that pairs for somebody else, or with a new member,
	// while changes of the gateway take a second person: so does this one.
	Second bool `json:"second,omitempty"`
	// Not is the device that is asked about. Its own vote does not count.
	Not string `json:"not,omitempty"`
}

// PairingRule is the rule for a device that pairs. One's own takes no other person.
// For another member, or a new one, it takes a second person where every other change
// of the members does; the error says when nobody could be it.
func (g *Gate) PairingRule(own, owner bool, by access.Caller) (Rule, error) {
	rule := Rule{Owner: owner, Own: own}
	if own || !g.DualControl().On {
		return rule, nil
	}
	rule, err := g.attainable(rule, by)
	rule.Second = true
	return rule, err
}

// wants says whose yes is missing.
func (r Rule) wants(t approval.SubjectType, requester access.Principal) string {
	if t == approval.SubjectDevicePairing && !r.Second && r.Own {
		return fmt.Sprintf("%s, or a person who may %s", requester, r.permission())
	}
	if t == approval.SubjectDevicePairing && !r.Second {
		return fmt.Sprintf("a person who may %s", r.permission())
	}
	return r.who() + " who is independent of " + requester.String()
}

// who is a change's voter in words.
func (r Rule) who() string {
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

// People are what the rules look at.
type People struct {
	Members *access.Registry
	// History is what was done to the members.
	History func() provenance.History
	// LiveDevice reports whether a device is known and not revoked.
	LiveDevice func(id string) bool
	// Session reports whether a device is the session of a login.
	Session func(id string) bool
	// Engine says whom the gateway lets in at all, and who may change members, for
	// devices that pair.
	Engine *policy.Engine
}

// active is the caller's member as it is now, if it may answer questions about the
// gateway at all: a person, with a certificate of a device that was not revoked.
func (p People) active(user access.Principal, device string) (access.Member, error) {
	m, ok := p.Members.Active(user)
	if !ok || user.Kind != access.KindUser || !p.LiveDevice(device) || !p.Engine.Current().LetsIn(user) {
		return m, reason.Errorf(reason.PermissionDenied, "%s may not answer: only users with a device of their own do", user)
	}
	return m, nil
}

// mayAdmit returns nil when somebody may answer whether a device pairs.
func (p People) mayAdmit(rule Rule, r approval.Record, user access.Principal, device string) error {
	if _, err := p.active(user, device); err != nil {
		return err
	}
	if rule.Not != "" && device == rule.Not {
		return reason.Errorf(reason.PermissionDenied, "a device does not answer for itself")
	}
	if rule.Own && user == r.RequestedBy {
		return p.lasting(device)
	}
	return p.Engine.Current().Permit(policy.AccessRequest{
		Caller:     access.Caller{Principal: user, OnBehalfOf: user, DeviceID: device, Paired: true},
		Permission: rule.permission(),
	})
}

// lasting refuses the word of a login session for a device of its own person: who stole a
// session, or lost the account, would have a credential without an end.
func (p People) lasting(device string) error {
	if !p.Session(device) {
		return nil
	}
	return reason.Errorf(reason.PermissionDenied, "a login session ends, and gives its own person no device that lasts").
		WithRemedy("Allow it with a device of yours that you did not log in with, or ask somebody else who may change members.")
}

// mayAnswer returns nil when somebody may answer whether the gateway changes.
// Whether a yes counts is more, see independent: anybody of them may say no.
func (p People) mayAnswer(rule Rule, r approval.Record, user access.Principal, device string) error {
	m, err := p.active(user, device)
	switch {
	case err != nil:
		return err
	case user == r.RequestedBy || user == r.OnBehalfOf:
		return reason.Errorf(reason.PermissionDenied, "nobody answers for a change of their own").
			WithRemedy("Ask %s to answer; `palyra approvals cancel %s` takes the question back.", rule.who(), r.ID)
	case !rule.holds(m):
		return reason.Errorf(reason.PermissionDenied, "a change of the gateway takes %s", rule.who())
	default:
		return nil
	}
}

// holds reports whether a member has the role that a change takes.
func (r Rule) holds(m access.Member) bool {
	return m.Holds(access.RoleOwner) || !r.Owner && m.Holds(access.RoleAdmin)
}

// Judge answers the desk about questions on the gateway, and leaves those about
// calls to another judge.
type Judge struct {
	Calls  approval.Judge
	People People
}

var _ approval.Judge = Judge{}

// MayDecide lets owners and admins answer a change, and whoever may change members
// answer a device. Who asks for a change does not answer it.
func (j Judge) MayDecide(ctx context.Context, caller access.Caller, r approval.Record) error {
	if !r.AboutGateway() {
		return j.Calls.MayDecide(ctx, caller, r)
	}
	if caller.Token != nil || !caller.Paired {
		return reason.Errorf(reason.PermissionDenied, "questions about the gateway are answered with the certificate of a device")
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

// Judge counts the votes that are good now: whoever voted and has lost the device,
// the role or the independence since does not count.
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
	missing := rule.wants(r.SubjectType, r.RequestedBy)
	hands := p.History().Hands().Independence()
	for _, v := range votes {
		if !v.Allow || !v.Paired || p.may(rule, r, v.User, v.Device) != nil {
			continue
		}
		if r.SubjectType == approval.SubjectDevicePairing && !rule.Second || independent(hands, v.User, r.RequestedBy, r.OnBehalfOf) {
			return approval.Ruling{Allowed: true}
		}
		missing += fmt.Sprintf("; %s is not, since one of the two made or changed the other, or somebody made both", v.User)
	}
	return approval.Ruling{Missing: missing, Needs: onePerson()}
}

// onePerson is what every question about the gateway takes.
func onePerson() *approval.Needs { return &approval.Needs{Want: 1, Paired: true} }

// MayGrantBroad is about calls alone: questions about the gateway have no grants.
func (j Judge) MayGrantBroad(ctx context.Context, caller access.Caller) error {
	return j.Calls.MayGrantBroad(ctx, caller)
}

// ruleOf reads the rule that a question was asked with. A record that is settled has
// none any more, and nobody answers it.
func ruleOf(r approval.Record) (rule Rule, err error) {
	if r.State.Terminal() {
		return rule, nil
	}
	if err := json.Unmarshal(r.Request, &rule); err != nil {
		return rule, fmt.Errorf("reading the rule of approval %s: %w", r.ID, err)
	}
	return rule, nil
}
