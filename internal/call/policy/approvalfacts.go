package policy

import (
	"time"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/call/policy/internal/names"
	"palyra/internal/core/access"
	"palyra/internal/core/provenance"
)

// never is the age of a missing approval, so that a bound on the age holds only for approvals
// that exist.
const never = 1<<31 - 1

// ballot is one counted vote, possibly a hypothetical one from several
// surfaces at once.
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

// tally builds context.approval from ballots.
//
// The facts are monotone: an additional ballot, role, surface or proof never removes a fact.
// Each vote is therefore also listed with less proof, and with the role "*".
type tally struct {
	roles []access.Role
	// votes are the possible elements, built once: hashing them is most of the work.
	votes map[voteKey]types.Value
}

// proofsUnder lists the proofs that a proof implies.
func proofsUnder(paired, present bool) [][2]bool {
	out := [][2]bool{{false, false}}
	if paired {
		out = append(out, [2]bool{true, false})
	}
	if present {
		out = append(out, [2]bool{false, true})
	}
	if paired && present {
		out = append(out, [2]bool{true, true})
	}
	return out
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
			for _, proof := range proofsUnder(b.paired, b.present) {
				if v, ok := t.votes[voteKey{role, surface, proof[0], proof[1]}]; ok {
					out = append(out, v)
				}
			}
		}
	}
	return out
}
