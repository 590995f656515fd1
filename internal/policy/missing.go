package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/access"
)

// The most hypothetical people that the search for what is missing adds.
const (
	maxMoreVoters  = 5
	maxMoreOfARole = 3
)

// lack is what an approval wants that nobody can give.
type lack struct{ text, remedy string }

// help is a crowd of newcomers that would allow a call: so many people, each
// with the role when there is one.
type help struct {
	people int
	role   access.Role
}

func (h help) roles() []access.Role {
	if h.role == "" {
		return nil
	}
	return []access.Role{h.role}
}

func (h help) String() string {
	if h.role == "" {
		return persons(h.people)
	}
	return fmt.Sprintf("%s with role %s", persons(h.people), h.role)
}

// lacking asks whether people could allow the call after all: first whether any
// crowd could, then whether the gateway lacks what they would vote with, then
// who is wanting.
func (s *Set) lacking(c *call, voters *electorate) lack {
	if !c.under(s.ideal()).allowed {
		return lack{}
	}
	if out := s.outOfReach(c, voters.severity); out.text != "" {
		return out
	}
	h, ok := s.smallestHelp(c, voters.ballots)
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

// smallestHelp finds the smallest crowd of newcomers that allows the call on
// top of base.
func (s *Set) smallestHelp(c *call, base []ballot) (help, bool) {
	for n := 1; n <= maxMoreVoters; n++ {
		if h := (help{people: n}); s.helps(c, base, h) {
			return h, true
		}
	}
	for n := 1; n <= maxMoreOfARole; n++ {
		for _, r := range s.vocab.roles {
			if h := (help{n, r}); s.helps(c, base, h) {
				return h, true
			}
		}
	}
	return help{}, false
}

// helps tries a crowd.
func (s *Set) helps(c *call, base []ballot, h help) bool {
	return s.allowsWith(c, base, h, nil)
}

// allowsWith tries a crowd whose members are each changed, unless change is
// nil.
func (s *Set) allowsWith(c *call, base []ballot, h help, change func(*ballot)) bool {
	if len(base) == 0 && change == nil {
		facts := s.memo.get(h, func() types.Record { return s.tally.facts(s.crowdOf(h), false) })
		return c.under(facts).allowed
	}
	crowd := slices.Concat(base, s.crowdOf(h))
	if change != nil {
		for i := range crowd[len(base):] {
			change(&crowd[len(base)+i])
		}
	}
	return c.under(s.tally.facts(crowd, false)).allowed
}

// crowdOf makes the newcomers of a help.
func (s *Set) crowdOf(h help) []ballot {
	crowd := make([]ballot, 0, h.people)
	for i := range h.people {
		crowd = append(crowd, s.offers.newcomer(i, h.roles()...))
	}
	return crowd
}

// missing says in plain words what would have to be added to the votes cast
// to allow the call, as far as people who exist can add it. It is "" when
// nothing can help.
func (s *Set) missing(c *call, cast []ballot, voters *electorate) string {
	if !c.under(s.tally.facts(append(slices.Clone(cast), voters.ballots...), false)).allowed {
		return s.lacking(c, voters).text
	}
	cast = refreshed(cast)
	if c.under(s.tally.facts(cast, false)).allowed {
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
	h, ok := s.smallestHelp(c, cast)
	if !ok {
		return ""
	}
	return "the approval of " + h.String() + s.conditions(c, cast, h)
}

// conditions finds the surfaces and the proof that the next voters need.
func (s *Set) conditions(c *call, cast []ballot, h help) string {
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
		out.WriteString(", with presence proven")
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
