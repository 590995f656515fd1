package check

import (
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/call/policy/finding"
	"palyra/internal/call/policy/internal/entities"
	"palyra/internal/call/policy/internal/expr"
	"palyra/internal/call/policy/internal/names"
	"palyra/internal/core/tool"
)

// checkWaives finds permits that could hold without an approval for a sensitive tool, for
// protected changes, or for a secret of a program. Such a permit must have the annotation
// @waives, so that approvals are not waived by accident.
func (c *checker) checkWaives(p *expr.Policy) []finding.Finding {
	tools, _ := c.scopes.reachesTools(p)
	tools = tools && c.unapproved(p) != expr.No
	commits := c.scopes.reaches(p, names.CommitAction) && c.unasked(p, names.CommitAction) != expr.No
	injects := c.scopes.reaches(p, names.InjectAction) && c.unasked(p, names.InjectAction) != expr.No
	waives := p.Permits() && (tools || commits || injects)
	switch {
	case waives && p.Notes.Waives == "":
		text := "the permit mentions neither context.approval nor resource.sensitive, so it waives approval"
		switch {
		case !tools && !commits:
			text = "the permit can hold for a program that gets an unapproved secret, so it waives approval"
		case !tools:
			text = "the permit can hold for unapproved protected changes, so it waives approval"
		case p.Mentions("context", "approval") || p.Mentions("resource", "sensitive"):
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
func (c *checker) unapproved(p *expr.Policy) expr.Truth {
	const name = "(any sensitive tool)"
	uid := types.NewEntityUID(names.TypeTool, name)
	view := &expr.Partial{
		Env: expr.Env{
			Entities: &entities.Overlay{Base: c.set.Entities.Entities, Extra: []types.Entity{{
				UID: uid, Attributes: types.NewRecord(types.RecordMap{"sensitive": types.True}),
			}}},
			Resource: uid,
			Context:  types.NewRecord(types.RecordMap{"approval": c.set.NoApproval}),
		},
		Known: expr.Prefixes([]string{"context", "approval"}, []string{"resource", "sensitive"}),
	}
	return view.Applies(p)
}

// unasked evaluates a policy for protected changes, or a secret for a program, without an
// approval.
func (c *checker) unasked(p *expr.Policy, action types.String) expr.Truth {
	view := &expr.Partial{
		Env: expr.Env{
			Entities: c.set.Entities.Entities, Action: types.NewEntityUID(names.TypeAction, action),
			Context: types.NewRecord(types.RecordMap{"approval": c.set.NoApproval}),
		},
		Known:  expr.Prefixes([]string{"action"}, []string{"context", "approval"}),
		Assume: someProtected,
	}
	return view.Applies(p)
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
func (c *checker) checkHostNetwork(p *expr.Policy) []finding.Finding {
	if !p.Permits() || p.ReadsText("none", "context", "egress", "mode") {
		return nil
	}
	for _, d := range c.set.Tools {
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
		if slices.ContainsFunc(tiers, func(tier string) bool { return c.onHostNetwork(p, d.Name, tier) != expr.No }) {
			f := p.Start(finding.SeverityError, finding.CodeHostNetwork, "the permit can hold for a program with the network of the host without naming it")
			f.Help = help
			return []finding.Finding{f}
		}
	}
	return nil
}

// onHostNetwork evaluates a policy for a call of a tool whose program has the network of the
// host, in a tier.
func (c *checker) onHostNetwork(p *expr.Policy, name, tier string) expr.Truth {
	action, uid := types.NewEntityUID(names.TypeAction, types.String(names.ToolPrefix+name)), types.NewEntityUID(names.TypeTool, types.String(name))
	if !slices.Contains(c.scopes.actionsOf(p), action) || !c.set.Entities.InScope(uid, p.AST.Resource) {
		return expr.No
	}
	view := &expr.Partial{
		Env: expr.Env{
			Entities: c.set.Entities.Entities, Action: action, Resource: uid,
			Context: types.NewRecord(types.RecordMap{
				"egress":  types.NewRecord(types.RecordMap{"mode": types.String("none")}),
				"sandbox": types.NewRecord(types.RecordMap{"tier": types.String(tier)}),
			}),
		},
		Known: expr.Prefixes([]string{"action"}, []string{"resource"}, []string{"context", "egress", "mode"}, []string{"context", "sandbox", "tier"}),
	}
	return view.Applies(p)
}
