package lint

import (
	"slices"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/policy/finding"
	"palyra/internal/policy/internal/expr"
)

// checkCommandLine finds comparisons of command lines that hold for more, or for
// less, than they seem to. Only a permit that names a whole line says what runs.
func checkCommandLine(p *expr.Policy) []finding.Finding {
	var findings []finding.Finding
	for _, cond := range p.Conditions() {
		if !cond.When {
			continue
		}
		cond.Body.Walk(func(t *expr.Tree) bool {
			like, isLike := t.Node.(expr.NodeLike)
			_, isEqual := t.Node.(expr.NodeEqual)
			if !isLike && !isEqual || !slices.ContainsFunc(t.Kids, isCommandLine) {
				return true
			}
			message, help := "", "compare context.exec.line with == and a whole line"
			switch {
			case !p.Permits():
				message = "another line escapes this: an option more, another name for the program, or a script does the same"
				help = "permit what may run in place of forbidding what may not: what nobody permits asks"
			case isLike && startsWild(like.Value):
				message = "this holds for any program, also for a shell that has the text in its code: bash -c 'npm test; rm -rf src'"
			case isLike && hasWild(like.Value):
				message = "the wildcard stands for more arguments, too, and for what is in quotes: npm test --script-shell=./x"
			default:
				return true
			}
			f := p.At(t.At, finding.SeverityWarning, finding.CodeCommandLine, "%s", message)
			f.Help = help
			findings = append(findings, f)
			return true
		})
	}
	return findings
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
