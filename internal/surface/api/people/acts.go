package people

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/call/approval"
	"palyra/internal/core/event"
	"palyra/internal/evidence/journal"
)

// payload has the fields of all events of acts. Each event uses some of them.
type payload struct {
	// Votes and grants.
	Vote struct {
		Device string         `json:"device"`
		Allow  bool           `json:"allow"`
		Scope  approval.Scope `json:"scope"`
	} `json:"vote"`
	Tool   string         `json:"tool"`
	Scope  approval.Scope `json:"scope"`
	Covers string         `json:"covers"`
	// Runs, tokens, members and devices.
	Model     string   `json:"model"`
	Workspace string   `json:"workspace"`
	Name      string   `json:"name"`
	WasName   string   `json:"was_name"`
	Principal string   `json:"principal"`
	Scopes    []string `json:"scopes"`
	Roles     []string `json:"roles"`
	WasRoles  []string `json:"was_roles"`
	Owner     string   `json:"owner"`
	WasOwner  string   `json:"was_owner"`
	Members   []string `json:"members"`
	// Policies and ceilings.
	Version    string `json:"policy_version"`
	WasVersion string `json:"was_version"`
	Allowed    bool   `json:"allowed"`
}

// describeAct describes an event, with the command that undoes it.
func describeAct(e *journal.Event) *palyrav1.DeviceAct {
	act := &palyrav1.DeviceAct{Seq: e.Seq, At: moment(e.At), Code: string(e.Code), Subject: e.Subject}
	var p payload
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		// The payload was erased, or has an unknown form. The event itself is still listed.
		act.Summary = "its content was erased"
		return act
	}
	say := func(undo, format string, args ...any) {
		act.Summary = fmt.Sprintf(format, args...)
		if undo != "" {
			act.Undo = "palyra " + undo
		}
	}
	switch e.Code {
	case event.Voted:
		if p.Vote.Allow {
			say("approvals cancel "+e.Subject, "allowed an approval (%s)", p.Vote.Scope)
			break
		}
		say("", "denied an approval")
	case event.GrantMinted:
		say("grants revoke "+e.Subject, "made a grant: %s, %s", cmp.Or(p.Covers, p.Tool), p.Scope)
	case event.Proposed:
		say("calls cancel "+e.Subject, "called %s", p.Tool)
	case event.RunStarted:
		say("runs cancel "+e.Subject, "started a run of %s", cmp.Or(p.Model, "the default model"))
	case event.PolicyLoaded, event.CeilingSet, event.Frozen, event.Thawed:
		p.gateway(e, say)
	default:
		p.identity(e, say)
	}
	return act
}

// gateway describes a change of policies, ceilings or the freeze.
func (p *payload) gateway(e *journal.Event, say func(undo, format string, args ...any)) {
	switch e.Code {
	case event.PolicyLoaded:
		undo := ""
		if p.WasVersion != "" {
			undo = "policy activate " + p.WasVersion
		}
		say(undo, "put the policies %s in force", p.Version)
	case event.CeilingSet:
		was, now := "forbid", "admitted"
		if !p.Allowed {
			was, now = "allow", "excluded"
		}
		say("access "+was+" "+p.Name, "%s %s by a ceiling", now, p.Name)
	case event.Frozen:
		say("thaw", "froze the gateway")
	default:
		say("freeze", "ended a freeze")
	}
}

// identity describes a change of members, devices or tokens.
func (p *payload) identity(e *journal.Event, say func(undo, format string, args ...any)) {
	switch e.Code {
	case event.TokenMade:
		say("tokens revoke "+e.Subject, "made the token %q, which acts as %s: %s", p.Name, p.Principal, strings.Join(p.Scopes, ", "))
	case event.TokenRevoked:
		say("", "revoked the token %q", p.Name)
	case event.MemberAdded:
		say("members disable "+p.Principal, "added %s: %s", p.Principal, strings.Join(p.Roles, ", "))
	case event.MemberChanged:
		say(p.undoCommand(), "changed %s from %s to %s", p.Principal, p.before(), p.after())
	case event.MemberDisabled:
		say("members enable "+p.Principal, "disabled %s", p.Principal)
	case event.MemberEnabled:
		say("members disable "+p.Principal, "enabled %s", p.Principal)
	case event.MemberRemoved:
		say("", "removed %s", p.Principal)
	case event.MembersConfirmed:
		say("members disable "+strings.Join(p.Members, " "), "confirmed %s", strings.Join(p.Members, ", "))
	case event.DeviceAdded:
		say("devices revoke "+e.Subject, "gave %s the device %s", p.Principal, e.Subject)
	case event.DeviceRevoked:
		say("", "revoked the device %s of %s", e.Subject, p.Principal)
	case event.PresenceKeyRegistered:
		say("", "gave the device %s a presence key", e.Subject)
	case event.PresenceKeyConfirmed:
		say("devices revoke "+e.Subject, "confirmed the presence key of the device %s", e.Subject)
	case event.PresenceKeyReset:
		say("", "took the presence key from the device %s", e.Subject)
	case event.DeviceRenamed:
		say(fmt.Sprintf("devices rename %s %q", e.Subject, p.WasName), "named the device %s %q", e.Subject, p.Name)
	default:
		say("", "%s", e.Code)
	}
}

// undoCommand returns the command that undoes a change of a member.
func (p *payload) undoCommand() string {
	if p.Owner != p.WasOwner {
		return fmt.Sprintf("members owner %s %s", p.Principal, p.WasOwner)
	}
	words := []string{"members roles", p.Principal}
	for _, r := range without(p.WasRoles, p.Roles) {
		words = append(words, "--add", r)
	}
	for _, r := range without(p.Roles, p.WasRoles) {
		words = append(words, "--remove", r)
	}
	return strings.Join(words, " ")
}

func (p *payload) before() string { return standing(p.WasRoles, p.WasOwner) }
func (p *payload) after() string  { return standing(p.Roles, p.Owner) }

func standing(roles []string, owner string) string {
	text := strings.Join(roles, ", ")
	if owner != "" {
		text += " of " + owner
	}
	return text
}

func without(list, but []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(but, s) })
}
