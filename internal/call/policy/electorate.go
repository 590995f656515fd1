package policy

import (
	"slices"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/call/policy/internal/expr"
	"palyra/internal/core/access"
)

// electorate is the set of users who may decide a record, with the strongest approval that they
// could give. Each user votes with all their roles, from a paired device, on every reachable
// surface where they may decide. Presence is proven if the gateway supports it, and the votes
// have age 0.
type electorate struct {
	// severity is the severity of the records, "" for any.
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

// electorate returns the users who may decide a record of that requester and severity; severity
// "" includes every user who may decide at any severity.
func (s *Set) electorate(requester access.Principal, severity string) *electorate {
	return s.electorateWithin(s.offers, requester, severity)
}

// electorateWithin is electorate for a gateway of another reach. Results are cached for the
// lifetime of the set, which never changes. The cache holds at most (members x severities)
// results for each of a few reaches, because all unknown requesters share one entry.
func (s *Set) electorateWithin(within reach, requester access.Principal, severity string) *electorate {
	if _, known := s.dir.Members[requester]; !known {
		requester = access.Principal{}
	}
	key := electorateKey{within, requester, severity}
	if found, ok := s.electorates.Load(key); ok {
		if e, ok := found.(*electorate); ok {
			return e
		}
	}
	e := &electorate{severity: severity}
	for _, m := range s.dir.Voters {
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

// decider returns a user who votes from a paired device.
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

// Policy does not decide whether a session may make more calls than max_calls_per_session. An
// extension needs one approver for that requester, independent of the requirements of the call
// that reached the bound. Policy defines the approvers (approval.decide), so that self-approval
// stays forbidden where policy forbids it.

// JudgeMoreCalls judges the votes on an extension of the session of a request's caller.
func (s *Set) JudgeMoreCalls(r Request, a Approval) Judgement {
	if len(s.ballots(a, s.dir.Requester(r.Caller))) > 0 {
		return Judgement{Allowed: true}
	}
	return Judgement{Missing: "a person who may decide approvals"}
}

// SomebodyDecides reports whether any user could approve more calls for the caller.
func (s *Set) SomebodyDecides(r Request, severity string) bool {
	return len(s.electorate(s.dir.Requester(r.Caller), severity).ballots) > 0
}
