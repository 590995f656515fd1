package dualcontrol

import (
	"fmt"
	"strings"

	"palyra/internal/core/access"
	"palyra/internal/core/provenance"
)

// Standing says whether changes take a second person now.
type Standing struct {
	On bool
	// Why says it in words: who the people are, or why there are no two.
	Why string
}

// DualControl says whether changes take a second person now: two of those who can
// answer have to be there, and neither in the other's hands. Otherwise nobody could
// ever answer, and the gateway would stay as it is.
func (g *Gate) DualControl() Standing { return g.people.DualControl(g.switchedOff) }

// DualControl says it of these people, under a configuration that wants no second
// person or does.
func (p People) DualControl(switchedOff bool) Standing {
	able := p.able(Rule{})
	if switchedOff {
		return Standing{Why: "dual_control = false in the configuration"}
	}
	if len(able) < 2 {
		return Standing{Why: "there are no two owners or admins with a device" + p.unable()}
	}
	hands := p.History().Hands().Independence()
	for i, a := range able {
		for _, b := range able[i+1:] {
			if hands.Independent(a, b) {
				return Standing{On: true, Why: named(able)}
			}
		}
	}
	return Standing{Why: fmt.Sprintf("no two of %s are independent of each other; `palyrad members confirm` on the gateway's host while palyrad is stopped says who is a person of their own", named(able))}
}

// able are those who can answer for a change, by what they are.
func (p People) able(rule Rule) (list []access.Principal) {
	for _, m := range p.Members.List() {
		if m.CanVote() && rule.holds(m) && p.letsIn(m.Principal) {
			list = append(list, m.Principal)
		}
	}
	return list
}

// letsIn reports whether the gateway lets somebody in at all. Before the first policies
// are in force, which they decide about, it does.
func (p People) letsIn(who access.Principal) bool {
	set := p.Engine.Current()
	return set == nil || set.LetsIn(who)
}

// unable names the owners and admins who cannot answer, since a single owner can
// disable the others: that has to be seen.
func (p People) unable() string {
	var list []string
	for _, m := range p.Members.List() {
		switch powerful := (access.Member{Roles: m.Roles}); {
		case m.Principal.Kind != access.KindUser || m.Removed() || !(Rule{}).holds(powerful) || m.CanVote() && p.letsIn(m.Principal):
		case m.Disabled:
			list = append(list, m.Principal.String()+" is disabled")
		case !p.letsIn(m.Principal):
			list = append(list, m.Principal.String()+" is kept out by allowed_principals")
		default:
			list = append(list, m.Principal.String()+" has no device")
		}
	}
	if len(list) == 0 {
		return ""
	}
	return ": " + strings.Join(list, ", ")
}

// most is how many names a sentence has.
const most = 5

func named(people []access.Principal) string {
	names := make([]string, 0, most+1)
	for i, p := range people {
		if i == most {
			names = append(names, fmt.Sprintf("%d more", len(people)-most))
			break
		}
		names = append(names, p.String())
	}
	return strings.Join(names, ", ")
}

// answerers are those who could answer for a change that somebody asks for.
func (p People) answerers(rule Rule, by access.Caller) (list []access.Principal) {
	hands := p.History().Hands().Independence()
	for _, who := range p.able(rule) {
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
