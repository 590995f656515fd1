package policy

import (
	"slices"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/call/policy/internal/expr"
	"palyra/internal/call/policy/internal/names"
	"palyra/internal/core/access"
)

// electorate is who may decide a record, and the strongest approval that they
// could give: each of them with all their roles, on every surface within reach
// where they may decide, paired, present if that can be proven, and just now.
type electorate struct {
	// severity is of the records that are meant, "" for any.
	severity string
	ballots  []ballot
	facts    types.Record
}

func (e *electorate) has(user access.Principal, surface access.Surface) bool {
	return slices.ContainsFunc(e.ballots, func(b ballot) bool {
		return b.user == user && slices.Contains(b.surfaces, surface)
	})
}

// same reports whether two electorates give the same strongest approval.
func (e *electorate) same(other *electorate) bool {
	return e == other || e.facts.Equal(other.facts)
}

type electorateKey struct {
	within    reach
	requester access.Principal
	severity  string
}

// electorate returns who may decide a record of that requester and severity;
// severity "" asks who may decide at any.
func (s *Set) electorate(requester access.Principal, severity string) *electorate {
	return s.electorateWithin(s.offers, requester, severity)
}

// electorateWithin is electorate for a gateway of another reach. Answers are
// remembered for the life of the set, which never changes; there are at most
// (members x severities) of them for each of a few reaches, as an unknown
// requester is treated as nobody's.
func (s *Set) electorateWithin(within reach, requester access.Principal, severity string) *electorate {
	if _, known := s.dir.members[requester]; !known {
		requester = access.Principal{}
	}
	key := electorateKey{within, requester, severity}
	if found, ok := s.electorates.Load(key); ok {
		if e, ok := found.(*electorate); ok {
			return e
		}
	}
	e := &electorate{severity: severity}
	for _, m := range s.dir.voters {
		b := ballot{user: m.Principal, roles: m.Roles, paired: true, present: within.present}
		for _, surface := range within.list() {
			if s.mayDecide(decider(m.Principal, surface, within.present), requester, severity) {
				b.surfaces = append(b.surfaces, surface)
			}
		}
		if len(b.surfaces) > 0 {
			e.ballots = append(e.ballots, b)
		}
	}
	e.facts = s.facts(requester, e.ballots, false)
	s.electorates.Store(key, e)
	return e
}

// decider is a user who votes from a paired device.
func decider(user access.Principal, surface access.Surface, present bool) access.Caller {
	return access.Caller{Principal: user, OnBehalfOf: user, Surface: surface, Paired: true, Present: present}
}

func (s *Set) mayDecide(caller access.Caller, requester access.Principal, severity string) bool {
	asked := []string{severity}
	if severity == "" {
		asked = expr.Severities
	}
	for _, level := range asked {
		j := s.Authorize(AccessRequest{
			Caller:     caller,
			Permission: access.PermApprovalDecide,
			Approval:   &ApprovalResource{Severity: level, Requester: requester},
		})
		if j.Allowed {
			return true
		}
	}
	return false
}

// Whether a session may make more calls than max_calls_per_session is no
// question that a policy answers: it takes one person who may decide approvals
// of that requester, whatever the call that came upon the bound would take
// itself. Who may decide is policy's (approval.decide), so that nobody answers
// for themselves where that is forbidden.

// JudgeMoreCalls judges the votes on letting the caller of a request make more
// calls.
func (s *Set) JudgeMoreCalls(r Request, a Approval) Judgement {
	if len(s.ballots(a, s.dir.requester(r.Caller))) > 0 {
		return Judgement{Allowed: true}
	}
	return Judgement{Missing: "a person who may decide approvals"}
}

// SomebodyDecides reports whether anybody could let the caller make more calls.
func (s *Set) SomebodyDecides(r Request, severity string) bool {
	return len(s.electorate(s.dir.requester(r.Caller), severity).ballots) > 0
}

// findSole marks the user who decides alone, and so answers for their own calls,
// too. Who decides is said by access.Member.Decides; where that is one person, or
// nobody, whoever the operator's policies let decide besides counts as well, so
// that nobody is alone beside somebody who could answer.
func (s *Set) findSole() {
	for _, m := range s.dir.voters {
		if m.Decides() {
			s.deciders = append(s.deciders, m)
		}
	}
	for _, m := range s.dir.voters {
		if len(s.deciders) < 2 && !m.Decides() && s.decidesByPolicy(m.Principal) {
			s.deciders = append(s.deciders, m)
		}
	}
	if len(s.deciders) != 1 {
		return
	}
	uid := names.UID(s.deciders[0].Principal)
	e := s.dir.entities[uid]
	attributes := e.Attributes.Map()
	attributes["sole"] = types.True
	e.Attributes = types.NewRecord(attributes)
	s.dir.entities[uid] = e
}

func (s *Set) decidesByPolicy(user access.Principal) bool {
	return slices.ContainsFunc(s.offers.list(), func(surface access.Surface) bool {
		return s.mayDecide(decider(user, surface, s.offers.present), access.Principal{}, "")
	})
}
