package policy

import (
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/call/policy/finding"
	"palyra/internal/call/policy/internal/expr"
	"palyra/internal/call/policy/internal/names"
	"palyra/internal/core/tool"
)

// checkHas finds tests for attributes that no action in scope has: Cedar silently evaluates
// them to false.
func (l *linter) checkHas(p *compiled) []finding.Finding {
	var findings []finding.Finding
	for _, cond := range p.Conditions() {
		cond.Body.Walk(func(t *expr.Tree) bool {
			has, ok := t.Node.(expr.NodeHas)
			if !ok {
				return true
			}
			chain := t.Kids[0].Chain()
			if chain == nil || chain[0] == "action" {
				return true
			}
			name := string(has.Value)
			if known := l.attributes(p, chain); !slices.Contains(known, name) {
				f := p.At(t.At, finding.SeverityError, finding.CodeUnknownName, "%s never has an attribute %s", strings.Join(chain, "."), name)
				f.Help = finding.DidYouMean(name, known)
				findings = append(findings, f)
			}
			return true
		})
	}
	return findings
}

// reachesTools reports whether the scope can match a tool call; only reports whether it matches
// nothing else.
func (l *linter) reachesTools(p *compiled) (reaches, only bool) {
	only = true
	for _, uid := range l.actionsOf(p) {
		if strings.HasPrefix(string(uid.ID), names.ToolPrefix) {
			reaches = true
		} else {
			only = false
		}
	}
	return reaches, reaches && only
}

// reaches reports whether the scope can match an action.
func (l *linter) reaches(p *compiled, action types.String) bool {
	return slices.Contains(l.actionsOf(p), types.NewEntityUID(names.TypeAction, action))
}

// checkWaives finds permits that could hold without an approval for a sensitive tool, for
// protected changes, or for a secret of a program. Such a permit must have the annotation
// @waives, so that approvals are not waived by accident.
func (l *linter) checkWaives(p *compiled) []finding.Finding {
	tools, _ := l.reachesTools(p)
	tools = tools && l.unapproved(p) != expr.No
	commits := l.reaches(p, names.CommitAction) && l.unasked(p, names.CommitAction) != expr.No
	injects := l.reaches(p, names.InjectAction) && l.unasked(p, names.InjectAction) != expr.No
	waives := p.Permits() && (tools || commits || injects)
	switch {
	case waives && p.Notes.Waives == "":
		text := "the permit mentions neither context.approval nor resource.sensitive, so it waives approval"
		switch {
		case !tools && !commits:
			text = "the permit can hold for a program that gets an unapproved secret, so it waives approval"
		case !tools:
			text = "the permit can hold for unapproved protected changes, so it waives approval"
		case p.approval || p.Mentions("resource", "sensitive"):
			text = "the permit can hold for an unapproved sensitive tool, so it waives approval"
		}
		f := p.Start(finding.SeverityError, finding.CodeWaives, "%s", text)
		f.Help = `add @waives("approval: <why>"), or add context.approval.granted to its conditions`
		return []finding.Finding{f}
	case !waives && p.Notes.Waives != "":
		return []finding.Finding{p.At(p.AnnotationToken("waives"), finding.SeverityWarning, finding.CodeWaives,
			"@waives: the policy waives no approval")}
	}
	return nil
}

// unapproved evaluates a policy for a sensitive tool without an approval.
func (l *linter) unapproved(p *compiled) expr.Truth {
	const name = "(any sensitive tool)"
	uid := types.NewEntityUID(names.TypeTool, name)
	view := &expr.Partial{
		Env: expr.Env{
			Entities: &overlay{base: l.set.dir.entities, extra: []types.Entity{{
				UID: uid, Attributes: types.NewRecord(types.RecordMap{"sensitive": types.True}),
			}}},
			Resource: uid,
			Context:  types.NewRecord(types.RecordMap{"approval": l.set.noApproval}),
		},
		Known: expr.Prefixes([]string{"context", "approval"}, []string{"resource", "sensitive"}),
	}
	return view.Applies(p.Policy)
}

// unasked evaluates a policy for protected changes, or a secret for a program, without an
// approval.
func (l *linter) unasked(p *compiled, action types.String) expr.Truth {
	view := &expr.Partial{
		Env: expr.Env{
			Entities: l.set.dir.entities, Action: types.NewEntityUID(names.TypeAction, action),
			Context: types.NewRecord(types.RecordMap{"approval": l.set.noApproval}),
		},
		Known:  expr.Prefixes([]string{"action"}, []string{"context", "approval"}),
		Assume: someProtected,
	}
	return view.Applies(p.Policy)
}

// someProtected treats the sets of protected paths and their classes as not empty, with unknown
// content.
func someProtected(t *expr.Tree) expr.Truth {
	if _, ok := t.Node.(expr.NodeIsEmpty); !ok {
		return expr.Maybe
	}
	switch strings.Join(t.Kids[0].Chain(), ".") {
	case "context.changes.protected", "context.changes.classes":
		return expr.No
	}
	return expr.Maybe
}

// startedTiers are the tiers of programs that this gateway starts; external is the tier of
// programs that others run.
var (
	startedTiers = []string{"a", "b", "c"}
	external     = []string{"external"}
)

// checkHostNetwork finds permits that could give a program the network of the host without
// naming this network, so that it is not opened by accident. Agents always run their own tools
// on the network of the host; a permit for these tools must name the tier "external", or the
// network.
func (l *linter) checkHostNetwork(p *compiled) []finding.Finding {
	if !p.Permits() || p.ReadsText("none", "context", "egress", "mode") {
		return nil
	}
	for _, d := range l.set.config.Tools {
		if !slices.Contains(d.Capabilities, tool.ProcessExec) {
			continue
		}
		tiers, help := startedTiers, `add context.egress.mode != "none" to its conditions, or context.egress.mode == "none" if this is intended`
		if d.Executor == tool.External {
			tiers, help = external, `the agent runs the tool itself, with the network of the host: add context.sandbox.tier == "external" to its conditions`
			if p.ReadsText("external", "context", "sandbox", "tier") {
				continue
			}
		}
		if slices.ContainsFunc(tiers, func(tier string) bool { return l.onHostNetwork(p, d.Name, tier) != expr.No }) {
			f := p.Start(finding.SeverityError, finding.CodeHostNetwork, "the permit can hold for a program with the network of the host without naming it")
			f.Help = help
			return []finding.Finding{f}
		}
	}
	return nil
}

// onHostNetwork evaluates a policy for a call of a tool whose program has the network of the
// host, in a tier.
func (l *linter) onHostNetwork(p *compiled, name, tier string) expr.Truth {
	action, uid := types.NewEntityUID(names.TypeAction, types.String(names.ToolPrefix+name)), types.NewEntityUID(names.TypeTool, types.String(name))
	if !slices.Contains(l.actionsOf(p), action) || !l.set.dir.inScope(uid, p.AST.Resource) {
		return expr.No
	}
	view := &expr.Partial{
		Env: expr.Env{
			Entities: l.set.dir.entities, Action: action, Resource: uid,
			Context: types.NewRecord(types.RecordMap{
				"egress":  types.NewRecord(types.RecordMap{"mode": types.String("none")}),
				"sandbox": types.NewRecord(types.RecordMap{"tier": types.String(tier)}),
			}),
		},
		Known: expr.Prefixes([]string{"action"}, []string{"resource"}, []string{"context", "egress", "mode"}, []string{"context", "sandbox", "tier"}),
	}
	return view.Applies(p.Policy)
}

// checkPermitsAll finds permits without any bound.
func (l *linter) checkPermitsAll(p *compiled) []finding.Finding {
	if !p.Permits() || p.Notes.Waives != "" && l.onlyTools(p) {
		return nil
	}
	_, principal := p.AST.Principal.(expr.ScopeAll)
	_, action := p.AST.Action.(expr.ScopeAll)
	if !principal || !action || l.constant().Applies(p.Policy) != expr.Yes {
		return nil
	}
	f := p.Start(finding.SeverityError, finding.CodePermitsAll, "this permits every action to every principal, including the API's own actions")
	f.Help = "name the actions, or the principals, or add a condition"
	return []finding.Finding{f}
}

func (l *linter) onlyTools(p *compiled) bool {
	_, only := l.reachesTools(p)
	return only
}

// constant returns a partial request without any known value.
func (l *linter) constant() *expr.Partial {
	return &expr.Partial{
		Env:   expr.Env{Entities: l.set.dir.entities},
		Known: func([]string) bool { return false },
	}
}

// checkApplies finds policies that no request can match.
func (l *linter) checkApplies(p *compiled) []finding.Finding {
	possible, actions := false, l.actionsOf(p)
	if len(actions) == 0 && awaitsUpstream(p.AST.Action) {
		return nil
	}
	for _, action := range actions {
		view := l.constant()
		view.Env.Action = action
		view.Known = expr.Prefixes([]string{"action"})
		possible = possible || view.Applies(p.Policy) != expr.No
	}
	if !possible {
		f := p.Start(finding.SeverityError, finding.CodeNeverApplies, "the conditions can never hold, so the policy never applies")
		f.Help = "remove the policy, or correct its conditions"
		return []finding.Finding{f}
	}
	if _, only := l.reachesTools(p); only && !l.appliesToSomeTool(p) {
		return []finding.Finding{p.Start(finding.SeverityWarning, finding.CodeNeverApplies,
			"the policy applies to none of the pinned tools")}
	}
	return nil
}

func (l *linter) appliesToSomeTool(p *compiled) bool {
	for _, action := range l.actionsOf(p) {
		name, _ := strings.CutPrefix(string(action.ID), names.ToolPrefix)
		if name == names.UnknownTool {
			continue
		}
		uid := types.NewEntityUID(names.TypeTool, types.String(name))
		if !l.set.dir.inScope(uid, p.AST.Resource) {
			continue
		}
		view := l.constant()
		view.Env.Action, view.Env.Resource = action, uid
		view.Known = expr.Prefixes([]string{"action"}, []string{"resource"})
		if view.Applies(p.Policy) != expr.No {
			return true
		}
	}
	return false
}

// inScope evaluates a scope clause for one entity.
func (d *directory) inScope(uid types.EntityUID, scope expr.ScopeNode) bool {
	in := func(e types.EntityUID) bool { return uid == e || slices.Contains(d.ancestors[uid], e) }
	switch s := scope.(type) {
	case expr.ScopeEq:
		return uid == s.Entity
	case expr.ScopeIn:
		return in(s.Entity)
	case expr.ScopeInSet:
		return slices.ContainsFunc(s.Entities, in)
	case expr.ScopeIs:
		return uid.Type == s.Type
	case expr.ScopeIsIn:
		return uid.Type == s.Type && in(s.Entity)
	default:
		return true
	}
}
