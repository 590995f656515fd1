package policy

import (
	"fmt"
	"slices"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/core/access"
	"palyra/internal/core/provenance"
)

// The maximum numbers of hypothetical voters in the search for missing approvals.
const (
	maxMoreVoters  = 5
	maxMoreOfARole = 3
)

// PresenceProven is part of the text about missing approvals if a vote must prove presence.
const PresenceProven = "with presence proven"

// lack is a requirement of an approval that no existing user can meet.
type lack struct{ text, remedy string }

// moreVoters is a number of hypothetical voters, with a role if set: {2, "security"}.
type moreVoters struct {
	people int
	role   access.Role
}

func (h moreVoters) String() string {
	if h.role == "" {
		return persons(h.people)
	}
	return fmt.Sprintf("%s with role %s", persons(h.people), h.role)
}

// shortfall finds the votes that a call needs in addition to some cast votes, by trying the votes
// of hypothetical voters.
type shortfall struct {
	call *call
	cast []ballot
}

// lacking determines whether additional users could allow the call. It first determines whether
// any number of them could, then whether the gateway lacks a surface or a proof for their
// votes, and then which users are missing.
func (c *call) lacking(voters *electorate) lack {
	s := shortfall{c, voters.ballots}
	if !c.under(c.voting.ideal()).allowed {
		return lack{}
	}
	if out := c.outOfReach(voters.severity); out.text != "" {
		return out
	}
	if out := s.dependent(); out.text != "" {
		return out
	}
	h, ok := s.fewestVoters()
	if !ok {
		return lack{
			text:   "more people than now exist would have to approve",
			remedy: "Ask an operator to add members: `palyrad operator add NAME --role ROLE`.",
		}
	}
	if h.role == "" {
		return lack{
			text:   fmt.Sprintf("%s may decide this, and policy wants %s more", persons(len(voters.ballots)), h),
			remedy: "Ask an operator to add a member who may decide: `palyrad operator add NAME --role operator`.",
		}
	}
	out := lack{
		text: fmt.Sprintf("no member who may decide this has role %s", h.role),
		remedy: fmt.Sprintf("Ask an operator to give role %s to a member who may decide: "+
			"`palyrad operator add NAME --role %s`.", h.role, h.role),
	}
	if slices.ContainsFunc(voters.ballots, func(b ballot) bool { return slices.Contains(b.roles, h.role) }) {
		out.text = fmt.Sprintf("too few people who may decide this hold role %s", h.role)
	}
	return out
}

// dependent determines whether the users who may decide would suffice if no person could act as
// several of them.
func (s shortfall) dependent() lack {
	c := s.call
	if !c.under(c.voting.tally.facts(new(provenance.Independence), c.requester, s.cast, false)).allowed {
		return lack{}
	}
	users := make([]access.Principal, len(s.cast))
	for i, b := range s.cast {
		users[i] = b.user
	}
	return lack{
		text: fmt.Sprintf("%s may decide this but count as %s, because the creator or editor of a member could vote as that member",
			persons(len(s.cast)), persons(max(1, c.is.Count(c.requester, users)))),
		remedy: "Ask an independent member to confirm the others with `palyra members confirm NAME`, or confirm them on the gateway's host: `palyrad members confirm NAME`.",
	}
}

// fewestVoters finds the fewest further voters who allow the call.
func (s shortfall) fewestVoters() (moreVoters, bool) {
	for n := 1; n <= maxMoreVoters; n++ {
		if h := (moreVoters{people: n}); s.allowsWith(h, nil) {
			return h, true
		}
	}
	for n := 1; n <= maxMoreOfARole; n++ {
		for _, r := range s.call.rules.vocab.Roles {
			if h := (moreVoters{n, r}); s.allowsWith(h, nil) {
				return h, true
			}
		}
	}
	return moreVoters{}, false
}

// allowsWith tries further voters, with change applied to each of their ballots unless it is nil.
func (s shortfall) allowsWith(h moreVoters, change func(*ballot)) bool {
	c, v := s.call, s.call.voting
	if len(s.cast) == 0 && change == nil {
		facts := v.more.get(h, func() types.Record { return v.facts(access.Principal{}, v.ballotsOf(h), false) })
		return c.under(facts).allowed
	}
	ballots := slices.Concat(s.cast, v.ballotsOf(h))
	if change != nil {
		for i := range ballots[len(s.cast):] {
			change(&ballots[len(s.cast)+i])
		}
	}
	return c.under(c.facts(ballots, false)).allowed
}

// ballotsOf returns the votes of further voters.
func (v *voting) ballotsOf(h moreVoters) []ballot {
	var roles []access.Role
	if h.role != "" {
		roles = append(roles, h.role)
	}
	ballots := make([]ballot, 0, h.people)
	for i := range h.people {
		ballots = append(ballots, v.offers.voter(i, roles...))
	}
	return ballots
}

// missing describes the votes that must be added to the cast votes to allow the call, as far as
// existing users can add them. It also returns the required voters if more voters suffice. The
// text is "" if no votes can help.
func (c *call) missing(cast []ballot, voters *electorate) (string, *Wanted) {
	if !c.under(c.facts(append(slices.Clone(cast), voters.ballots...), false)).allowed {
		return c.lacking(voters).text, nil
	}
	cast = slices.Clone(cast)
	for i := range cast {
		cast[i].age = 0 // as if it were cast now
	}
	if c.under(c.facts(cast, false)).allowed {
		return "a new vote: the existing votes are too old, or belong to a grant", nil
	}
	if w := (shortfall{c, cast}).wanted(); w != nil {
		return w.String(), w
	}
	return "an approval by others or in another way; see the policies named", nil
}

// Wanted is the smallest set of further approvers that would allow a call.
type Wanted struct {
	// Have counts the users whose approval counts so far, with Role if it is set; More are
	// still needed.
	Have, More int
	// Role is required from them, "" for any.
	Role access.Role
	// Surfaces are the surfaces that their votes may come from; empty for any.
	Surfaces []access.Surface
	// Present and Paired are the proofs required from their votes.
	Present, Paired bool
}

// String describes it in words: "the approval of 1 person with role security on console, with
// presence proven".
func (w *Wanted) String() string {
	if w == nil {
		return ""
	}
	text := "the approval of " + moreVoters{w.More, w.Role}.String()
	for i, surface := range w.Surfaces {
		text += []string{" on ", " or "}[min(i, 1)] + string(surface)
	}
	if w.Present {
		text += ", " + PresenceProven
	}
	if w.Paired {
		text += ", from a paired device"
	}
	return text
}

// wanted finds the further votes that would allow a call; nil if a few more do not suffice.
func (s shortfall) wanted() *Wanted {
	h, ok := s.fewestVoters()
	if !ok {
		return nil
	}
	w := &Wanted{More: h.people, Role: h.role, Have: s.counted(h.role)}
	s.addConditions(w, h)
	return w
}

// counted returns the number of users whose approvals count, with a role if it is set.
func (s shortfall) counted(role access.Role) int {
	var users []access.Principal
	for _, b := range s.cast {
		if role == "" || slices.Contains(b.roles, role) {
			users = append(users, b.user)
		}
	}
	n := s.call.is.Count(s.call.requester, users)
	if role == "" { // a first approval need not be independent
		n = max(n, min(len(users), 1))
	}
	return n
}

// addConditions finds the surfaces and the proof that the next voters need.
func (s shortfall) addConditions(w *Wanted, h moreVoters) {
	if !slices.ContainsFunc(s.call.found, func(p *compiled) bool { return p.votes }) {
		return // no policy reads surfaces or proofs
	}
	offered := s.call.voting.offers.list()
	for _, surface := range offered {
		if s.allowsWith(h, func(b *ballot) { b.surfaces = []access.Surface{surface} }) {
			w.Surfaces = append(w.Surfaces, surface)
		}
	}
	if len(w.Surfaces) == len(offered) {
		w.Surfaces = nil
	}
	w.Present = !s.allowsWith(h, func(b *ballot) { b.present = false })
	w.Paired = !s.allowsWith(h, func(b *ballot) { b.paired = false })
}

func persons(n int) string {
	if n == 1 {
		return "1 person"
	}
	return fmt.Sprintf("%d people", n)
}
