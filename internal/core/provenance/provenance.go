// Package provenance records which member created which, and determines which of them are
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

// Act is something that was done to a member.
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

// Controlled returns those in whose name a principal could act now: itself, whom
// it made or changed, whom these made or changed while it could act as them, and
// so on. A confirmation takes a member out of its hands, unless the author is in
// them as well.
//
// Example: ann makes bob, bob makes cyd, cyd confirms bob and bob confirms cyd.
// Both are still ann's: no confirmation came from outside. If dan confirms bob
// then, cyd is ann's nevertheless: ann made it, as bob.
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

// principals are all that the history names, each once.
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
