package policy

import (
	"slices"
	"sync"
	"time"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/call/policy/internal/expr"
	"palyra/internal/call/policy/internal/names"
	"palyra/internal/core/access"
	"palyra/internal/core/provenance"
)

// never is the age of a missing approval, so that a bound on the age holds only for approvals
// that exist.
const never = 1<<31 - 1

// ballot is one counted vote, possibly a hypothetical one from several surfaces at once.
type ballot struct {
	user     access.Principal
	roles    []access.Role
	surfaces []access.Surface
	paired   bool
	present  bool
	age      time.Duration
}

// voteKey names one element of context.approval.votes.
type voteKey struct {
	role            access.Role
	surface         access.Surface
	paired, present bool
}

// proofs are the possible proofs of a vote: paired, present. A proof implies the lesser ones.
var proofs = [][2]bool{{false, false}, {true, false}, {false, true}, {true, true}}

// tally builds context.approval from ballots.
//
// The facts are monotone: an additional ballot, role, surface or proof never removes a fact.
// Each vote is therefore also listed with less proof, and with the role "*".
type tally struct {
	roles []access.Role
	// votes are the possible elements, built once: hashing them is most of the work.
	votes map[voteKey]types.Value
}

// facts counts users, never devices or sessions, and never two principals that one person could
// vote for. A first approval only needs a voter other than the requester. Each role, and each
// further approver, must be independent of the requester and of the others.
func (t *tally) facts(is *provenance.Independence, requester access.Principal, ballots []ballot, standing bool) types.Record {
	users := make([]access.Principal, 0, len(ballots))
	holders := make(map[access.Role][]access.Principal)
	var votes []types.Value
	age := time.Duration(0)
	for _, b := range ballots {
		users = append(users, b.user)
		age = max(age, b.age)
		for _, r := range b.roles {
			holders[r] = append(holders[r], b.user)
		}
		votes = append(votes, t.listed(b)...)
	}
	seconds := types.Long(never)
	if len(ballots) > 0 {
		seconds = types.Long(min(ceilSeconds(age), never))
	}
	byRole := make(types.RecordMap, len(t.roles))
	for _, r := range t.roles {
		byRole[types.String(r)] = types.Long(is.Count(requester, holders[r]))
	}
	return types.NewRecord(types.RecordMap{
		"granted":     types.Boolean(len(users) > 0),
		"standing":    types.Boolean(standing && len(users) > 0),
		"approvers":   types.Long(max(min(len(users), 1), is.Count(requester, users))),
		"by_role":     types.NewRecord(byRole),
		"votes":       types.NewSet(votes...),
		"age_seconds": seconds,
	})
}

// ceilSeconds rounds up, so that a vote never appears younger than it is.
func ceilSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

func (t *tally) listed(b ballot) []types.Value {
	var out []types.Value
	for _, role := range append([]access.Role{names.AnyRole}, b.roles...) {
		for _, surface := range b.surfaces {
			for _, proof := range proofs {
				v, ok := t.votes[voteKey{role, surface, proof[0], proof[1]}]
				if ok && (b.paired || !proof[0]) && (b.present || !proof[1]) {
					out = append(out, v)
				}
			}
		}
	}
	return out
}

// voting determines who may vote on records, and the facts of context.approval that their votes
// produce. It is safe for concurrent use.
type voting struct {
	access *AccessRules
	tally  *tally
	// independence records which members one person could act as.
	independence *provenance.Independence
	// offers is the reach of this gateway.
	offers reach
	// deciders are the users who answer approvals; see findSole.
	deciders []access.Member
	// noApproval are the approval facts of a call without an approval.
	noApproval types.Record
	// ideal returns the strongest possible approval, to test whether more users would help;
	// computed on first use.
	ideal func() types.Record
	// electorates is a cache by electorateKey; see electorate. more caches the approvals of
	// hypothetical voters alone.
	electorates sync.Map
	more        memo
}

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
func (v *voting) electorate(requester access.Principal, severity string) *electorate {
	return v.electorateWithin(v.offers, requester, severity)
}

// electorateWithin is electorate for a gateway of another reach. Results are cached for the
// lifetime of the set, which never changes. The cache holds at most (members x severities)
// results for each of a few reaches, because all unknown requesters share one entry.
func (v *voting) electorateWithin(within reach, requester access.Principal, severity string) *electorate {
	if _, known := v.access.rules.dir.Members[requester]; !known {
		requester = access.Principal{}
	}
	key := electorateKey{within, requester, severity}
	if found, ok := v.electorates.Load(key); ok {
		if e, ok := found.(*electorate); ok {
			return e
		}
	}
	e := &electorate{severity: severity}
	for _, m := range v.access.rules.dir.Voters {
		b := ballot{user: m.Principal, roles: m.Roles, paired: true, present: within.present}
		for _, surface := range within.list() {
			if v.mayDecide(decider(m.Principal, surface, within.present), requester, severity) {
				b.surfaces = append(b.surfaces, surface)
			}
		}
		if len(b.surfaces) > 0 {
			e.ballots = append(e.ballots, b)
		}
	}
	e.facts = v.facts(requester, e.ballots, false)
	v.electorates.Store(key, e)
	return e
}

// decider returns a user who votes from a paired device.
func decider(user access.Principal, surface access.Surface, present bool) access.Caller {
	return access.Caller{Principal: user, OnBehalfOf: user, Surface: surface, Paired: true, Present: present}
}

func (v *voting) mayDecide(caller access.Caller, requester access.Principal, severity string) bool {
	asked := []string{severity}
	if severity == "" {
		asked = expr.Severities
	}
	for _, level := range asked {
		j := v.access.Authorize(AccessRequest{
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

// strongest is the approval of ten users who hold every role and prove everything within reach.
func (v *voting) strongest(r reach) types.Record {
	var ballots []ballot
	for i := range 10 {
		ballots = append(ballots, r.voter(i, v.access.rules.vocab.Roles...))
	}
	return v.facts(access.Principal{}, ballots, false)
}

// facts returns the approval facts of some votes on the calls of a requester.
func (v *voting) facts(requester access.Principal, ballots []ballot, standing bool) types.Record {
	return v.tally.facts(v.independence, requester, ballots, standing)
}

// ballots converts cast votes to counted ones. A vote counts only while its voter is an enabled
// user who may decide this record on that surface. It counts only with the voter's current
// roles: a role that the voter has lost since the vote does not count.
func (v *voting) ballots(a Approval, requester access.Principal) []ballot {
	var out []ballot
	for _, cast := range a.Votes {
		m, ok := v.access.rules.dir.Members[cast.User]
		if !ok || !m.CanVote() {
			continue
		}
		if !v.electorate(requester, "").has(cast.User, cast.Surface) {
			continue
		}
		b := ballot{
			user: cast.User, surfaces: []access.Surface{cast.Surface}, paired: cast.Paired, present: cast.Present,
			age: max(a.Now.Sub(cast.At), 0),
		}
		for _, r := range cast.Roles {
			if m.Holds(r) && !slices.Contains(b.roles, r) {
				b.roles = append(b.roles, r)
			}
		}
		out = append(out, b)
	}
	return out
}
