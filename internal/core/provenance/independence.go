package provenance

import (
	"math/bits"
	"slices"

	"palyra/internal/core/access"
)

// maxVoters is the highest number of voters that Count considers. It bounds the work to 2^20
// combinations; in practice there are far fewer.
const maxVoters = 20

// Controllers maps each member to the other principals that control it: the creators or changers
// whose act no independent principal confirmed. Members controlled by no other principal have no
// row.
type Controllers map[access.Principal][]access.Principal

// Controllers returns the controllers of all members in the history.
func (h History) Controllers() Controllers {
	hands := Controllers{}
	for _, by := range h.principals() {
		for member := range h.Controlled(by) {
			if member != by {
				hands[member] = append(hands[member], by)
			}
		}
	}
	for _, list := range hands {
		slices.SortFunc(list, compare)
	}
	return hands
}

// Independence determines whether one credential could be behind two members. It is computed
// once from Controllers and is then safe for concurrent use. In the zero value, all members are
// independent of each other.
type Independence struct {
	// hands maps each principal to the other principals that control it.
	hands map[access.Principal]map[access.Principal]bool
	// beside are the co-requesters of the requester passed to Count.
	beside []access.Principal
}

// Beside returns a copy of i with co-requesters, for Count.
func (i *Independence) Beside(others ...access.Principal) *Independence {
	return &Independence{hands: i.hands, beside: others}
}

// Independence returns h in a form for queries.
func (h Controllers) Independence() *Independence {
	i := &Independence{hands: map[access.Principal]map[access.Principal]bool{}}
	for member, list := range h {
		i.hands[member] = map[access.Principal]bool{}
		for _, by := range list {
			i.hands[member][by] = true
		}
	}
	return i
}

// Independent reports whether neither of the two controls the other, and no third principal
// controls both.
func (i *Independence) Independent(a, b access.Principal) bool {
	if a == b {
		return false
	}
	if i.hands[a][b] || i.hands[b][a] {
		return false
	}
	for by := range i.hands[a] {
		if i.hands[b][by] {
			return false
		}
	}
	return true
}

// Apart reports whether a principal other than b controls a and does not control b.
func (i *Independence) Apart(a, b access.Principal) bool {
	for by := range i.hands[a] {
		if by != b && !i.hands[b][by] {
			return true
		}
	}
	return false
}

// Count returns a lower bound of the number of different people among the voters: the size of
// the largest subset that is independent of the requester, of its co-requesters, and of each
// other. Adding voters never lowers it. It considers at most 20 different voters.
func (i *Independence) Count(requester access.Principal, voters []access.Principal) int {
	var fit []access.Principal
	for _, v := range voters {
		if i.Independent(v, requester) && !slices.Contains(fit, v) && !i.inHandsBeside(v) && len(fit) < maxVoters {
			fit = append(fit, v)
		}
	}
	conflicts := make([]uint32, len(fit))
	for a := range fit {
		for b := range fit {
			if a != b && !i.Independent(fit[a], fit[b]) {
				conflicts[a] |= 1 << b
			}
		}
	}
	return most(conflicts, 1<<len(fit)-1)
}

func (i *Independence) inHandsBeside(v access.Principal) bool {
	return slices.ContainsFunc(i.beside, func(other access.Principal) bool { return !i.Independent(v, other) })
}

// most returns the size of the largest subset of open without a conflict.
func most(conflicts []uint32, open uint32) int {
	if open == 0 {
		return 0
	}
	one := bits.TrailingZeros32(open)
	open &^= 1 << one
	with := 1 + most(conflicts, open&^conflicts[one])
	if conflicts[one]&open == 0 {
		return with
	}
	return max(with, most(conflicts, open))
}
