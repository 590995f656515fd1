package entities

import (
	"maps"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/call/policy/internal/names"
	"palyra/internal/call/policy/internal/vocabulary"
	"palyra/internal/core/access"
	"palyra/internal/core/tool"
)

// Source has the inputs of a directory.
type Source struct {
	Vocabulary *vocabulary.Vocabulary
	Tools      []tool.Descriptor
	Members    []access.Member
	Workspaces []string
	// AllowedTools and AllowedPrincipals are nil for all.
	AllowedTools                           []string
	AllowedPrincipals, ForbiddenPrincipals []access.Principal
	AllowedChannels, ActiveSkills          []string
}

// Build hydrates the entities of a set.
func Build(cfg Source) *Directory {
	d := &Directory{
		Entities: make(types.EntityMap),
		Members:  make(map[access.Principal]access.Member, len(cfg.Members)),
		Skills:   make(map[string]string),
	}
	d.addActions(cfg.Vocabulary)
	d.addFixed(cfg.Vocabulary.Roles)
	d.addTools(cfg)
	d.addWaiting(cfg.Vocabulary.Waiting)
	d.addMembers(cfg)
	for _, name := range cfg.Workspaces {
		d.addNamed(names.TypeWorkspace, name)
	}
	for _, name := range cfg.AllowedChannels {
		d.addNamed(names.TypeChannel, name, types.NewEntityUID(names.TypeChannelSet, names.SetAllowed))
	}
	for _, name := range cfg.ActiveSkills {
		d.addNamed(names.TypeSkill, name, types.NewEntityUID(names.TypeSkillSet, names.SetActive))
	}
	d.close()
	return d
}

func (d *Directory) add(uid types.EntityUID, attributes types.RecordMap, parents ...types.EntityUID) {
	d.Entities[uid] = types.Entity{
		UID: uid, Parents: cedar.NewEntityUIDSet(parents...), Attributes: types.NewRecord(attributes),
	}
}

func (d *Directory) addNamed(t types.EntityType, name string, parents ...types.EntityUID) {
	d.add(types.NewEntityUID(t, types.String(name)), types.RecordMap{"name": types.String(name)}, parents...)
}

func (d *Directory) addActions(v *vocabulary.Vocabulary) {
	for uid, action := range v.Schema.Actions {
		d.Entities[uid] = action.Entity
	}
}

func (d *Directory) addFixed(roles []access.Role) {
	for _, r := range roles {
		d.add(types.NewEntityUID(names.TypeRole, types.String(r)), nil)
	}
	d.add(types.NewEntityUID(names.TypePrincipalSet, names.SetAllowed), nil)
	d.add(types.NewEntityUID(names.TypeToolSet, names.SetAllowed), nil)
	d.add(types.NewEntityUID(names.TypeChannelSet, names.SetAllowed), nil)
	d.add(types.NewEntityUID(names.TypeSkillSet, names.SetActive), nil)
	d.add(types.NewEntityUID(names.TypeUser, names.Nobody), types.RecordMap{"name": types.String(names.Nobody), "sole": types.False})
}

func (d *Directory) addTools(cfg Source) {
	for _, t := range cfg.Tools {
		var parents []types.EntityUID
		if cfg.AllowedTools == nil || slices.Contains(cfg.AllowedTools, t.Name) {
			parents = append(parents, types.NewEntityUID(names.TypeToolSet, names.SetAllowed))
		}
		if t.Skill != "" {
			// An inactive skill is also known, so that policies may name it.
			d.Skills[t.Name] = t.Skill
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
func (d *Directory) addWaiting(waiting []string) {
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
		"capabilities": TextSet(t.Capabilities),
		"read_only":    types.Boolean(t.ReadOnly),
		"destructive":  types.Boolean(t.Destructive),
		"open_world":   types.Boolean(t.OpenWorld),
		"pinned":       types.Boolean(pinned),
		"sensitive":    types.Boolean(sensitive),
	}
}

// addMembers hydrates users and agents. A disabled member keeps its entity, so that policies
// may name it, but it loses its roles and is not among the allowed principals. The same applies
// to an agent whose owner is disabled or unknown, or has not consented.
func (d *Directory) addMembers(cfg Source) {
	for _, m := range cfg.Members {
		d.Members[m.Principal] = m
		if m.CanVote() {
			d.Voters = append(d.Voters, m)
		}
	}
	slices.SortFunc(d.Voters, func(a, b access.Member) int {
		return strings.Compare(a.Principal.Name, b.Principal.Name)
	})
	for _, m := range cfg.Members {
		d.addMember(m, cfg)
	}
}

func (d *Directory) addMember(m access.Member, s Source) {
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
		attributes["sole"] = types.False // see MarkSole
	case access.KindAgent:
		attributes["owner"] = types.NewEntityUID(names.TypeUser, types.String(m.Owner.Name))
	}
	d.add(names.UID(m.Principal), attributes, parents...)
}

// enabled reports whether m may act: m and its owner are enabled, and the owner has consented.
func (d *Directory) enabled(m access.Member) bool {
	if m.Disabled {
		return false
	}
	if m.Principal.Kind != access.KindAgent {
		return true
	}
	owner, ok := d.Members[m.Owner]
	return ok && !m.AwaitsConsent && m.Owner.Kind == access.KindUser && !owner.Disabled
}

// close computes the ancestors and index keys of every entity.
func (d *Directory) close() {
	d.keys = make(map[types.EntityUID][]types.EntityUID, len(d.Entities))
	d.Ancestors = make(map[types.EntityUID][]types.EntityUID, len(d.Entities))
	for uid := range d.Entities {
		d.Ancestors[uid] = d.above(uid)
		d.keys[uid] = requestKeys(uid, d.Ancestors[uid])
	}
}

func (d *Directory) above(uid types.EntityUID) []types.EntityUID {
	seen := map[types.EntityUID]bool{}
	var walk func(types.EntityUID)
	walk = func(at types.EntityUID) {
		for parent := range d.Entities[at].Parents.All() {
			if !seen[parent] {
				seen[parent] = true
				walk(parent)
			}
		}
	}
	walk(uid)
	return slices.Collect(maps.Keys(seen))
}

// MarkSole marks the user who is the only approver. It MUST be called before the set of the
// directory is in force.
func (d *Directory) MarkSole(user access.Principal) {
	uid := names.UID(user)
	e := d.Entities[uid]
	attributes := e.Attributes.Map()
	attributes["sole"] = types.True
	e.Attributes = types.NewRecord(attributes)
	d.Entities[uid] = e
}
