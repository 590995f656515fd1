package policy

import (
	"fmt"
	"strings"

	"palyra/internal/core/access"
)

// callSurfaces are surfaces for calls on which users cannot vote.
var callSurfaces = []access.Surface{access.SurfaceMCP}

// surfaces are the surfaces on which users vote.
var surfaces = []access.Surface{
	access.SurfaceConsole, access.SurfaceCLI, access.SurfaceTUI, access.SurfaceGRPC,
	access.SurfaceStream, access.SurfaceInClient, access.SurfaceWebhook, access.SurfaceSlack,
}

// reach is a set of surfaces for votes, with the possibility to prove presence. It is
// comparable.
type reach struct {
	// on has a bit per element of surfaces.
	on      uint16
	present bool
}

// everywhere is the reach with all surfaces and presence.
func everywhere() reach { return reach{on: 1<<len(surfaces) - 1, present: true} }

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

// voter returns a hypothetical voter with these roles who proves everything provable on every
// surface within reach.
func (r reach) voter(n int, roles ...access.Role) ballot {
	return ballot{
		user: access.User(fmt.Sprintf("(voter %d)", n)), roles: roles, surfaces: r.list(), paired: true, present: r.present,
	}
}

// outOfReach determines whether the gateway itself prevents an approval. This is the case if
// existing or additional users could allow the call on a gateway with another surface or a
// proof of presence.
func (c *call) outOfReach(severity string) lack {
	all := everywhere()
	if c.voting.offers == all {
		return lack{}
	}
	people := func(r reach) bool { return c.under(c.voters(r, severity).facts).allowed }
	anybody := func(r reach) bool { return c.under(c.voting.strongest(r)).allowed }
	switch {
	case people(c.voting.offers):
		return lack{}
	case people(all):
		return c.voting.offers.wanting(people)
	case !anybody(c.voting.offers):
		return c.voting.offers.wanting(anybody)
	default:
		return lack{}
	}
}

// wanting finds the smallest addition to this gateway's reach that suffices. All additions
// together are known to suffice.
func (r reach) wanting(suffices func(reach) bool) lack {
	need := everywhere()
	if !r.present {
		if without := (reach{on: need.on}); suffices(without) {
			need = without
		}
	}
	var alone []access.Surface
	for i, surface := range surfaces {
		one := reach{on: r.on | 1<<i, present: need.present}
		switch {
		case !suffices(one):
		case one.on == r.on:
			return r.wants(nil, "", need) // the surfaces are sufficient
		default:
			alone = append(alone, surface)
		}
	}
	if len(alone) > 0 {
		return r.wants(alone, " or ", need)
	}
	return r.wants(r.together(need, suffices), " and ", need)
}

// together removes, one after the other, the surfaces that the call does not need.
func (r reach) together(need reach, suffices func(reach) bool) []access.Surface {
	for i := range surfaces {
		fewer := reach{on: need.on &^ (1 << i), present: need.present}
		if r.on&(1<<i) == 0 && suffices(fewer) {
			need = fewer
		}
	}
	return reach{on: need.on &^ r.on}.list()
}

// wants describes the missing reach: votes on these surfaces, and presence.
func (r reach) wants(on []access.Surface, word string, need reach) lack {
	var policyWants, gatewayHas []string
	if len(on) > 0 {
		names := joined(on, word)
		policyWants = append(policyWants, "an approval on "+names)
		gatewayHas = append(gatewayHas, "no "+strings.ReplaceAll(names, word, " and no ")+" is available in this version")
	}
	if need.present && !r.present {
		policyWants = append(policyWants, "an approver who proves to be present")
		gatewayHas = append(gatewayHas, "presence cannot be proven in this version")
	}
	why := strings.Join(gatewayHas, ", and ")
	remedy := strings.ToUpper(why[:1]) + why[1:] + ". Ask an operator to change the policy"
	if offered := r.list(); len(on) > 0 && len(offered) > 0 {
		remedy += " so that it accepts an approval on " + joined(offered, " or ")
	}
	return lack{
		text:   "policy wants " + strings.Join(policyWants, " and ") + ", and " + why,
		remedy: remedy + ".",
	}
}

func joined(list []access.Surface, word string) string { return strings.Join(texts(list), word) }
