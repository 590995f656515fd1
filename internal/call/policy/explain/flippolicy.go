package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/call/policy"
	"palyra/internal/call/policy/finding"
	"palyra/internal/call/policy/internal/expr"
	"palyra/internal/call/policy/internal/names"
	"palyra/internal/core/tool"
)

// dropPolicy returns the change that removes a policy of an operator. Embedded policies cannot
// be removed.
func dropPolicy(p *expr.Policy) (change, bool) {
	return change{
		effort: effortPolicy, drop: p,
		say: fmt.Sprintf("remove or change the %s %s at %s:%d", expr.EffectWord(p.Permits()), p.ID, p.Source.Name, p.Line),
		step: Step{
			Kind: StepPolicy, Path: p.ID, Was: expr.EffectWord(p.Permits()), Becomes: ValueAbsent,
			File: p.Source.Name, Line: p.Line,
		},
	}, !p.Builtin
}

// suggestedName is the source name of a permit that an explanation adds.
const suggestedName = "(suggested)"

// addPermit returns the change that permits the caller this tool, or the commit. A sensitive
// tool is permitted with an approval, unless the call must run without one. A permit for a
// program names its network.
func (f *search) addPermit() (change, bool) {
	r, uid := f.from.Request, names.UID(f.from.Request.Caller.Principal)
	action, what := types.String(names.ToolPrefix+r.Tool), "this tool may run"
	d := descriptor(f.view, r.Tool)
	sensitive := d.Sensitive()
	if r.Commit != nil {
		action, what = names.CommitAction, "these changes may be committed"
		sensitive = len(r.Commit.Protected)+len(r.Commit.Classes) > 0
	}
	if r.Injection != nil {
		action, what, sensitive = names.InjectAction, "a program may get the secret", true
	}
	gate := f.verdict.SkillGate()
	barred := gate != nil && !gate.Allowed
	if barred {
		uid, action, sensitive = names.UID(gate.Caller), names.SkillAction, false
	}
	text := fmt.Sprintf("permit(principal == %s, action == %s, resource)", uid, types.NewEntityUID(names.TypeAction, action))
	var when []string
	if r.Commit == nil && r.Injection == nil && !barred && slices.Contains(d.Capabilities, tool.ProcessExec) {
		network := `context.egress.mode != "none"`
		if r.Facts.EgressMode == "none" {
			network = `context.egress.mode == "none"`
		}
		when = append(when, network)
	}
	switch {
	case sensitive && f.goal == policy.Allow, r.Commit != nil && !sensitive:
		text = fmt.Sprintf("@waives(\"approval: decide whether %s with no human\") %s", what, text)
	case sensitive:
		when = append(when, "context.approval.granted")
	}
	if len(when) > 0 {
		text += " when { " + strings.Join(when, " && ") + " }"
	}
	text += ";"
	parsed, findings := expr.Parse(suggestedName, text+"\n", false)
	if finding.HasErrors(findings) || len(parsed) != 1 {
		return change{}, false
	}
	return change{
		effort: effortPolicy, add: parsed[0],
		say:  "add a permit: " + expr.Clip(text),
		step: Step{Kind: StepPolicy, Path: parsed[0].ID, Was: ValueAbsent, Becomes: text},
	}, true
}
