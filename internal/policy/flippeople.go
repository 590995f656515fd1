package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/access"
	"palyra/internal/nearest"
	"palyra/internal/tool"
)

// morePeople returns changes of who may decide, when that is all that keeps a
// call from being asked about: roles for people that are there, or people. It
// returns only what does.
func (f *search) morePeople(t *trial) [][]change {
	c := t.stands.call
	if f.goal != Ask || f.crowds == maxCrowdSearches || !c.under(t.set.ideal()).allowed {
		return nil
	}
	f.crowds++
	h, ok := t.set.smallestHelp(c, t.set.electorate(c.requester, "").ballots)
	if !ok {
		return nil
	}
	out := f.suffice(t, h)
	if h.role != "" || out != nil {
		return out
	}
	// Perhaps newcomers have to hold a role to decide at all, or one user who
	// could decide alone no longer can.
	for _, r := range t.set.vocab.roles {
		out = append(out, f.suffice(t, help{h.people, r})...)
	}
	if out == nil {
		out = f.suffice(t, help{people: h.people + 1})
	}
	return out
}

// suffice returns those ways to get a crowd that are enough.
func (f *search) suffice(t *trial, h help) [][]change {
	var out [][]change
	try := func(list []change) {
		list = mergedAll(t.changes, list)
		if after, ok := f.try(list); ok && after.stands.reaches(f.goal) {
			out = append(out, list)
		}
	}
	if list := t.set.promotions(t.stands.call.requester, h); h.role != "" && len(list) == h.people {
		try(list)
	}
	try(t.set.newcomers(h))
	return out
}

func mergedAll(list, more []change) []change {
	for _, c := range more {
		list = merged(list, c)
	}
	return list
}

// promotions gives a role to people, last of all to the one whose call it is.
func (s *Set) promotions(requester access.Principal, h help) []change {
	people := slices.Clone(s.dir.deciders)
	slices.SortStableFunc(people, func(a, b access.Member) int {
		return cmp.Compare(order(a.Principal == requester), order(b.Principal == requester))
	})
	var out []change
	for _, m := range people {
		if h.role == "" || len(out) == h.people || m.Holds(h.role) {
			continue
		}
		group := types.NewEntityUID(typeRole, types.String(h.role))
		c := change{
			key: fmt.Sprintf("%s in %s", uidOf(m.Principal), group), effort: effortEntity,
			step: FlipStep{
				Kind: StepEntity, Path: uidOf(m.Principal).String(), Was: "not in " + group.String(), Becomes: "in " + group.String(),
			},
		}
		c.say, c.edit = roleChange(m.Principal, h.role, true)
		out = append(out, c)
	}
	return out
}

func order(last bool) int {
	if last {
		return 1
	}
	return 0
}

// newcomers adds people who may decide.
func (s *Set) newcomers(h help) []change {
	roles := []access.Role{access.RoleOperator}
	if h.role != "" && h.role != access.RoleOperator {
		roles = append(roles, h.role)
	}
	var out []change
	for n := 1; len(out) < h.people; n++ {
		who := access.User(fmt.Sprintf("new-member-%d", n))
		if _, taken := s.dir.members[who]; taken {
			continue
		}
		m := access.Member{Principal: who, Roles: roles}
		out = append(out, change{
			key: "member " + who.String(), effort: effortEntity,
			say:  "add a member with " + rolesText(roles),
			step: FlipStep{Kind: StepEntity, Path: uidOf(who).String(), Was: ValueAbsent, Becomes: "a member with " + rolesText(roles)},
			edit: func(to *Scenario) error {
				to.Config.Members = append(slices.Clone(to.Config.Members), m)
				return nil
			},
		})
	}
	return out
}

func rolesText(roles []access.Role) string {
	names := make([]string, len(roles))
	for i, r := range roles {
		names[i] = string(r)
	}
	if len(names) == 1 {
		return "role " + names[0]
	}
	return "roles " + strings.Join(names, " and ")
}

// permitAdded is the last resort for an ask: a permit that needs nobody.
func (f *search) permitAdded() []Flip {
	c, ok := f.set.addPermit(f.from.Request, f.goal)
	if !ok {
		return nil
	}
	if flip, ok := f.flip([]change{c}); ok {
		return []Flip{flip}
	}
	return nil
}

// otherTool proposes the tool of the nearest name for one that nobody pinned.
func (f *search) otherTool() []Flip {
	var names []string
	for name := range f.set.vocab.args {
		if name != unknownTool {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	was, name := f.from.Request.Tool, nearest.Of(f.from.Request.Tool, names)
	if name == "" {
		return nil
	}
	schema, err := tool.CompileSchema(f.set.descriptor(name).InputSchema)
	if err != nil {
		return nil
	}
	c := change{
		key: "tool", effort: effortCaller, say: fmt.Sprintf("call %s (no tool is named %s)", name, clipText(was)),
		step: FlipStep{Kind: StepContext, Path: "tool", Was: clipText(was), Becomes: name},
		edit: func(to *Scenario) error {
			args, err := schema.Check(to.Request.Args)
			to.Request.Tool, to.Request.Args = name, args
			return err
		},
	}
	if flip, ok := f.flip([]change{c}); ok {
		return []Flip{flip}
	}
	return nil
}

// Bounds of the search for people.
const (
	maxCrowds        = 300 // groups whose yes is tried
	maxCrowdSearches = 4   // places in a search where more people are looked for
)

// yeses finds the fewest people whose yes allows the call as it is.
func (f *search) yeses(severity string) []Flip {
	var calls []*call
	for _, one := range f.from.Request.perPath() {
		c, refused := f.set.prepare(one)
		if refused != nil {
			return nil
		}
		calls = append(calls, c)
	}
	requester := calls[0].requester
	fresh := f.set.ballots(f.from.Approval, requester)
	for _, base := range [][]ballot{fresh, nil} {
		b := &booth{set: f.set, calls: calls, base: base}
		crowd := b.smallest(f.set.electorate(requester, severity).ballots)
		if len(crowd) == 0 {
			continue
		}
		if flip, ok := f.flip([]change{b.yes(crowd, f.from, base == nil)}); ok {
			return []Flip{flip}
		}
	}
	return nil
}

// booth tries votes on a call.
type booth struct {
	set   *Set
	calls []*call
	base  []ballot
	tried int
}

func (b *booth) allow(crowd []ballot) bool {
	b.tried++
	facts := b.set.tally.facts(slices.Concat(b.base, crowd), false)
	return !slices.ContainsFunc(b.calls, func(c *call) bool { return !c.under(facts).allowed })
}

// smallest returns the fewest of the people who together allow the call, each
// with no more than is needed; nil when all together do not.
func (b *booth) smallest(people []ballot) []yea {
	var crowd []ballot
	for n := 1; n <= 3 && crowd == nil; n++ {
		crowd = b.choose(people, nil, n)
	}
	if crowd == nil && b.allow(people) {
		crowd = b.without(people)
	}
	return b.modest(crowd)
}

// choose tries all groups of n, in order, as long as the bound lets it.
func (b *booth) choose(people, chosen []ballot, n int) []ballot {
	if n == 0 {
		if b.allow(chosen) {
			return slices.Clone(chosen)
		}
		return nil
	}
	for i := range people {
		if b.tried > maxCrowds {
			return nil
		}
		if found := b.choose(people[i+1:], append(slices.Clip(chosen), people[i]), n-1); found != nil {
			return found
		}
	}
	return nil
}

// without leaves out everybody who is not needed.
func (b *booth) without(people []ballot) []ballot {
	crowd := slices.Clone(people)
	for i := 0; i < len(crowd); {
		if fewer := slices.Delete(slices.Clone(crowd), i, i+1); b.allow(fewer) {
			crowd = fewer
		} else {
			i++
		}
	}
	return crowd
}

// yea is one yes that is wanted.
type yea struct {
	ballot
	// anywhere is true when it may be given on any surface.
	anywhere bool
}

// modest leaves each vote one surface, and takes from it roles and proofs that
// the call does not need. It is nil if somebody would have to vote twice.
func (b *booth) modest(crowd []ballot) []yea {
	crowd = slices.Clone(crowd)
	out := make([]yea, len(crowd))
	for i := range crowd {
		full := crowd[i]
		crowd[i].surfaces = nil
		out[i].anywhere = b.allow(crowd)
		at := slices.IndexFunc(full.surfaces, func(surface access.Surface) bool {
			crowd[i].surfaces = []access.Surface{surface}
			return b.allow(crowd)
		})
		if at < 0 {
			return nil
		}
		b.drop(crowd, func() { crowd[i].present = false }, func() { crowd[i].present = full.present })
		b.drop(crowd, func() { crowd[i].paired = false }, func() { crowd[i].paired = full.paired })
		for _, r := range full.roles {
			before := crowd[i].roles
			b.drop(crowd, func() {
				crowd[i].roles = slices.DeleteFunc(slices.Clone(before), func(other access.Role) bool { return other == r })
			}, func() { crowd[i].roles = before })
		}
		out[i].ballot = crowd[i]
	}
	return out
}

func (b *booth) drop(crowd []ballot, drop, restore func()) {
	if drop(); !b.allow(crowd) {
		restore()
	}
}

// yes is the change that these people approve.
func (b *booth) yes(crowd []yea, from Scenario, alone bool) change {
	slices.SortFunc(crowd, func(x, y yea) int { return cmp.Compare(x.user, y.user) })
	at := from.Approval.Now
	if at.IsZero() {
		at = from.Request.Time
	}
	votes := make([]Vote, len(crowd))
	says := make([]string, len(crowd))
	for i, one := range crowd {
		user := access.User(one.user)
		votes[i] = Vote{
			User: user, Roles: b.set.dir.members[user].Roles, Surface: one.surfaces[0],
			Paired: one.paired, Present: one.present, At: at,
		}
		says[i] = one.String()
	}
	who := strings.Join(says, " and of ")
	return change{
		key: "context.approval", effort: effortApproval, say: "get a yes of " + who,
		step: FlipStep{
			Kind: StepApproval, Path: "context.approval", Was: votesText(from.Approval.Votes), Becomes: "a yes of " + who,
		},
		edit: func(to *Scenario) error {
			if alone {
				to.Approval.Votes = nil
			}
			to.Approval.Votes = append(slices.Clone(to.Approval.Votes), votes...)
			to.Approval.Now, to.Approval.Standing = at, false
			return nil
		},
	}
}

// String says whose yes it is and what it has to prove.
func (b yea) String() string {
	var out strings.Builder
	out.WriteString(b.user)
	if len(b.roles) > 0 {
		out.WriteString(" with " + rolesText(b.roles))
	}
	if !b.anywhere {
		out.WriteString(" on " + string(b.surfaces[0]))
	}
	if b.present {
		out.WriteString(", with presence proven")
	}
	if b.paired {
		out.WriteString(", from a paired device")
	}
	return out.String()
}

func votesText(votes []Vote) string {
	if len(votes) == 0 {
		return "no vote"
	}
	names := make([]string, len(votes))
	for i, v := range votes {
		names[i] = v.User.Name
	}
	return "a yes of " + strings.Join(names, " and of ")
}
