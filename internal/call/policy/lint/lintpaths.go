package lint

import (
	"slices"
	"strings"
	"unicode"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/call/policy/finding"
	"palyra/internal/call/policy/internal/expr"
	"palyra/internal/core/text"
)

// checkSpelling finds ineffective path comparisons. One kind refuses a path, so that another
// spelling of the same file evades it. The other compares context.path_folded with a text that
// is not in the folded form, so that it never matches. A list of allowed paths is correct, also
// in the unless of a forbid, because another spelling is not on the list.
func checkSpelling(p *expr.Policy) []finding.Finding {
	var findings []finding.Finding
	add := func(t *expr.Tree, message string) {
		f := p.At(t.At, finding.SeverityWarning, finding.CodePathSpelling, "%s", message)
		f.Help = spellingHelp(p, t)
		findings = append(findings, f)
	}
	walkSenses(p, func(t *expr.Tree, s sense) {
		if slices.ContainsFunc(comparedTexts(t, "path_folded"), unfolded) {
			add(t, "context.path_folded is never written like this, with case and Unicode not folded")
		}
		if s.refuses && slices.ContainsFunc(comparedTexts(t, "path"), hasLetters) {
			add(t, "another spelling escapes this: a file system that folds case, or normalizes names, finds the same file under it")
		}
	})
	return findings
}

func unfolded(content string) bool { return text.FoldCase(content) != content }

// hasLetters reports whether a text has characters with alternative spellings.
func hasLetters(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsMark(r) || unicode.SimpleFold(r) != r
	})
}

// comparedTexts returns the literal texts that an operation compares with an attribute of the
// context; for a pattern, the parts between its wildcards.
func comparedTexts(t *expr.Tree, name string) []string {
	switch n := t.Node.(type) {
	case expr.NodeLike:
		if holdsPlace(t.Kids[0], name) {
			return patternTexts(n.Value)
		}
	case expr.NodeEqual, expr.NodeNotEqual, expr.NodeContains, expr.NodeContainsAll, expr.NodeContainsAny:
		if holdsPlace(t.Kids[0], name) || holdsPlace(t.Kids[1], name) {
			return textsOf(append(expr.Literals(t.Kids[0]), expr.Literals(t.Kids[1])...))
		}
	}
	return nil
}

// holdsPlace reports whether an expression is an attribute of the context, or
// has it as an element.
func holdsPlace(t *expr.Tree, name string) bool {
	return slices.Equal(t.Chain(), []string{"context", name}) ||
		slices.ContainsFunc(expr.ElementsOf(t), func(k *expr.Tree) bool { return holdsPlace(k, name) })
}

func textsOf(literals []expr.Literal) []string {
	out := make([]string, len(literals))
	for i, l := range literals {
		out[i] = l.Text
	}
	return out
}

// patternTexts returns the texts between the wildcards of a pattern.
func patternTexts(pattern types.Pattern) []string {
	var out []string
	for _, part := range expr.PatternParts(pattern) {
		if text, ok := part.(types.String); ok {
			out = append(out, string(text))
		}
	}
	return out
}

// spellingHelp returns the corrected comparison: with the folded path, and folded texts.
func spellingHelp(c *expr.Policy, t *expr.Tree) string {
	if t.To == 0 {
		return "compare context.path_folded with a text in small letters"
	}
	tokens, _ := expr.Tokenize(c.Source.Text[t.From:t.To])
	folded := foldedTexts(t)
	like, isLike := t.Node.(expr.NodeLike)
	var b strings.Builder
	for i, one := range tokens {
		if i > 0 && one.Offset > tokens[i-1].End() {
			b.WriteByte(' ')
		}
		text, isText := folded[t.From+one.Offset]
		switch {
		case isText:
			b.WriteString(text)
		case isLike && one.Kind == expr.TokString && i == len(tokens)-1:
			b.WriteString(foldedPattern(like.Value))
		case namesPath(tokens[:i+1]):
			b.WriteString(strings.Replace(one.Text, "path", "path_folded", 1))
		default:
			b.WriteString(one.Text)
		}
	}
	return "write `context has path_folded && " + expr.Clip(b.String()) + "`"
}

// namesPath reports whether the last of some tokens names context.path, in either notation.
func namesPath(tokens []expr.Token) bool {
	if len(tokens) < 3 {
		return false
	}
	last := tokens[len(tokens)-3:]
	return last[0].Text == "context" && last[2].Unquoted() == "path" && (last[1].Text == "." || last[1].Text == "[")
}

// foldedTexts returns the folded literal texts of a comparison by their source position.
func foldedTexts(t *expr.Tree) map[int]string {
	out := make(map[int]string)
	t.Walk(func(k *expr.Tree) bool {
		if v, ok := k.Node.(expr.NodeValue); ok {
			if content, ok := v.Value.(types.String); ok {
				out[k.At.Offset] = string(types.String(text.FoldCase(string(content))).MarshalCedar())
			}
		}
		return true
	})
	return out
}

func foldedPattern(pattern types.Pattern) string {
	parts := expr.PatternParts(pattern)
	for i, part := range parts {
		if content, ok := part.(types.String); ok {
			parts[i] = types.String(text.FoldCase(string(content)))
		}
	}
	return string(types.NewPattern(parts...).MarshalCedar())
}
