package lint

import (
	"slices"
	"strings"

	"palyra/internal/call/policy/finding"
	"palyra/internal/call/policy/internal/entities"
	"palyra/internal/call/policy/internal/expr"
	"palyra/internal/call/policy/internal/names"
	"palyra/internal/core/access"
)

// checkActions finds policies about actions of the vocabulary that this release never performs,
// such as Action::"channel.send". An author may rely on a forbid for such an action.
func checkActions(p *expr.Policy) []finding.Finding {
	if p.Builtin {
		return nil
	}
	var findings []finding.Finding
	_, named := entities.ScopeActions(p.AST.Action)
	for _, action := range named {
		if !performed(string(action.ID)) {
			f := p.Start(finding.SeverityWarning, finding.CodeNotPerformed, "nothing in this release does %s, so the policy decides nothing about it", action)
			f.Help = "keep it if it is written ahead; what runs a tool is `action in Action::\"tool.execute\"`"
			findings = append(findings, f)
		}
	}
	return findings
}

// performed reports whether an action, or a member of a group such as "journal.*", is ever
// evaluated.
func performed(action string) bool {
	family, group := strings.CutSuffix(action, "*")
	return action == "tool.execute" || strings.HasPrefix(action, "tool.execute/") || action == names.CommitAction || action == names.InjectAction || action == names.SkillAction ||
		slices.ContainsFunc(access.Permissions, func(p access.Permission) bool {
			return string(p) == action || group && strings.HasPrefix(string(p), family)
		})
}
