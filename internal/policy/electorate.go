package policy

import (
	"slices"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/access"
)

// electorate is who may decide a record, and the strongest approval that they
// could give: each of them with all their roles, on every surface where they
// may decide, paired, present, and just now.
type electorate struct {
	ballots []ballot
	facts   types.Record
}

func (e *electorate) has(user access.Principal, surface access.Surface) bool {
	return slices.ContainsFunc(e.ballots, func(b ballot) bool {
		return b.user == user.Name && slices.Contains(b.surfaces, surface)
	})
}

// same reports whether two electorates give the same strongest approval.
func (e *electorate) same(other *electorate) bool {
	return e == other || e.facts.Equal(other.facts)
}

type electorateKey struct {
	requester access.Principal
	severity  string
}

// electorate returns who may decide a record of that requester and severity;
// severity "" asks who may decide at any. Answers are remembered for the life
// of the set, which never changes; there are at most (members x severities)
// of them, as an unknown requester is treated as nobody's.
func (s *Set) electorate(requester access.Principal, severity string) *electorate {
	if _, known := s.dir.members[requester]; !known {
		requester = access.Principal{}
	}
	key := electorateKey{requester, severity}
	if found, ok := s.electorates.Load(key); ok {
		if e, ok := found.(*electorate); ok {
			return e
		}
	}
	e := &electorate{}
	for _, m := range s.dir.deciders {
		b := ballot{user: m.Principal.Name, roles: m.Roles, paired: true, present: true}
		for _, surface := range surfaces {
			if s.mayDecide(m.Principal, surface, requester, severity) {
				b.surfaces = append(b.surfaces, surface)
			}
		}
		if len(b.surfaces) > 0 {
			e.ballots = append(e.ballots, b)
		}
	}
	e.facts = s.tally.facts(e.ballots, false)
	s.electorates.Store(key, e)
	return e
}

func (s *Set) mayDecide(user access.Principal, surface access.Surface, requester access.Principal, severity string) bool {
	asked := []string{severity}
	if severity == "" {
		asked = severities
	}
	for _, level := range asked {
		j := s.Authorize(AccessRequest{
			Caller:     access.Caller{Principal: user, OnBehalfOf: user, Surface: surface, Paired: true, Present: true},
			Permission: PermApprovalDecide,
			Approval:   &ApprovalResource{Severity: level, Requester: requester},
		})
		if j.Allowed {
			return true
		}
	}
	return false
}
