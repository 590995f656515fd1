package policy

import (
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/call/policy/internal/entities"
	"palyra/internal/call/policy/internal/expr"
	"palyra/internal/call/policy/internal/names"
	"palyra/internal/core/access"
)

// CatalogEntry is a tool that a principal could call under some facts.
type CatalogEntry struct {
	Tool string `json:"tool"`
	// MayAsk is false only if no call can require an approval.
	MayAsk bool `json:"may_ask"`
}

// Catalog lists the tools that a caller could call under some facts, by name. Arguments and
// facts are unknown, so the list may be too long: a listed tool may still be denied, a tool
// that is not listed is always denied.
//
// The list of a member is cached for the lifetime of the set, because a model requests it
// before each of its turns. A set never changes.
func (s *Set) Catalog(caller access.Caller) []CatalogEntry { return slices.Clone(s.listed(caller)) }

// Lists reports whether Catalog lists a tool. It copies nothing, because every call uses it.
func (s *Set) Lists(caller access.Caller, tool string) bool {
	_, found := slices.BinarySearchFunc(s.listed(caller), tool, func(e CatalogEntry, tool string) int { return strings.Compare(e.Tool, tool) })
	return found
}

// listed is Catalog with a cache. The result must not be modified.
func (s *Set) listed(caller access.Caller) []CatalogEntry {
	if _, member := s.dir.Members[caller.Principal]; !member {
		return s.catalog(caller)
	}
	if found, ok := s.catalogs.Load(caller.Principal); ok {
		if list, ok := found.([]CatalogEntry); ok {
			return list
		}
	}
	list := s.catalog(caller)
	s.catalogs.Store(caller.Principal, list)
	return list
}

func (s *Set) catalog(caller access.Caller) []CatalogEntry {
	p, ok := s.prospectsOf(caller)
	if !ok {
		return nil
	}
	var out []CatalogEntry
	for name := range s.vocab.Args {
		if name == names.UnknownTool {
			continue
		}
		req := p.callOf(name)
		found := s.inScope(req)
		if !s.couldRun(p, name) || !couldAllow(found, viewOf(p.entities, req, p.strongest)) {
			continue
		}
		out = append(out, CatalogEntry{Tool: name, MayAsk: s.mayAsk(found, p.entities, req, p.strongest)})
	}
	slices.SortFunc(out, func(a, b CatalogEntry) int { return strings.Compare(a.Tool, b.Tool) })
	return out
}

// Bars returns the policies that forbid a caller every call of a tool, independent of input and
// approvals. The result is empty if the tool is denied only for lack of a permit.
func (s *Set) Bars(caller access.Caller, tool string) []Determining {
	p, ok := s.prospectsOf(caller)
	if !ok {
		return nil
	}
	bars := func(found candidates, view *expr.Partial) []*compiled {
		return slices.DeleteFunc(found, func(c *compiled) bool { return c.Permits() || view.Applies(c.Policy) != expr.Yes })
	}
	if skill, of := s.dir.Skills[tool]; of {
		req := p.runOf(skill)
		if found := bars(s.inScope(req), partialOf(p.entities, req, types.NewRecord(nil))); len(found) > 0 {
			return describe(found)
		}
	}
	req := p.callOf(tool)
	return describe(bars(s.inScope(req), viewOf(p.entities, req, p.strongest)))
}

// couldRun reports whether the caller could run the skill of the tool; true for other tools.
func (s *Set) couldRun(p prospects, tool string) bool {
	skill, of := s.dir.Skills[tool]
	if !of {
		return true
	}
	req := p.runOf(skill)
	return couldAllow(s.inScope(req), partialOf(p.entities, req, types.NewRecord(nil)))
}

// prospects is the information about a caller's calls before any call exists.
type prospects struct {
	principal types.EntityUID
	entities  *entities.Overlay
	// strongest is the strongest approval that all approvers together could give.
	strongest types.Record
}

// prospectsOf returns false for a caller who is not in the set.
func (s *Set) prospectsOf(caller access.Caller) (prospects, bool) {
	principal, known, ok := s.dir.Principal(caller.Principal)
	if !ok {
		return prospects{}, false
	}
	return prospects{principal, known, s.electorate(s.dir.Requester(caller), "").facts}, true
}

func (p prospects) callOf(tool string) cedar.Request {
	return cedar.Request{
		Principal: p.principal,
		Action:    types.NewEntityUID(names.TypeAction, types.String(names.ToolPrefix+tool)),
		Resource:  types.NewEntityUID(names.TypeTool, types.String(tool)),
	}
}

func (p prospects) runOf(skill string) cedar.Request {
	return cedar.Request{
		Principal: p.principal,
		Action:    types.NewEntityUID(names.TypeAction, names.SkillAction),
		Resource:  types.NewEntityUID(names.TypeSkill, types.String(skill)),
	}
}

// inScope returns the policies whose whole scope matches.
func (s *Set) inScope(req cedar.Request) candidates {
	return slices.DeleteFunc(s.candidates(req), func(p *compiled) bool {
		return !s.dir.InScope(req.Principal, p.AST.Principal) || !s.dir.InScope(req.Action, p.AST.Action) ||
			!s.dir.InScope(req.Resource, p.AST.Resource)
	})
}

// viewOf returns a partial request with the caller, the tool and an approval, without facts.
func viewOf(known *entities.Overlay, req cedar.Request, approval types.Record) *expr.Partial {
	return partialOf(known, req, types.NewRecord(types.RecordMap{"approval": approval}))
}

// partialOf returns a partial request with principal, action and resource. Of the context, only
// the approval, or its absence, is known.
func partialOf(known *entities.Overlay, req cedar.Request, context types.Record) *expr.Partial {
	return &expr.Partial{
		Env:   expr.Env{Entities: known, Principal: req.Principal, Action: req.Action, Resource: req.Resource, Context: context},
		Known: expr.Prefixes([]string{"principal"}, []string{"action"}, []string{"resource"}, []string{"context", "approval"}),
	}
}

// couldAllow reports whether some facts exist under which the request is allowed.
func couldAllow(found candidates, view *expr.Partial) bool {
	permitted := false
	for _, p := range found {
		t := view.Applies(p.Policy)
		if !p.Permits() && t == expr.Yes {
			return false
		}
		permitted = permitted || p.Permits() && t != expr.No
	}
	return permitted
}

// mayAsk reports whether some facts could exist under which an approval decides. Forbids that
// do not read the approval deny, but never require an approval.
func (s *Set) mayAsk(found candidates, known *entities.Overlay, req cedar.Request, strongest types.Record) bool {
	return len(s.askers(found, known, req, strongest)) > 0
}

// askers returns the policies that could make a call wait: the forbids that an approval may
// lift, and the permits that need one, unless another permit is certain.
func (s *Set) askers(found candidates, known *entities.Overlay, req cedar.Request, strongest types.Record) []*compiled {
	bare, best := viewOf(known, req, s.noApproval), viewOf(known, req, strongest)
	sure := false
	var lifted, brought []*compiled
	for _, p := range found {
		switch {
		case p.Permits():
			sure = sure || bare.Applies(p.Policy) == expr.Yes
			if p.approval && best.Applies(p.Policy) != expr.No {
				brought = append(brought, p)
			}
		case p.approval && bare.Applies(p.Policy) != expr.No && best.Applies(p.Policy) != expr.Yes:
			lifted = append(lifted, p)
		}
	}
	if sure {
		return lifted
	}
	return append(lifted, brought...)
}

// Grounds returns the policies behind an entry of the catalog, sorted by id. They are the
// policies that could make a call wait or, if no policy could, the policies that could permit a
// call.
func (s *Set) Grounds(caller access.Caller, tool string) []Determining {
	p, ok := s.prospectsOf(caller)
	if !ok {
		return nil
	}
	req := p.callOf(tool)
	found := s.inScope(req)
	grounds := s.askers(found, p.entities, req, p.strongest)
	if len(grounds) == 0 {
		view := viewOf(p.entities, req, p.strongest)
		grounds = slices.DeleteFunc(found, func(c *compiled) bool { return !c.Permits() || view.Applies(c.Policy) == expr.No })
	}
	sortByID(grounds)
	return describe(grounds)
}
