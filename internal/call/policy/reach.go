package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/core/access"
)

// callSurfaces are those where calls come from and nobody votes.
var callSurfaces = []access.Surface{access.SurfaceMCP}

// surfaces are those where people vote.
var surfaces = []access.Surface{
	access.SurfaceConsole, access.SurfaceCLI, access.SurfaceTUI, access.SurfaceGRPC,
	access.SurfaceStream, access.SurfaceInClient, access.SurfaceWebhook, access.SurfaceSlack,
}

// reach is where people can vote and whether they can prove their presence:
// what a gateway offers, or would have to. It is comparable.
type reach struct {
	// on has a bit per element of surfaces.
	on      uint16
	present bool
}

// everywhere is the reach that policies could wish for.
func everywhere() reach { return reach{on: 1<<len(surfaces) - 1, present: true} }

// reachOf is what the configuration says that this gateway offers.
func reachOf(cfg Config) reach {
	r := everywhere()
	r.present = !cfg.NoPresence
	if cfg.Surfaces == nil {
		return r
	}
	r.on = 0
	for i, surface := range surfaces {
		if slices.Contains(cfg.Surfaces, surface) {
			r.on |= 1 << i
		}
	}
	return r
}

// list returns the surfaces, in the order of surfaces.
func (r reach) list() []access.Surface {
	var out []access.Surface
	for i, surface := range surfaces {
		if r.on&(1<<i) != 0 {
			out = append(out, surface)
		}
	}
	return out
}

// voter is a possible further voter: somebody with these roles, who
// proves what can be proved on every surface within reach.
func (r reach) voter(n int, roles ...access.Role) ballot {
	return ballot{
		user: access.User(fmt.Sprintf("(voter %d)", n)), roles: roles, surfaces: r.list(), paired: true, present: r.present,
	}
}

// everybody is the approval of ten people who hold every role and prove
// everything within reach.
func (s *Set) everybody(r reach) types.Record {
	var ballots []ballot
	for i := range 10 {
		ballots = append(ballots, r.voter(i, s.vocab.roles...))
	}
	return s.facts(access.Principal{}, ballots, false)
}

// outOfReach asks whether the gateway itself stands in the way: people could
// allow the call, those who exist or at least some, if only it offered another
// surface or a proof of presence.
func (s *Set) outOfReach(c *call, severity string) lack {
	all := everywhere()
	if s.offers == all {
		return lack{}
	}
	people := func(r reach) bool { return c.under(c.voters(r, severity).facts).allowed }
	anybody := func(r reach) bool { return c.under(s.everybody(r)).allowed }
	switch {
	case people(s.offers):
		return lack{}
	case people(all):
		return s.wanting(people)
	case !anybody(s.offers):
		return s.wanting(anybody)
	default:
		return lack{}
	}
}

// wanting finds what the gateway would have to offer beside what it does, as
// little as possible. Everything together is known to suffice.
func (s *Set) wanting(suffices func(reach) bool) lack {
	need := everywhere()
	if !s.offers.present {
		if without := (reach{on: need.on}); suffices(without) {
			need = without
		}
	}
	var alone []access.Surface
	for i, surface := range surfaces {
		one := reach{on: s.offers.on | 1<<i, present: need.present}
		switch {
		case !suffices(one):
		case one.on == s.offers.on:
			return s.wants(nil, "", need) // the surfaces are not what is wanting
		default:
			alone = append(alone, surface)
		}
	}
	if len(alone) > 0 {
		return s.wants(alone, " or ", need)
	}
	return s.wants(s.together(need, suffices), " and ", need)
}

// together drops one surface after the other that the call does not need.
func (s *Set) together(need reach, suffices func(reach) bool) []access.Surface {
	for i := range surfaces {
		fewer := reach{on: need.on &^ (1 << i), present: need.present}
		if s.offers.on&(1<<i) == 0 && suffices(fewer) {
			need = fewer
		}
	}
	return reach{on: need.on &^ s.offers.on}.list()
}

// wants says what is wanting: votes on these surfaces, and presence.
func (s *Set) wants(on []access.Surface, word string, need reach) lack {
	var policyWants, gatewayHas []string
	if len(on) > 0 {
		names := joined(on, word)
		policyWants = append(policyWants, "an approval on "+names)
		gatewayHas = append(gatewayHas, "no "+strings.ReplaceAll(names, word, " and no ")+" is available in this version")
	}
	if need.present && !s.offers.present {
		policyWants = append(policyWants, "an approver who proves to be present")
		gatewayHas = append(gatewayHas, "presence cannot be proven in this version")
	}
	why := strings.Join(gatewayHas, ", and ")
	remedy := strings.ToUpper(why[:1]) + why[1:] + ". Ask an operator to change the policy"
	if offered := s.offers.list(); len(on) > 0 && len(offered) > 0 {
		remedy += " so that it accepts an approval on " + joined(offered, " or ")
	}
	return lack{
		text:   "policy wants " + strings.Join(policyWants, " and ") + ", and " + why,
		remedy: remedy + ".",
	}
}

func joined(list []access.Surface, word string) string {
	names := make([]string, len(list))
	for i, surface := range list {
		names[i] = string(surface)
	}
	return strings.Join(names, word)
}

// NobodyPresent says that policies ask for somebody who proves to be present, where
// none of those who have a key for that may decide an approval; "" for all others.
func (s *Set) NobodyPresent(proving []access.Principal) (problem, remedy string) {
	var asking []string
	for _, p := range s.policies {
		if p.asksPresence() {
			asking = append(asking, p.ID)
		}
	}
	if len(asking) == 0 || slices.ContainsFunc(s.dir.voters, func(m access.Member) bool {
		return slices.Contains(proving, m.Principal) && s.decidesByPolicy(m.Principal)
	}) {
		return "", ""
	}
	slices.Sort(asking)
	return "a vote that is present is asked for by " + strings.Join(asking, ", ") + ", and nobody who may decide approvals has a presence key that counts: what that holds back cannot be allowed",
		"Make one with the credential of a device: `palyra key presence --passphrase`. One that waits is confirmed by `palyrad presence confirm DEVICE` on the gateway's host."
}

// asksPresence reports whether a policy reads the presence of a vote, or names one that
// is present.
func (c *compiled) asksPresence() bool {
	if c.Mentions("context", "present") {
		return true
	}
	return c.votes && slices.ContainsFunc(c.Constants(), func(v types.Value) bool {
		vote, ok := v.(types.Record)
		if !ok {
			return false
		}
		present, ok := vote.Get("present")
		return ok && present.Equal(types.True)
	})
}
