package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/call/policy"
	"palyra/internal/call/policy/internal/expr"
	"palyra/internal/call/policy/internal/names"
	"palyra/internal/core/access"
)

// vote finds the smallest group whose approval allows a call that asks. Each group is tried on
// one surface after the other, and roles and proofs that are not needed are removed.
func (f *search) vote() (change, bool) {
	if f.verdict.Effect() != policy.Ask {
		return change{}, false
	}
	people := f.deciders()
	for n := 1; n <= min(3, len(people)); n++ {
		for _, crowd := range groups(people, n) {
			if c, ok := f.voteOf(crowd); ok {
				return c, true
			}
		}
	}
	return change{}, false
}

// deciders returns the users who may decide this call's record.
func (f *search) deciders() []access.Member {
	on, present := f.view.Voting()
	about := &policy.ApprovalResource{Severity: f.verdict.Severity(), Requester: f.set.Access().Requester(f.from.Request.Caller)}
	return slices.DeleteFunc(usersOf(f.from.Config), func(m access.Member) bool {
		return !slices.ContainsFunc(on, func(surface access.Surface) bool {
			caller := access.Caller{Principal: m.Principal, OnBehalfOf: m.Principal, Surface: surface, Paired: true, Present: present}
			return f.set.Access().Authorize(policy.AccessRequest{Caller: caller, Permission: access.PermApprovalDecide, Approval: about}).Allowed
		})
	})
}

// usersOf returns the users who could vote, by name.
func usersOf(cfg policy.Config) []access.Member {
	var out []access.Member
	for _, m := range cfg.Members {
		if m.CanVote() {
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b access.Member) int { return strings.Compare(a.Principal.Name, b.Principal.Name) })
	return out
}

// groups lists all choices of n, in order.
func groups(people []access.Member, n int) [][]access.Member {
	if n == 0 {
		return [][]access.Member{nil}
	}
	var out [][]access.Member
	for i := range people {
		for _, rest := range groups(people[i+1:], n-1) {
			out = append(out, append([]access.Member{people[i]}, rest...))
		}
	}
	return out
}

// voteOf tries the approval of a group, in addition to the cast votes and in their place.
func (f *search) voteOf(crowd []access.Member) (change, bool) {
	at := f.from.Approval.Now
	if at.IsZero() {
		at = f.from.Request.Time
	}
	surfaces, present := f.view.Voting()
	for _, base := range [][]policy.Vote{f.from.Approval.Votes, nil} {
		judged := func(votes []policy.Vote) bool {
			f.trials++
			return f.trials < maxTrials &&
				f.set.Judge(f.from.Request, policy.Approval{Votes: append(slices.Clone(base), votes...), Now: at}).Allowed
		}
		var on []access.Surface
		var votes []policy.Vote
		for _, surface := range surfaces {
			cast := make([]policy.Vote, len(crowd))
			for i, m := range crowd {
				cast[i] = policy.Vote{User: m.Principal, Roles: m.Roles, Surface: surface, Paired: true, Present: present, At: at}
			}
			if judged(cast) {
				if on = append(on, surface); votes == nil {
					votes = cast
				}
			}
		}
		if votes != nil {
			who := f.needed(votes, judged, len(on) == len(surfaces))
			return change{
				effort: effortApproval, say: "get a yes of " + who,
				step: Step{
					Kind: StepApproval, Path: "context.approval", Was: votesText(f.from.Approval.Votes), Becomes: "a yes of " + who,
				},
				edit: func(to *scenario) error {
					to.Approval = policy.Approval{Votes: append(slices.Clone(base), votes...), Now: at}
					return nil
				},
			}, true
		}
	}
	return change{}, false
}

// needed removes the unnecessary proofs from votes, and describes the voters and their required
// properties.
func (f *search) needed(votes []policy.Vote, judged func([]policy.Vote) bool, anywhere bool) string {
	clauses := make([]string, len(votes))
	for i := range votes {
		one := &votes[i]
		without := func(take func()) {
			full := *one
			if take(); !judged(votes) {
				*one = full
			}
		}
		without(func() { one.Present = false })
		without(func() { one.Paired = false })
		all := one.Roles
		for _, r := range all {
			without(func() {
				one.Roles = slices.DeleteFunc(slices.Clone(one.Roles), func(other access.Role) bool { return other == r })
			})
		}
		clauses[i] = one.User.Name
		if len(one.Roles) > 0 {
			clauses[i] += " with " + rolesText(one.Roles)
		}
		if !anywhere {
			clauses[i] += " on " + string(one.Surface)
		}
		if one.Present {
			clauses[i] += ", with presence proven"
		}
		if one.Paired {
			clauses[i] += ", from a paired device"
		}
		one.Roles = all
	}
	return strings.Join(clauses, " and of ")
}

func votesText(votes []policy.Vote) string {
	if len(votes) == 0 {
		return "no vote"
	}
	names := make([]string, len(votes))
	for i, v := range votes {
		names[i] = v.User.Name
	}
	return "a yes of " + strings.Join(names, " and of ")
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

// memberships returns changes that add the call to an operator's lists and roles if the default
// policies, or a policy in scope, require it.
func (f *search) memberships() []change {
	r, caller := f.from.Request, uidIn(f.seen.env.Principal)
	var out []change
	list := func(uid types.EntityUID, group types.EntityUID, say string, edit func(*scenario) error) {
		if !f.in(uid, group) {
			out = append(out, entityChange(uid, group, true, say, edit))
		}
	}
	who := r.Caller.Principal
	say := fmt.Sprintf("add %s to allowed_principals", who)
	if slices.Contains(f.from.Config.Snapshot.ForbiddenPrincipals, who) {
		say = fmt.Sprintf("let %s in (`palyra access allow %s`)", who, who)
	}
	if m, known := f.from.Config.Member(who); !known {
		say = fmt.Sprintf("register %s", who)
	} else if m.Disabled {
		say = fmt.Sprintf("enable %s", who)
	} else if m.AwaitsConsent {
		say = fmt.Sprintf("have %s consent to %s (`palyra members consent %s`)", m.Owner, who, who)
	}
	// A removed member cannot be restored.
	if m, _ := f.from.Config.Member(who); !m.Removed() {
		list(caller, types.NewEntityUID(names.TypePrincipalSet, names.SetAllowed), say, func(to *scenario) error { return admit(to, who) })
	}
	for _, l := range []struct {
		kind, set types.EntityType
		id        types.String
		name, say string
		list      func(*policy.Snapshot) *[]string
	}{
		{names.TypeTool, names.TypeToolSet, names.SetAllowed, r.Tool, "add %s to allowed_tools", func(s *policy.Snapshot) *[]string { return &s.AllowedTools }},
		{names.TypeChannel, names.TypeChannelSet, names.SetAllowed, r.Channel, "allow the channel %[1]s (`palyra access allow channel:%[1]s`)", func(s *policy.Snapshot) *[]string { return &s.AllowedChannels }},
		{names.TypeSkill, names.TypeSkillSet, names.SetActive, r.SkillID, "make the skill %[1]s active (`palyra skills enable %[1]s`)", func(s *policy.Snapshot) *[]string { return &s.ActiveSkills }},
	} {
		if l.name != "" {
			list(types.NewEntityUID(l.kind, types.String(l.name)), types.NewEntityUID(l.set, l.id), fmt.Sprintf(l.say, l.name), func(to *scenario) error {
				names := l.list(&to.Config.Snapshot)
				*names = append(slices.Clone(*names), l.name)
				return nil
			})
		}
	}
	for _, role := range f.rolesNamed() {
		group := types.NewEntityUID(names.TypeRole, types.String(role))
		out = append(out, roleChange(who, role, !f.in(caller, group)))
	}
	return out
}

// in reports whether an entity is in a group.
func (f *search) in(uid, group types.EntityUID) bool {
	return slices.Contains(f.view.Above(uid), group)
}

// rolesNamed returns the roles that policies about the call's action require.
func (f *search) rolesNamed() []access.Role {
	var out []access.Role
	add := func(uid types.EntityUID) {
		if role := access.Role(uid.ID); uid.Type == names.TypeRole && !slices.Contains(out, role) {
			out = append(out, role)
		}
	}
	for _, p := range f.view.Policies() {
		if !f.view.InScope(uidIn(f.seen.env.Action), p.AST.Action) {
			continue
		}
		if in, ok := p.AST.Principal.(expr.ScopeIn); ok {
			add(in.Entity)
		}
		for _, v := range p.Constants() {
			if uid, ok := v.(types.EntityUID); ok {
				add(uid)
			}
		}
	}
	slices.Sort(out)
	return out
}

func entityChange(uid, group types.EntityUID, in bool, say string, edit func(*scenario) error) change {
	step := Step{Kind: StepEntity, Path: uid.String(), Was: "not in " + group.String(), Becomes: "in " + group.String()}
	if !in {
		step.Was, step.Becomes = step.Becomes, step.Was
	}
	return change{effort: effortEntity, say: say, step: step, edit: edit}
}

// roleChange returns the change that gives a role to a member, or removes the role.
func roleChange(who access.Principal, role access.Role, in bool) change {
	say := fmt.Sprintf("give role %s to %s", role, who)
	if !in {
		say = fmt.Sprintf("take role %s from %s", role, who)
	}
	return entityChange(names.UID(who), types.NewEntityUID(names.TypeRole, types.String(role)), in, say, func(to *scenario) error {
		return changeMember(to, who, func(m *access.Member) {
			m.Roles = slices.DeleteFunc(slices.Clone(m.Roles), func(r access.Role) bool { return r == role })
			if in {
				m.Roles = append(m.Roles, role)
			}
		})
	})
}

func changeMember(to *scenario, who access.Principal, edit func(*access.Member)) error {
	i := slices.IndexFunc(to.Config.Members, func(m access.Member) bool { return m.Principal == who })
	if i < 0 {
		return fmt.Errorf("%s is not a member", who)
	}
	to.Config.Members = slices.Clone(to.Config.Members)
	edit(&to.Config.Members[i])
	return nil
}

// admit makes a principal an allowed one: registered, enabled together with its owner, and on
// the list of allowed principals if the configuration has one.
func admit(to *scenario, who access.Principal) error {
	enable := func(m *access.Member) { m.Disabled, m.AwaitsConsent = false, false }
	if err := changeMember(to, who, enable); err != nil {
		m := access.Member{Principal: who}
		if who.Kind == access.KindAgent {
			m.Owner = to.Request.Caller.OnBehalfOf
		}
		to.Config.Members = append(slices.Clone(to.Config.Members), m)
	}
	if who.Kind == access.KindAgent {
		m, _ := to.Config.Member(who)
		if err := changeMember(to, m.Owner, enable); err != nil {
			return err
		}
	}
	to.Config.Snapshot.ForbiddenPrincipals = slices.DeleteFunc(slices.Clone(to.Config.Snapshot.ForbiddenPrincipals), func(p access.Principal) bool { return p == who })
	if allowed := to.Config.Snapshot.AllowedPrincipals; allowed != nil && !slices.Contains(allowed, who) {
		to.Config.Snapshot.AllowedPrincipals = append(slices.Clone(allowed), who)
	}
	return nil
}

// morePeople offers roles for existing members, or new members, if no existing user can give
// the required approval.
func (f *search) morePeople() {
	if f.verdict.Effect() != policy.Deny || f.verdict.Missing() == "" {
		return
	}
	roles := append([]access.Role{""}, f.view.Roles()...)
	for n := 1; n <= 3; n++ {
		before := len(f.found)
		for _, role := range roles {
			if role != "" && f.promote(role, n) {
				continue
			}
			f.try(f.newcomers(role, n)...)
		}
		if len(f.found) > before {
			return
		}
	}
}

// promote offers a role to members; the requester comes last.
func (f *search) promote(role access.Role, n int) bool {
	requester := f.set.Access().Requester(f.from.Request.Caller)
	var out, own []change
	for _, m := range usersOf(f.from.Config) {
		switch {
		case m.Holds(role):
		case m.Principal == requester:
			own = append(own, roleChange(m.Principal, role, true))
		default:
			out = append(out, roleChange(m.Principal, role, true))
		}
	}
	out = append(out, own...)
	return len(out) >= n && f.try(out[:n]...)
}

// newcomers adds members who may decide.
func (f *search) newcomers(role access.Role, n int) []change {
	roles := []access.Role{access.RoleOperator}
	if role != "" && role != access.RoleOperator {
		roles = append(roles, role)
	}
	var out []change
	for i := 1; len(out) < n; i++ {
		who := access.User(fmt.Sprintf("new-member-%d", i))
		if _, taken := f.from.Config.Member(who); taken {
			continue
		}
		out = append(out, change{
			effort: effortEntity, say: "add a member with " + rolesText(roles),
			step: Step{Kind: StepEntity, Path: names.UID(who).String(), Was: ValueAbsent, Becomes: "a member with " + rolesText(roles)},
			edit: func(to *scenario) error {
				to.Config.Members = append(slices.Clone(to.Config.Members), access.Member{Principal: who, Roles: roles})
				return nil
			},
		})
	}
	return out
}
