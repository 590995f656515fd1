package policy

import (
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/tool"
)

// checkHas finds tests for attributes that no action in scope knows: Cedar
// takes them for false without a word.
func (l *linter) checkHas(p *compiled) []Finding {
	var findings []Finding
	for _, cond := range p.conditions() {
		cond.body.walk(func(t *tree) bool {
			has, ok := t.node.(nodeHas)
			if !ok {
				return true
			}
			chain := t.kids[0].chain()
			if chain == nil || chain[0] == "action" {
				return true
			}
			name := string(has.Value)
			if known := l.attributes(p, chain); !slices.Contains(known, name) {
				f := p.at(t.at, SeverityError, CodeUnknownName, "%s never has an attribute %s", strings.Join(chain, "."), name)
				f.Help = didYouMean(name, known)
				findings = append(findings, f)
			}
			return true
		})
	}
	return findings
}

// checkRisks finds what can fail at run time although it validates. A policy
// that errs denies every call that it is considered for.
func (l *linter) checkRisks(p *compiled) []Finding {
	var findings []Finding
	for _, cond := range p.conditions() {
		cond.body.walk(func(t *tree) bool {
			if risk := riskOf(t); risk != "" {
				f := p.at(t.at, SeverityWarning, CodeMayError, "%s, and a %s that errs denies the call", risk, effectWord(p.permits()))
				f.Help = "compare values directly, or bound them first"
				findings = append(findings, f)
				return false
			}
			return true
		})
	}
	return findings
}

// reachesTools reports whether the scope can match a tool call; only says
// whether it matches nothing else.
func (l *linter) reachesTools(p *compiled) (reaches, only bool) {
	only = true
	for _, uid := range l.actionsOf(p) {
		if strings.HasPrefix(string(uid.ID), toolPrefix) {
			reaches = true
		} else {
			only = false
		}
	}
	return reaches, reaches && only
}

// reachesCommits reports whether the scope can match the commit of a change
// set.
func (l *linter) reachesCommits(p *compiled) bool {
	return slices.Contains(l.actionsOf(p), types.NewEntityUID(typeAction, commitAction))
}

// checkWaives finds permits under which a sensitive tool could run, or protected
// changes could be committed, with no approval. They must say so, so that nobody
// waives the human by accident.
func (l *linter) checkWaives(p *compiled) []Finding {
	tools, _ := l.reachesTools(p)
	tools = tools && l.unapproved(p) != no
	commits := l.reachesCommits(p) && l.uncommitted(p) != no
	waives := p.permits() && (tools || commits)
	switch {
	case waives && p.notes.waives == "":
		text := "the permit mentions neither context.approval nor resource.sensitive, so it waives approval"
		switch {
		case !tools:
			text = "the permit can hold for protected changes that nobody approved, so it waives approval"
		case p.approval || p.mentions("resource", "sensitive"):
			text = "the permit can hold for a sensitive tool that nobody approved, so it waives approval"
		}
		f := p.start(SeverityError, CodeWaives, "%s", text)
		f.Help = `say so: @waives("approval: <why>"), or add context.approval.granted to its conditions`
		return []Finding{f}
	case !waives && p.notes.waives != "":
		return []Finding{p.at(p.annotationToken("waives"), SeverityWarning, CodeWaives,
			"@waives: the policy waives no approval")}
	}
	return nil
}

// unapproved evaluates a policy for a sensitive tool that nobody approved.
func (l *linter) unapproved(p *compiled) truth {
	const name = "(any sensitive tool)"
	uid := types.NewEntityUID(typeTool, name)
	view := &partialView{
		env: evalEnv{
			Entities: &overlay{base: l.set.dir.entities, extra: []types.Entity{{
				UID: uid, Attributes: types.NewRecord(types.RecordMap{"sensitive": types.True}),
			}}},
			Resource: uid,
			Context:  types.NewRecord(types.RecordMap{"approval": l.set.noApproval}),
		},
		known: prefixes([]string{"context", "approval"}, []string{"resource", "sensitive"}),
	}
	return view.applies(p)
}

// uncommitted evaluates a policy for protected changes that nobody approved.
func (l *linter) uncommitted(p *compiled) truth {
	view := &partialView{
		env: evalEnv{
			Entities: l.set.dir.entities, Action: types.NewEntityUID(typeAction, commitAction),
			Context: types.NewRecord(types.RecordMap{"approval": l.set.noApproval}),
		},
		known:  prefixes([]string{"action"}, []string{"context", "approval"}),
		assume: someProtected,
	}
	return view.applies(p)
}

// someProtected takes the sets of protected paths and their classes for not
// empty, whatever is in them.
func someProtected(t *tree) truth {
	if _, ok := t.node.(nodeIsEmpty); !ok {
		return maybe
	}
	switch strings.Join(t.kids[0].chain(), ".") {
	case "context.changes.protected", "context.changes.classes":
		return no
	}
	return maybe
}

// checkHostNetwork finds permits that could give a program the network of the
// host without naming it, so that nobody opens it by accident.
func (l *linter) checkHostNetwork(p *compiled) []Finding {
	if !p.permits() || p.readsText("none", "context", "egress", "mode") {
		return nil
	}
	for _, d := range l.set.config.Tools {
		if slices.Contains(d.Capabilities, tool.ProcessExec) && l.onHostNetwork(p, d.Name) != no {
			f := p.start(SeverityError, CodeHostNetwork, "the permit can hold for a program with the network of the host and does not say so")
			f.Help = `add context.egress.mode != "none" to its conditions; a permit that means it says context.egress.mode == "none"`
			return []Finding{f}
		}
	}
	return nil
}

// onHostNetwork evaluates a policy for a call of a tool whose program has the
// network of the host.
func (l *linter) onHostNetwork(p *compiled, name string) truth {
	action, uid := types.NewEntityUID(typeAction, types.String(toolPrefix+name)), types.NewEntityUID(typeTool, types.String(name))
	if !slices.Contains(l.actionsOf(p), action) || !l.set.dir.inScope(uid, p.ast.Resource) {
		return no
	}
	view := &partialView{
		env: evalEnv{
			Entities: l.set.dir.entities, Action: action, Resource: uid,
			Context: types.NewRecord(types.RecordMap{"egress": types.NewRecord(types.RecordMap{"mode": types.String("none")})}),
		},
		known: prefixes([]string{"action"}, []string{"resource"}, []string{"context", "egress", "mode"}),
	}
	return view.applies(p)
}

// checkPermitsAll finds permits without any bound.
func (l *linter) checkPermitsAll(p *compiled) []Finding {
	if !p.permits() || p.notes.waives != "" && l.onlyTools(p) {
		return nil
	}
	_, principal := p.ast.Principal.(scopeAll)
	_, action := p.ast.Action.(scopeAll)
	if !principal || !action || l.constant().applies(p) != yes {
		return nil
	}
	f := p.start(SeverityError, CodePermitsAll, "this permits every action to everybody, the API's own actions included")
	f.Help = "name the actions, or the principals, or add a condition"
	return []Finding{f}
}

func (l *linter) onlyTools(p *compiled) bool {
	_, only := l.reachesTools(p)
	return only
}

// constant knows nothing of a request.
func (l *linter) constant() *partialView {
	return &partialView{
		env:   evalEnv{Entities: l.set.dir.entities},
		known: func([]string) bool { return false },
	}
}

// checkApplies finds policies that no request can match.
func (l *linter) checkApplies(p *compiled) []Finding {
	possible := false
	for _, action := range l.actionsOf(p) {
		view := l.constant()
		view.env.Action = action
		view.known = prefixes([]string{"action"})
		possible = possible || view.applies(p) != no
	}
	if !possible {
		f := p.start(SeverityError, CodeNeverApplies, "the conditions can never hold, so the policy never applies")
		f.Help = "remove the policy, or mend its conditions"
		return []Finding{f}
	}
	if _, only := l.reachesTools(p); only && !l.appliesToSomeTool(p) {
		return []Finding{p.start(SeverityWarning, CodeNeverApplies,
			"the policy applies to none of the pinned tools")}
	}
	return nil
}

func (l *linter) appliesToSomeTool(p *compiled) bool {
	for _, action := range l.actionsOf(p) {
		name, _ := strings.CutPrefix(string(action.ID), toolPrefix)
		if name == unknownTool {
			continue
		}
		uid := types.NewEntityUID(typeTool, types.String(name))
		if !l.set.dir.inScope(uid, p.ast.Resource) {
			continue
		}
		view := l.constant()
		view.env.Action, view.env.Resource = action, uid
		view.known = prefixes([]string{"action"}, []string{"resource"})
		if view.applies(p) != no {
			return true
		}
	}
	return false
}

// inScope evaluates a scope clause for one entity.
func (d *directory) inScope(uid types.EntityUID, scope scopeNode) bool {
	in := func(e types.EntityUID) bool { return uid == e || slices.Contains(d.ancestors[uid], e) }
	switch s := scope.(type) {
	case scopeEq:
		return uid == s.Entity
	case scopeIn:
		return in(s.Entity)
	case scopeInSet:
		return slices.ContainsFunc(s.Entities, in)
	case scopeIs:
		return uid.Type == s.Type
	case scopeIsIn:
		return uid.Type == s.Type && in(s.Entity)
	default:
		return true
	}
}
