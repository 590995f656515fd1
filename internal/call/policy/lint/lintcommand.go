package lint

import (
	"slices"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/call/policy/finding"
	"palyra/internal/call/policy/internal/expr"
)

// checkCommandLine finds comparisons of command lines that match more, or less, than they seem
// to. Only a comparison that allows, and that names a whole line, restricts the program.
func checkCommandLine(p *expr.Policy) []finding.Finding {
	var findings []finding.Finding
	walkSenses(p, func(t *expr.Tree, s sense) {
		message, help := commandLineTrouble(t, s)
		if message == "" {
			return
		}
		f := p.At(t.At, finding.SeverityWarning, finding.CodeCommandLine, "%s", message)
		f.Help = help
		findings = append(findings, f)
	})
	return findings
}

// commandLineTrouble returns the problem of a comparison of a command line and the remedy, or
// "".
func commandLineTrouble(t *expr.Tree, s sense) (message, help string) {
	like, isLike := t.Node.(expr.NodeLike)
	switch t.Node.(type) {
	case expr.NodeLike, expr.NodeEqual, expr.NodeNotEqual:
	default:
		return "", ""
	}
	if !slices.ContainsFunc(t.Kids, isCommandLine) {
		return "", ""
	}
	whole := "compare context.exec.line with == and a whole line"
	switch {
	case s.refuses:
		return "another line escapes this: an option more, another name for the program, or a script does the same",
			"permit the commands that may run instead of forbidding others: a command without a permit needs approval"
	case isLike && startsWild(like.Value):
		return "this holds for any program, also for a shell that has the text in its code: bash -c 'npm test; rm -rf src'", whole
	case isLike && hasWild(like.Value):
		return "the wildcard also matches further arguments and quoted text: npm test --script-shell=./x", whole
	}
	return "", ""
}

func isCommandLine(t *expr.Tree) bool {
	return slices.Equal(t.Chain(), []string{"context", "exec", "line"})
}

func isWild(part any) bool {
	_, wild := part.(types.Wildcard)
	return wild
}

func startsWild(pattern types.Pattern) bool {
	parts := expr.PatternParts(pattern)
	return len(parts) > 0 && isWild(parts[0])
}

func hasWild(pattern types.Pattern) bool {
	return slices.ContainsFunc(expr.PatternParts(pattern), isWild)
}
