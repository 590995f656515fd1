package policy

import (
	"maps"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/call/policy/internal/names"
	"palyra/internal/core/access"
	"palyra/internal/core/tool"
)

// directory holds the hydrated entities of one set.
type directory struct {
	entities types.EntityMap
	// ancestors are all entities above an entity, in no particular order.
	ancestors map[types.EntityUID][]types.EntityUID
	// keys are the index keys of each entity; see requestKeys.
	keys    map[types.EntityUID][]types.EntityUID
	members map[access.Principal]access.Member
	// skills maps the tools of skills to their skills.
	skills map[string]string
	// voters are the users who could vote, sorted by name. Policy defines who may decide which
	// records.
	voters []access.Member
}

func buildDirectory(cfg Config, v *vocabulary) *directory {
	d := &directory{
		entities: make(types.EntityMap),
		members:  make(map[access.Principal]access.Member, len(cfg.Members)),
		skills:   make(map[string]string),
	}
	d.addActions(v)
	d.addFixed(v.roles)
	d.addTools(cfg)
	d.addWaiting(v.waiting)
	d.addMembers(cfg)
	for _, name := range cfg.Workspaces {
		d.addNamed(names.TypeWorkspace, name)
	}
	for _, name := range cfg.Snapshot.AllowedChannels {
		d.addNamed(names.TypeChannel, name, types.NewEntityUID(names.TypeChannelSet, names.SetAllowed))
	}
	for _, name := range cfg.Snapshot.ActiveSkills {
		d.addNamed(names.TypeSkill, name, types.NewEntityUID(names.TypeSkillSet, names.SetActive))
	}
	d.close()
	return d
}

func (d *directory) add(uid types.EntityUID, attributes types.RecordMap, parents ...types.EntityUID) {
	d.entities[uid] = types.Entity{
		UID: uid, Parents: cedar.NewEntityUIDSet(parents...), Attributes: types.NewRecord(attributes),
	}
}

func (d *directory) addNamed(t types.EntityType, name string, parents ...types.EntityUID) {
	d.add(types.NewEntityUID(t, types.String(name)), types.RecordMap{"name": types.String(name)}, parents...)
}

func (d *directory) addActions(v *vocabulary) {
	for uid, action := range v.schema.Actions {
		d.entities[uid] = action.Entity
	}
}

func (d *directory) addFixed(roles []access.Role) {
	for _, r := range roles {
		d.add(types.NewEntityUID(names.TypeRole, types.String(r)), nil)
	}
	d.add(types.NewEntityUID(names.TypePrincipalSet, names.SetAllowed), nil)
	d.add(types.NewEntityUID(names.TypeToolSet, names.SetAllowed), nil)
	d.add(types.NewEntityUID(names.TypeChannelSet, names.SetAllowed), nil)
	d.add(types.NewEntityUID(names.TypeSkillSet, names.SetActive), nil)
	d.add(types.NewEntityUID(names.TypeUser, names.Nobody), types.RecordMap{"name": types.String(names.Nobody), "sole": types.False})
}

func (d *directory) addTools(cfg Config) {
	for _, t := range cfg.Tools {
		var parents []types.EntityUID
		if cfg.Snapshot.AllowedTools == nil || slices.Contains(cfg.Snapshot.AllowedTools, t.Name) {
			parents = append(parents, types.NewEntityUID(names.TypeToolSet, names.SetAllowed))
		}
		if t.Skill != "" {
			// An inactive skill is also known, so that policies may name it.
			d.skills[t.Name] = t.Skill
			d.addNamed(names.TypeSkill, t.Skill)
			parents = append(parents, types.NewEntityUID(names.TypeSkill, types.String(t.Skill)))
		} else if server, _, ok := strings.Cut(t.Name, "/"); ok {
			uid := types.NewEntityUID(names.TypeServer, types.String(server))
			d.add(uid, nil)
			parents = append(parents, uid)
		}
		d.add(types.NewEntityUID(names.TypeTool, types.String(t.Name)), toolAttributes(t, true, t.Sensitive()), parents...)
	}
	unknown := tool.Descriptor{Name: names.UnknownTool}
	d.add(types.NewEntityUID(names.TypeTool, names.UnknownTool), toolAttributes(unknown, false, true))
}

// addWaiting adds missing tools, which cannot be called.
func (d *directory) addWaiting(waiting []string) {
	for _, name := range waiting {
		server, _, _ := strings.Cut(name, "/")
		uid := types.NewEntityUID(names.TypeServer, types.String(server))
		d.add(uid, nil)
		d.add(types.NewEntityUID(names.TypeTool, types.String(name)), toolAttributes(tool.Descriptor{Name: name}, false, true), uid)
	}
}

func toolAttributes(t tool.Descriptor, pinned, sensitive bool) types.RecordMap {
	return types.RecordMap{
		"name":         types.String(t.Name),
		"capabilities": capabilitySet(t.Capabilities),
		"read_only":    types.Boolean(t.ReadOnly),
		"destructive":  types.Boolean(t.Destructive),
		"open_world":   types.Boolean(t.OpenWorld),
		"pinned":       types.Boolean(pinned),
		"sensitive":    types.Boolean(sensitive),
	}
}

func capabilitySet(list []tool.Capability) types.Set { return stringSet(list) }

// addMembers hydrates users and agents. A disabled member keeps its entity, so that policies
// may name it, but it loses its roles and is not among the allowed principals. The same applies
// to an agent whose owner is disabled or unknown, or has not consented.
func (d *directory) addMembers(cfg Config) {
	for _, m := range cfg.Members {
		d.members[m.Principal] = m
		if m.CanVote() {
			d.voters = append(d.voters, m)
		}
	}
	slices.SortFunc(d.voters, func(a, b access.Member) int {
		return strings.Compare(a.Principal.Name, b.Principal.Name)
	})
	for _, m := range cfg.Members {
		d.addMember(m, cfg.Snapshot)
	}
}

func (d *directory) addMember(m access.Member, s Snapshot) {
	var parents []types.EntityUID
	if d.enabled(m) {
		for _, r := range m.Roles {
			parents = append(parents, types.NewEntityUID(names.TypeRole, types.String(r)))
		}
		listed := s.AllowedPrincipals == nil || slices.Contains(s.AllowedPrincipals, m.Principal)
		if listed && !slices.Contains(s.ForbiddenPrincipals, m.Principal) {
			parents = append(parents, types.NewEntityUID(names.TypePrincipalSet, names.SetAllowed))
		}
	}
	attributes := types.RecordMap{"name": types.String(m.Principal.Name)}
	switch m.Principal.Kind {
	case access.KindUser:
		attributes["sole"] = types.False // see Set.findSole
	case access.KindAgent:
		attributes["owner"] = types.NewEntityUID(names.TypeUser, types.String(m.Owner.Name))
	}
	d.add(names.UID(m.Principal), attributes, parents...)
}

// enabled reports whether m may act: m and its owner are enabled, and the owner has consented.
func (d *directory) enabled(m access.Member) bool {
	if m.Disabled {
		return false
	}
	if m.Principal.Kind != access.KindAgent {
		return true
	}
	owner, ok := d.members[m.Owner]
	return ok && !m.AwaitsConsent && m.Owner.Kind == access.KindUser && !owner.Disabled
}

// close computes the ancestors and index keys of every entity.
func (d *directory) close() {
	d.keys = make(map[types.EntityUID][]types.EntityUID, len(d.entities))
	d.ancestors = make(map[types.EntityUID][]types.EntityUID, len(d.entities))
	for uid := range d.entities {
		d.ancestors[uid] = d.above(uid)
		d.keys[uid] = requestKeys(uid, d.ancestors[uid])
	}
}

func (d *directory) above(uid types.EntityUID) []types.EntityUID {
	seen := map[types.EntityUID]bool{}
	var walk func(types.EntityUID)
	walk = func(at types.EntityUID) {
		for parent := range d.entities[at].Parents.All() {
			if !seen[parent] {
				seen[parent] = true
				walk(parent)
			}
		}
	}
	walk(uid)
	return slices.Collect(maps.Keys(seen))
}

// overlay adds the entities of one request to the directory's.
type overlay struct {
	base  types.EntityMap
	extra []types.Entity
}

// Get looks up the request's own entities first.
func (o *overlay) Get(uid types.EntityUID) (types.Entity, bool) {
	for i := range o.extra {
		if o.extra[i].UID == uid {
			return o.extra[i], true
		}
	}
	e, ok := o.base[uid]
	return e, ok
}
