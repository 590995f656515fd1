package policy

import (
	"slices"
	"strings"
	"sync"

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

// Catalog finds the tools that callers could call before any call exists. It is safe for
// concurrent use.
type Catalog struct {
	rules  *rules
	voting *voting
	// lists caches the tools of each member.
	lists sync.Map
}

// Tools lists the tools that a caller could call under some facts, by name. Arguments and facts
// are unknown, so the list may be too long: a listed tool may still be denied, a tool that is
// not listed is always denied.
//
// The list of a member is cached for the lifetime of the set, because a model requests it
// before each of its turns. A set never changes.
func (c *Catalog) Tools(caller access.Caller) []CatalogEntry { return slices.Clone(c.cached(caller)) }

// Lists reports whether Tools lists a tool. It copies nothing, because every call uses it.
func (c *Catalog) Lists(caller access.Caller, tool string) bool {
	_, found := slices.BinarySearchFunc(c.cached(caller), tool, func(e CatalogEntry, tool string) int { return strings.Compare(e.Tool, tool) })
	return found
}

// cached is Tools without a copy. The result must not be modified.
func (c *Catalog) cached(caller access.Caller) []CatalogEntry {
	if _, member := c.rules.dir.Members[caller.Principal]; !member {
		return c.list(caller)
	}
	if found, ok := c.lists.Load(caller.Principal); ok {
		if list, ok := found.([]CatalogEntry); ok {
			return list
		}
	}
	list := c.list(caller)
	c.lists.Store(caller.Principal, list)
	return list
}

func (c *Catalog) list(caller access.Caller) []CatalogEntry {
	p, ok := c.prospectsOf(caller)
	if !ok {
		return nil
	}
	var out []CatalogEntry
	for name := range c.rules.vocab.Args {
		if name == names.UnknownTool {
			continue
		}
		req := p.callOf(name)
		found := c.rules.inScope(req)
		if !c.couldRun(p, name) || !couldAllow(found, viewOf(p.entities, req, p.strongest)) {
			continue
		}
		out = append(out, CatalogEntry{Tool: name, MayAsk: len(c.askers(found, p.entities, req, p.strongest)) > 0})
	}
	slices.SortFunc(out, func(a, b CatalogEntry) int { return strings.Compare(a.Tool, b.Tool) })
	return out
}

// Bars returns the policies that forbid a caller every call of a tool, independent of input and
// approvals. The result is empty if the tool is denied only for lack of a permit.
func (c *Catalog) Bars(caller access.Caller, tool string) []Determining {
	p, ok := c.prospectsOf(caller)
	if !ok {
		return nil
	}
	bars := func(found candidates, view *expr.Partial) []*compiled {
		return slices.DeleteFunc(found, func(one *compiled) bool { return one.Permits() || view.Applies(one.Policy) != expr.Yes })
	}
	if skill, of := c.rules.dir.Skills[tool]; of {
		req := p.runOf(skill)
		if found := bars(c.rules.inScope(req), partialOf(p.entities, req, types.NewRecord(nil))); len(found) > 0 {
			return describe(found)
		}
	}
	req := p.callOf(tool)
	return describe(bars(c.rules.inScope(req), viewOf(p.entities, req, p.strongest)))
}

// couldRun reports whether the caller could run the skill of the tool; true for other tools.
func (c *Catalog) couldRun(p prospects, tool string) bool {
	skill, of := c.rules.dir.Skills[tool]
	if !of {
		return true
	}
	req := p.runOf(skill)
	return couldAllow(c.rules.inScope(req), partialOf(p.entities, req, types.NewRecord(nil)))
}

// prospects is the information about a caller's calls before any call exists.
type prospects struct {
	principal types.EntityUID
	entities  *entities.Overlay
	// strongest is the strongest approval that all approvers together could give.
	strongest types.Record
}

// prospectsOf returns false for a caller who is not in the set.
func (c *Catalog) prospectsOf(caller access.Caller) (prospects, bool) {
	principal, known, ok := c.rules.dir.Principal(caller.Principal)
	if !ok {
		return prospects{}, false
	}
	return prospects{principal, known, c.voting.electorate(c.rules.dir.Requester(caller), "").facts}, true
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

// viewOf returns a partial request with the caller, the tool and an approval, without facts.
func viewOf(known *entities.Overlay, req cedar.Request, approval types.Record) *expr.Partial {
	return partialOf(known, req, types.NewRecord(types.RecordMap{"approval": approval}))
}

// partialOf returns a partial request with principal, action and resource. Of the context, only
// the approval, or its absence, is known.
func partialOf(known *entities.Overlay, req cedar.Request, context types.Record) *expr.Partial {
	return &expr.Partial{
		Env:   envOf(known, req, context),
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

// askers returns the policies that could make a call wait: the forbids that an approval may
// lift, and the permits that need one, unless another permit is certain. Forbids that do not read
// the approval deny, but never require an approval.
func (c *Catalog) askers(found candidates, known *entities.Overlay, req cedar.Request, strongest types.Record) []*compiled {
	bare, best := viewOf(known, req, c.voting.noApproval), viewOf(known, req, strongest)
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
func (c *Catalog) Grounds(caller access.Caller, tool string) []Determining {
	p, ok := c.prospectsOf(caller)
	if !ok {
		return nil
	}
	req := p.callOf(tool)
	found := c.rules.inScope(req)
	grounds := c.askers(found, p.entities, req, p.strongest)
	if len(grounds) == 0 {
		view := viewOf(p.entities, req, p.strongest)
		grounds = slices.DeleteFunc(found, func(one *compiled) bool { return !one.Permits() || view.Applies(one.Policy) == expr.No })
	}
	sortByID(grounds)
	return describe(grounds)
}

// inScope returns the policies whose whole scope matches.
func (r *rules) inScope(req cedar.Request) candidates {
	return slices.DeleteFunc(r.candidates(req), func(p *compiled) bool {
		return !r.dir.InScope(req.Principal, p.AST.Principal) || !r.dir.InScope(req.Action, p.AST.Action) ||
			!r.dir.InScope(req.Resource, p.AST.Resource)
	})
}
