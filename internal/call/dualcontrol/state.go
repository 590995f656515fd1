package dualcontrol

import (
	"fmt"
	"strings"

	"palyra/internal/core/access"
	"palyra/internal/core/provenance"
)

// State is whether changes require a second person now.
type State struct {
	On bool
	// Why is the reason, as text: the people who can answer, or the reason why there are not two.
	Why string
}

// DualControl reports whether changes require a second person now. They do if at least two
// of the people who can answer are independent of each other, unless the configuration disables
// dual control. Without two such people no change could be approved.
func (g *Gate) DualControl() State { return g.people.DualControl(g.switchedOff) }

// DualControl is Gate.DualControl for these people. switchedOff is true if the configuration
// disables dual control.
func (p People) DualControl(switchedOff bool) State {
	able := p.eligible(Rule{})
	if switchedOff {
		return State{Why: "dual_control = false in the configuration"}
	}
	if len(able) < 2 {
		return State{Why: "fewer than two owners and admins have a device" + p.ineligible()}
	}
	hands := p.History().Controllers().Independence()
	for i, a := range able {
		for _, b := range able[i+1:] {
			if hands.Independent(a, b) {
				return State{On: true, Why: joinNames(able)}
			}
		}
	}
	return State{Why: fmt.Sprintf("no two of %s are independent of each other; confirm independent persons with `palyrad members confirm` on the gateway's host", joinNames(able))}
}

// eligible returns the members whose kind, role and device allow them to answer under a rule.
func (p People) eligible(rule Rule) (list []access.Principal) {
	for _, m := range p.Members.List() {
		if m.CanVote() && rule.holds(m) && p.admits(m.Principal) {
			list = append(list, m.Principal)
		}
	}
	return list
}

// admits reports whether the gateway admits a principal. Every principal is admitted until the
// first policies are in force.
func (p People) admits(who access.Principal) bool {
	set := p.Engine.Current()
	return set == nil || set.Access().LetsIn(who)
}

// ineligible lists the owners and admins who cannot answer. A single owner can disable the others,
// so this list must be visible.
func (p People) ineligible() string {
	var list []string
	for _, m := range p.Members.List() {
		switch powerful := (access.Member{Roles: m.Roles}); {
		case m.Principal.Kind != access.KindUser || m.Removed() || !(Rule{}).holds(powerful) || m.CanVote() && p.admits(m.Principal):
		case m.Disabled:
			list = append(list, m.Principal.String()+" is disabled")
		case !p.admits(m.Principal):
			list = append(list, m.Principal.String()+" is excluded by allowed_principals")
		default:
			list = append(list, m.Principal.String()+" has no device")
		}
	}
	if len(list) == 0 {
		return ""
	}
	return ": " + strings.Join(list, ", ")
}

// maxNames is the highest number of names in a sentence.
const maxNames = 5

func joinNames(people []access.Principal) string {
	names := make([]string, 0, maxNames+1)
	for i, p := range people {
		if i == maxNames {
			names = append(names, fmt.Sprintf("%d more", len(people)-maxNames))
			break
		}
		names = append(names, p.String())
	}
	return strings.Join(names, ", ")
}

// answerers returns the members who could answer a question of this requester.
func (p People) answerers(rule Rule, by access.Caller) (list []access.Principal) {
	hands := p.History().Controllers().Independence()
	for _, who := range p.eligible(rule) {
		if independent(hands, who, by.Principal, by.OnBehalfOf) {
			list = append(list, who)
		}
	}
	return list
}

func independent(hands *provenance.Independence, voter access.Principal, of ...access.Principal) bool {
	for _, p := range of {
		if !hands.Independent(voter, p) {
			return false
		}
	}
	return true
}
