package policy

import (
	"fmt"
	"slices"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/access"
	"palyra/internal/tool"
)

// entityChanges are the changes of what an operator configures that an
// expression could be about: whom or what a list or a role has, and what the
// definition of the tool says.
func (s solver) entityChanges(at repair, t *tree, want bool) []change {
	switch t.node.(type) {
	case nodeIn, nodeIsIn:
		return s.memberships(at, t, want)
	}
	var out []change
	for _, chain := range reads(t) {
		if len(chain) == 2 && chain[0] == "resource" {
			if c, ok := s.toolFlag(at, chain[1]); ok {
				out = append(out, c)
			}
		}
	}
	return out
}

func (s solver) memberships(at repair, t *tree, want bool) []change {
	left, err := evalNode(t.kids[0].node, at.env)
	who, ok := left.(types.EntityUID)
	if err != nil || !ok {
		return nil
	}
	right, err := evalNode(t.kids[1].node, at.env)
	if err != nil {
		return nil
	}
	groups := []types.Value{right}
	if set, ok := right.(types.Set); ok {
		groups = sortedElements(set)
	}
	var out []change
	for _, g := range groups {
		if group, ok := g.(types.EntityUID); ok {
			if c, ok := s.membership(who, group, want); ok {
				out = append(out, c)
			}
		}
	}
	return out
}

// membership is the change that puts an entity into a group, or takes it out
// of a role.
func (s solver) membership(who, group types.EntityUID, in bool) (change, bool) {
	if _, known := s.trial.set.dir.entities[group]; !known {
		return change{}, false
	}
	c := change{
		key: fmt.Sprintf("%s in %s", who, group), effort: effortEntity,
		step:  FlipStep{Kind: StepEntity, Path: who.String(), Was: "not in " + group.String(), Becomes: "in " + group.String()},
		patch: func(env *evalEnv) { patchParents(env, who, group, in) },
	}
	if !in {
		c.step.Was, c.step.Becomes = c.step.Becomes, c.step.Was
	}
	name := string(who.ID)
	role, isRole := isRole(group)
	member, isMember := s.member(who)
	switch {
	case isRole && isMember:
		c.say, c.edit = roleChange(member, role, in)
	case !in:
		return change{}, false
	case isMember && group == types.NewEntityUID(typePrincipalSet, setAllowed):
		c.say = fmt.Sprintf("add %s to allowed_principals", member)
		if m := s.trial.set.dir.members[member]; m.Disabled {
			c.say = fmt.Sprintf("enable %s", member)
		} else if m.Principal.IsZero() {
			c.say = fmt.Sprintf("register %s", member)
		}
		c.edit = func(to *Scenario) error { return admit(to, member) }
	case group == types.NewEntityUID(typeToolSet, setAllowed) && who.Type == typeTool:
		c.say = fmt.Sprintf("add %s to allowed_tools", name)
		c.edit = listed(name, func(to *Scenario) *[]string { return &to.Config.Snapshot.AllowedTools })
	case group == types.NewEntityUID(typeChannelSet, setAllowed) && who.Type == typeChannel:
		c.say = fmt.Sprintf("allow the channel %s", name)
		c.edit = listed(name, func(to *Scenario) *[]string { return &to.Config.Snapshot.AllowedChannels })
	case group == types.NewEntityUID(typeSkillSet, setActive) && who.Type == typeSkill:
		c.say = fmt.Sprintf("activate the skill %s", name)
		c.edit = listed(name, func(to *Scenario) *[]string { return &to.Config.Snapshot.ActiveSkills })
	default:
		return change{}, false
	}
	return c, true
}

// member returns the principal that an entity is.
func (s solver) member(uid types.EntityUID) (access.Principal, bool) {
	for kind, t := range typeOfKind {
		if t == uid.Type {
			return access.Principal{Kind: kind, Name: string(uid.ID)}, true
		}
	}
	return access.Principal{}, false
}

func listed(name string, list func(*Scenario) *[]string) func(*Scenario) error {
	return func(to *Scenario) error {
		l := list(to)
		*l = append(slices.Clone(*l), name)
		return nil
	}
}

// roleChange gives a member a role, or takes it away.
func roleChange(who access.Principal, role access.Role, in bool) (say string, edit func(*Scenario) error) {
	say = fmt.Sprintf("give role %s to %s", role, who)
	if !in {
		say = fmt.Sprintf("take role %s from %s", role, who)
	}
	return say, func(to *Scenario) error {
		return changeMember(to, who, func(m *access.Member) {
			m.Roles = slices.DeleteFunc(slices.Clone(m.Roles), func(r access.Role) bool { return r == role })
			if in {
				m.Roles = append(m.Roles, role)
			}
		})
	}
}

func changeMember(to *Scenario, who access.Principal, edit func(*access.Member)) error {
	i := slices.IndexFunc(to.Config.Members, func(m access.Member) bool { return m.Principal == who })
	if i < 0 {
		return fmt.Errorf("%s is no member", who)
	}
	to.Config.Members = slices.Clone(to.Config.Members)
	edit(&to.Config.Members[i])
	return nil
}

// admit makes a principal one of the allowed: registered, enabled as its owner
// is, and on the list if there is one.
func admit(to *Scenario, who access.Principal) error {
	enable := func(m *access.Member) { m.Disabled = false }
	if err := changeMember(to, who, enable); err != nil {
		m := access.Member{Principal: who}
		if who.Kind == access.KindAgent {
			m.Owner = to.Request.Caller.OnBehalfOf
		}
		to.Config.Members = append(slices.Clone(to.Config.Members), m)
	}
	if who.Kind == access.KindAgent {
		i := slices.IndexFunc(to.Config.Members, func(m access.Member) bool { return m.Principal == who })
		if err := changeMember(to, to.Config.Members[i].Owner, enable); err != nil {
			return err
		}
	}
	if allowed := to.Config.Snapshot.AllowedPrincipals; allowed != nil && !slices.Contains(allowed, who) {
		to.Config.Snapshot.AllowedPrincipals = append(slices.Clone(allowed), who)
	}
	return nil
}

// toolFlag is the change of a yes or no in the tool's definition. Whether it
// is sensitive follows from its capabilities, unless that was set.
func (s solver) toolFlag(at repair, name string) (change, bool) {
	flags := map[string]func(*tool.Descriptor) *bool{
		"read_only":   func(d *tool.Descriptor) *bool { return &d.ReadOnly },
		"destructive": func(d *tool.Descriptor) *bool { return &d.Destructive },
		"open_world":  func(d *tool.Descriptor) *bool { return &d.OpenWorld },
		"sensitive":   func(d *tool.Descriptor) *bool { return &d.AlwaysSensitive },
	}
	field, ok := flags[name]
	uid := s.trial.stands.call.req.Resource
	now, isBool := attributeOf(uid, types.String(name), at.env.Entities).(types.Boolean)
	if !ok || !isBool {
		return change{}, false
	}
	becomes := !bool(now)
	return change{
		key: "resource." + name, effort: effortEntity,
		say: fmt.Sprintf("define the tool %s with %s %v", uid.ID, name, becomes),
		step: FlipStep{
			Kind: StepEntity, Path: fmt.Sprintf("%s.%s", uid, name), Was: fmt.Sprint(bool(now)), Becomes: fmt.Sprint(becomes),
		},
		patch: func(env *evalEnv) { patchAttribute(env, uid, types.String(name), types.Boolean(becomes)) },
		edit: func(to *Scenario) error {
			i := slices.IndexFunc(to.Config.Tools, func(d tool.Descriptor) bool { return d.Name == string(uid.ID) })
			if i < 0 {
				return fmt.Errorf("there is no tool %s", uid.ID)
			}
			to.Config.Tools = slices.Clone(to.Config.Tools)
			*field(&to.Config.Tools[i]) = becomes
			if name == "sensitive" && to.Config.Tools[i].Sensitive() != becomes {
				return fmt.Errorf("the capabilities of %s make it sensitive", uid.ID)
			}
			return nil
		},
	}, true
}

// patched adds a changed entity to those of an environment.
func patched(env *evalEnv, e types.Entity) {
	all, _ := env.Entities.(*overlay)
	env.Entities = &overlay{base: all.base, extra: append([]types.Entity{e}, all.extra...)}
}

func patchAttribute(env *evalEnv, uid types.EntityUID, name types.String, v types.Value) {
	e, _ := env.Entities.Get(uid)
	e.UID = uid
	e.Attributes = withValue(e.Attributes, []string{string(name)}, v)
	patched(env, e)
}

func patchParents(env *evalEnv, who, group types.EntityUID, in bool) {
	e, _ := env.Entities.Get(who)
	e.UID = who
	parents := slices.DeleteFunc(e.Parents.Slice(), func(uid types.EntityUID) bool { return uid == group })
	if in {
		parents = append(parents, group)
	}
	e.Parents = cedar.NewEntityUIDSet(parents...)
	patched(env, e)
}
