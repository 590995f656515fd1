package check

import (
	"maps"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/call/policy/internal/entities"
	"palyra/internal/call/policy/internal/expr"
	"palyra/internal/call/policy/internal/names"
	"palyra/internal/call/policy/internal/schema"
	"palyra/internal/call/policy/internal/vocabulary"
)

// scopes finds the actions that the scope of a policy can match, and the shapes of the entities
// and contexts of these actions. It is not safe for concurrent use.
type scopes struct {
	vocabulary *vocabulary.Vocabulary
	// actions caches the actions, and validators the validator, of each action scope.
	actions    map[string][]types.EntityUID
	validators map[string]*schema.Validator
}

func newScopes(v *vocabulary.Vocabulary) *scopes {
	return &scopes{v, make(map[string][]types.EntityUID), make(map[string]*schema.Validator)}
}

// actionsOf returns the actions with a context that p's scope can match.
func (s *scopes) actionsOf(p *expr.Policy) []types.EntityUID {
	key, wanted := entities.ScopeActions(p.AST.Action)
	if known, ok := s.actions[key]; ok {
		return known
	}
	var out []types.EntityUID
	for uid, action := range s.vocabulary.Schema.Actions {
		if action.AppliesTo != nil && (wanted == nil || s.matches(uid, wanted)) {
			out = append(out, uid)
		}
	}
	slices.SortFunc(out, entities.Compare)
	s.actions[key] = out
	return out
}

// validator returns a validator that checks conditions only for the actions that the scope can
// match. Validation time grows with the number of actions in the schema, and most policies name
// one.
func (s *scopes) validator(scope expr.ScopeNode) *schema.Validator {
	key, wanted := entities.ScopeActions(scope)
	if wanted == nil {
		return s.vocabulary.Check
	}
	if cached, ok := s.validators[key]; ok {
		return cached
	}
	narrow := *s.vocabulary.Schema
	narrow.Actions = maps.Clone(s.vocabulary.Schema.Actions)
	for uid, action := range narrow.Actions {
		if !s.matches(uid, wanted) {
			action.AppliesTo = nil
			narrow.Actions[uid] = action
		}
	}
	out := schema.NewValidator(&narrow)
	s.validators[key] = out
	return out
}

// matches reports whether an action is among the wanted ones or a member of one. Groups
// are not nested.
func (s *scopes) matches(uid types.EntityUID, wanted []types.EntityUID) bool {
	if slices.Contains(wanted, uid) {
		return true
	}
	for parent := range s.vocabulary.Schema.Actions[uid].Entity.Parents.All() {
		if slices.Contains(wanted, parent) {
			return true
		}
	}
	return false
}

// actionNames lists the actions by name, sorted, without the placeholder for unknown tools.
func (s *scopes) actionNames() []string {
	var out []string
	for uid := range s.vocabulary.Schema.Actions {
		name := string(uid.ID)
		if tool, _ := strings.CutPrefix(name, names.ToolPrefix); tool != names.UnknownTool && !slices.Contains(s.vocabulary.Waiting, tool) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// reachesTools reports whether the scope can match a tool call; only reports whether it matches
// nothing else.
func (s *scopes) reachesTools(p *expr.Policy) (reaches, only bool) {
	only = true
	for _, uid := range s.actionsOf(p) {
		if strings.HasPrefix(string(uid.ID), names.ToolPrefix) {
			reaches = true
		} else {
			only = false
		}
	}
	return reaches, reaches && only
}

// reaches reports whether the scope can match an action.
func (s *scopes) reaches(p *expr.Policy, action types.String) bool {
	return slices.Contains(s.actionsOf(p), types.NewEntityUID(names.TypeAction, action))
}

func (s *scopes) onlyTools(p *expr.Policy) bool {
	_, only := s.reachesTools(p)
	return only
}

// isGroup reports whether an action has no context.
func (s *scopes) isGroup(uid types.EntityUID) bool {
	a, ok := s.vocabulary.Schema.Actions[uid]
	return ok && a.AppliesTo == nil
}

// entityTypes lists the entity types of the schema.
func (s *scopes) entityTypes() []string {
	var out []string
	for t := range s.vocabulary.Schema.Entities {
		out = append(out, string(t))
	}
	slices.Sort(out)
	return out
}

// attributes lists the attributes of a chain such as context.args, over all actions and types
// that the policy's scope can match, sorted.
func (s *scopes) attributes(p *expr.Policy, chain []string) []string {
	names := map[string]bool{}
	for _, root := range s.roots(p, chain[0]) {
		record, ok := s.descend(root, chain[1:])
		if !ok {
			continue
		}
		for name := range record {
			names[string(name)] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// roots returns the shapes that a variable can have.
func (s *scopes) roots(p *expr.Policy, variable string) []schema.ResolvedRecord {
	var out []schema.ResolvedRecord
	entities := s.vocabulary.Schema.Entities
	for _, uid := range s.actionsOf(p) {
		applies := s.vocabulary.Schema.Actions[uid].AppliesTo
		switch variable {
		case "context":
			out = append(out, applies.Context)
		case "principal":
			for _, t := range applies.Principals {
				out = append(out, entities[t].Shape)
			}
		case "resource":
			for _, t := range applies.Resources {
				out = append(out, entities[t].Shape)
			}
		}
	}
	return out
}

func (s *scopes) descend(at schema.ResolvedRecord, path []string) (schema.ResolvedRecord, bool) {
	for _, name := range path {
		attribute, ok := at[types.String(name)]
		if !ok {
			return nil, false
		}
		switch t := attribute.Type.(type) {
		case schema.ResolvedRecord:
			at = t
		case schema.ResolvedEntity:
			at = s.vocabulary.Schema.Entities[types.EntityType(t)].Shape
		default:
			return nil, false
		}
	}
	return at, true
}
