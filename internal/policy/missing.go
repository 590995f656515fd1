package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/access"
	"palyra/internal/provenance"
)

// The most hypothetical people that the search for what is missing adds.
const (
	maxMoreVoters  = 5
	maxMoreOfARole = 3
)

// PresenceProven is in the text of what is missing where a vote has to prove that its
// voter is there.
const PresenceProven = "with presence proven"

// lack is what an approval wants that nobody can give.
type lack struct{ text, remedy string }

// moreVoters are people who would allow a call: so many people, each
// with the role when there is one: {2, "security"}.
type moreVoters struct {
	people int
	role   access.Role
}

func (h moreVoters) roles() []access.Role {
	if h.role == "" {
		return nil
	}
	return []access.Role{h.role}
}

func (h moreVoters) String() string {
	if h.role == "" {
		return persons(h.people)
	}
	return fmt.Sprintf("%s with role %s", persons(h.people), h.role)
}

// lacking asks whether people could allow the call after all: first whether any
// number of them could, then whether the gateway lacks what they would vote with, then
// who is wanting.
func (s *Set) lacking(c *call, voters *electorate) lack {
	if !c.under(s.ideal()).allowed {
		return lack{}
	}
	if out := s.outOfReach(c, voters.severity); out.text != "" {
		return out
	}
	if out := s.dependent(c, voters.ballots); out.text != "" {
		return out
	}
	h, ok := s.fewestVoters(c, voters.ballots)
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
		text: fmt.Sprintf("nobody who may decide this holds role %s", h.role),
		remedy: fmt.Sprintf("Ask an operator to give role %s to a member who may decide: "+
			"`palyrad operator add NAME --role %s`.", h.role, h.role),
	}
	if slices.ContainsFunc(voters.ballots, func(b ballot) bool { return slices.Contains(b.roles, h.role) }) {
		out.text = fmt.Sprintf("too few people who may decide this hold role %s", h.role)
	}
	return out
}

// dependent asks whether those who may decide would be enough, if one person could
// not be behind several of them.
func (s *Set) dependent(c *call, ballots []ballot) lack {
	if !c.under(s.tally.facts(new(provenance.Independence), c.requester, ballots, false)).allowed {
		return lack{}
	}
	users := make([]access.Principal, len(ballots))
	for i, b := range ballots {
		users[i] = b.user
	}
	return lack{
		text: fmt.Sprintf("%s may decide this and count as %s, since whoever made or changed a member could vote as it",
			persons(len(ballots)), persons(max(1, s.independence.Count(c.requester, users)))),
		remedy: "Have somebody whom neither made confirm the others, `palyra members confirm NAME`, or confirm them on the gateway's host: `palyrad members confirm NAME`.",
	}
}

// fewestVoters finds the fewest further voters who allow the call on top of
// base.
func (s *Set) fewestVoters(c *call, base []ballot) (moreVoters, bool) {
	for n := 1; n <= maxMoreVoters; n++ {
		if h := (moreVoters{people: n}); s.helps(c, base, h) {
			return h, true
		}
	}
	for n := 1; n <= maxMoreOfARole; n++ {
		for _, r := range s.vocab.roles {
			if h := (moreVoters{n, r}); s.helps(c, base, h) {
				return h, true
			}
		}
	}
	return moreVoters{}, false
}

// helps tries further voters.
func (s *Set) helps(c *call, base []ballot, h moreVoters) bool {
	return s.allowsWith(c, base, h, nil)
}

// allowsWith tries further voters, whose ballots are each changed unless change
// is nil.
func (s *Set) allowsWith(c *call, base []ballot, h moreVoters, change func(*ballot)) bool {
	if len(base) == 0 && change == nil {
		facts := s.memo.get(h, func() types.Record { return s.facts(access.Principal{}, s.ballotsOf(h), false) })
		return c.under(facts).allowed
	}
	ballots := slices.Concat(base, s.ballotsOf(h))
	if change != nil {
		for i := range ballots[len(base):] {
			change(&ballots[len(base)+i])
		}
	}
	return c.under(s.facts(c.requester, ballots, false)).allowed
}

// ballotsOf are the votes of further voters.
func (s *Set) ballotsOf(h moreVoters) []ballot {
	ballots := make([]ballot, 0, h.people)
	for i := range h.people {
		ballots = append(ballots, s.offers.voter(i, h.roles()...))
	}
	return ballots
}

// missing says in plain words what would have to be added to the votes cast
// to allow the call, as far as people who exist can add it. It is "" when
// nothing can help.
func (s *Set) missing(c *call, cast []ballot, voters *electorate) string {
	if !c.under(s.facts(c.requester, append(slices.Clone(cast), voters.ballots...), false)).allowed {
		return s.lacking(c, voters).text
	}
	cast = refreshed(cast)
	if c.under(s.facts(c.requester, cast, false)).allowed {
		return "a fresh vote: those cast are too old, or stand in a grant"
	}
	if text := s.wanted(c, cast); text != "" {
		return text
	}
	return "an approval by others or in another way; see the policies named"
}

// refreshed is the ballots as if cast now.
func refreshed(cast []ballot) []ballot {
	out := slices.Clone(cast)
	for i := range out {
		out[i].age = time.Duration(0)
	}
	return out
}

// wanted says which further votes would allow a call that those cast do not.
func (s *Set) wanted(c *call, cast []ballot) string {
	h, ok := s.fewestVoters(c, cast)
	if !ok {
		return ""
	}
	return "the approval of " + h.String() + s.conditions(c, cast, h)
}

// conditions finds the surfaces and the proof that the next voters need.
func (s *Set) conditions(c *call, cast []ballot, h moreVoters) string {
	if !slices.ContainsFunc(c.found, func(p *compiled) bool { return p.votes }) {
		return "" // no policy looks at surfaces or proof
	}
	var on []string
	offered := s.offers.list()
	for _, surface := range offered {
		if s.allowsWith(c, cast, h, func(b *ballot) { b.surfaces = []access.Surface{surface} }) {
			on = append(on, string(surface))
		}
	}
	var out strings.Builder
	if len(on) > 0 && len(on) < len(offered) {
		out.WriteString(" on " + strings.Join(on, " or "))
	}
	if !s.allowsWith(c, cast, h, func(b *ballot) { b.present = false }) {
		out.WriteString(", " + PresenceProven)
	}
	if !s.allowsWith(c, cast, h, func(b *ballot) { b.paired = false }) {
		out.WriteString(", from a paired device")
	}
	return out.String()
}

func persons(n int) string {
	if n == 1 {
		return "1 person"
	}
	return fmt.Sprintf("%d people", n)
}
