package lint

import (
	"slices"
	"strings"

	"palyra/internal/call/policy"
	"palyra/internal/call/policy/finding"
	"palyra/internal/call/policy/internal/entities"
	"palyra/internal/call/policy/internal/expr"
	"palyra/internal/call/policy/internal/names"
	"palyra/internal/core/tool"
)

// The tools that run programs: one named program, or the programs of a shell line.
const (
	runsOne   = "process.run"
	runsLines = "shell.run"
)

// checkLines finds rules that restrict programs of process.run without covering shell lines,
// which can run the same program.
func checkLines(view policy.View) []finding.Finding {
	if !slices.ContainsFunc(view.Config().Tools, func(d tool.Descriptor) bool { return d.Name == runsLines }) {
		return nil
	}
	var findings []finding.Finding
	for _, p := range view.Policies() {
		switch {
		case p.Builtin:
		case namesTool(p, runsLines):
			return nil
		case !p.Permits() && namesTool(p, runsOne):
			f := p.Start(finding.SeverityWarning, finding.CodeShellLeftOut, "this holds back programs of %s, and no policy says anything about %s, which runs programs, too", runsOne, runsLines)
			f.Help = "name both, `action in [Action::\"tool.execute/process.run\", Action::\"tool.execute/shell.run\"]`, or forbid shell.run"
			findings = append(findings, f)
		}
	}
	return findings
}

// among lists the sets of a call that an allowing rule must list completely. The value is an
// example of a line with further elements, which an incomplete rule would allow.
var among = map[string]string{
	"context.shell.commands": "ls; rm -r src", "context.shell.subcommands": "ls; rm -r src", "context.shell.lines": "ls; rm -r src", "context.shell.origins": "ls; rm -r src",
	"context.exec.env": "GOOS=linux GOROOT=./go", "context.exec.starts": "find . -exec ls {} + -exec rm {} +",
}

// checkAmong finds rules that allow a call because its commands or variables include a value,
// regardless of the other elements.
func checkAmong(p *expr.Policy) []finding.Finding {
	var findings []finding.Finding
	walkSenses(p, func(t *expr.Tree, s sense) {
		switch t.Node.(type) {
		case expr.NodeContains, expr.NodeContainsAll, expr.NodeContainsAny:
		default:
			return
		}
		set := strings.Join(t.Kids[0].Chain(), ".")
		example := among[set]
		if !s.grants || example == "" {
			return
		}
		f := p.At(t.At, finding.SeverityWarning, finding.CodeCommandLine, "this holds for every line that has it among others: %s", example)
		f.Help = "list all that may be there: [...].containsAll(" + set + ")"
		findings = append(findings, f)
	})
	return findings
}

func namesTool(p *expr.Policy, name string) bool {
	_, actions := entities.ScopeActions(p.AST.Action)
	for _, action := range actions {
		if string(action.ID) == names.ToolPrefix+name {
			return true
		}
	}
	return false
}
