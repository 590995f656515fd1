// Package provenance records which member created which, and determines which members are
// independent of each other. It is pure, and a leaf.
//
// Two people count as two only if neither can act as the other. The creator of a member, or the
// giver of its role or device, could hold that member's key. One person who creates two members
// could therefore approve as both.
package provenance

import (
	"cmp"
	"slices"
	"time"

	"palyra/internal/core/access"
)

// Act is an act on a member.
type Act struct {
	Member access.Principal `json:"member"`
	Kind   Kind             `json:"kind"`
	// By are the possible authors: one principal, or every member that held a device of the
	// gateway's own host, if the act was done there. It is empty for the administrator of the host,
	// the identity provider that the administrator chose, and the gateway itself on its first
	// start.
	By []access.Principal `json:"by,omitempty"`
	At time.Time          `json:"at"`
}

// History is the list of acts on members, oldest first. A member without acts has no author.
type History []Act

// Controlled returns the members that a principal could act as now: itself, the members that it
// created or changed, the members that these created or changed while it controlled them, and
// so on. A confirmation ends its control over a member, unless it controls the author of the
// confirmation.
//
// Example: ann creates bob, bob creates cyd, cyd confirms bob, and bob confirms cyd. ann still
// controls both, because she controls the authors of both confirmations. If dan then confirms
// bob, ann still controls cyd: she created cyd as bob.
func (h History) Controlled(by access.Principal) map[access.Principal]bool {
	hands := map[access.Principal]bool{by: true}
	for _, act := range h {
		author := slices.ContainsFunc(act.By, func(p access.Principal) bool { return hands[p] })
		switch effects[act.Kind] {
		case Settles:
			if !author && act.Member != by {
				delete(hands, act.Member)
			}
		case Controls:
			if author {
				hands[act.Member] = true
			}
		case NeedsConsent, OwnWord, GivesNothing:
		}
	}
	return hands
}

// principals returns all principals in the history, without duplicates.
func (h History) principals() []access.Principal {
	var all []access.Principal
	for _, act := range h {
		all = append(append(all, act.Member), act.By...)
	}
	slices.SortFunc(all, compare)
	return slices.Compact(all)
}

func compare(a, b access.Principal) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
}
