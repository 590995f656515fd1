package policy

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/workspace"
)

// checkSpelling finds comparisons of paths that do not do what they seem to: a
// forbid that another spelling of the same file escapes, and a text that is not
// as context.path_folded is, so that none equals it.
func (l *linter) checkSpelling(p *compiled) []Finding {
	var findings []Finding
	for _, cond := range p.conditions() {
		cond.body.walk(func(t *tree) bool {
			if slices.ContainsFunc(comparedTexts(t, "path_folded"), unfolded) {
				f := p.at(t.at, SeverityWarning, CodePathSpelling, "context.path_folded is never written like this, with case and Unicode not folded")
				f.Help = p.spellingHelp(t)
				findings = append(findings, f)
			}
			if !p.permits() && slices.ContainsFunc(comparedTexts(t, "path"), hasLetters) {
				f := p.at(t.at, SeverityWarning, CodePathSpelling,
					"another spelling escapes this: a file system that folds case, or normalizes names, finds the same file under it")
				f.Help = p.spellingHelp(t)
				findings = append(findings, f)
			}
			return true
		})
	}
	return findings
}

func unfolded(text string) bool { return workspace.FoldCase(text) != text }

// hasLetters reports whether a text has anything of which there can be another
// spelling.
func hasLetters(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsMark(r) || unicode.SimpleFold(r) != r
	})
}

// comparedTexts returns the literal texts with which an operation compares an
// attribute of the context, of a pattern the parts between its wildcards.
func comparedTexts(t *tree, name string) []string {
	switch n := t.node.(type) {
	case nodeLike:
		if holdsPlace(t.kids[0], name) {
			return patternTexts(n.Value)
		}
	case nodeEqual, nodeNotEqual, nodeContains, nodeContainsAll, nodeContainsAny:
		if holdsPlace(t.kids[0], name) || holdsPlace(t.kids[1], name) {
			return append(literalTexts(t.kids[0]), literalTexts(t.kids[1])...)
		}
	}
	return nil
}

// holdsPlace reports whether an expression is an attribute of the context, or
// has it as an element.
func holdsPlace(t *tree, name string) bool {
	return slices.Equal(t.chain(), []string{"context", name}) ||
		slices.ContainsFunc(elementsOf(t), func(k *tree) bool { return holdsPlace(k, name) })
}

// literalTexts returns the texts that an expression is, or has as elements.
func literalTexts(t *tree) []string {
	if v, ok := t.node.(nodeValue); ok {
		if text, ok := v.Value.(types.String); ok {
			return []string{string(text)}
		}
	}
	var out []string
	for _, k := range elementsOf(t) {
		out = append(out, literalTexts(k)...)
	}
	return out
}

// elementsOf returns the expressions of which the value of another is made.
func elementsOf(t *tree) []*tree {
	switch t.node.(type) {
	case nodeSet, nodeRecord:
		return t.kids
	case nodeIf:
		return t.kids[1:]
	}
	return nil
}

// patternTexts returns what stands between the wildcards of a pattern.
func patternTexts(pattern types.Pattern) []string {
	var out []string
	for _, part := range patternParts(pattern) {
		if text, ok := part.(types.String); ok {
			out = append(out, string(text))
		}
	}
	return out
}

// patternParts takes a pattern apart, into what types.NewPattern makes one of.
func patternParts(pattern types.Pattern) []any {
	text, err := json.Marshal(pattern)
	var parts []json.RawMessage
	if err != nil || json.Unmarshal(text, &parts) != nil {
		return nil
	}
	var out []any
	for _, part := range parts {
		var literal struct{ Literal string }
		if json.Unmarshal(part, &literal) == nil {
			out = append(out, types.String(literal.Literal))
		} else {
			out = append(out, types.Wildcard{})
		}
	}
	return out
}

// spellingHelp is the comparison as it has to be written: with the folded path,
// and folded texts.
func (c *compiled) spellingHelp(t *tree) string {
	if t.to == 0 {
		return "compare context.path_folded with a text in small letters"
	}
	tokens, _ := tokenize(c.source.text[t.from:t.to])
	folded := foldedTexts(t)
	like, isLike := t.node.(nodeLike)
	var b strings.Builder
	for i, one := range tokens {
		if i > 0 && one.offset > tokens[i-1].end() {
			b.WriteByte(' ')
		}
		text, isText := folded[t.from+one.offset]
		switch {
		case isText:
			b.WriteString(text)
		case isLike && one.kind == tokString && i == len(tokens)-1:
			b.WriteString(foldedPattern(like.Value))
		case namesPath(tokens[:i+1]):
			b.WriteString(strings.Replace(one.text, "path", "path_folded", 1))
		default:
			b.WriteString(one.text)
		}
	}
	return "write `context has path_folded && " + clipCondition(b.String()) + "`"
}

// namesPath reports whether the last of some tokens names context.path, in
// either way to write it.
func namesPath(tokens []token) bool {
	if len(tokens) < 3 {
		return false
	}
	last := tokens[len(tokens)-3:]
	return last[0].text == "context" && last[2].unquoted() == "path" && (last[1].text == "." || last[1].text == "[")
}

// foldedTexts returns the literal texts of a comparison as they have to be
// written, by where they stand in the source.
func foldedTexts(t *tree) map[int]string {
	out := make(map[int]string)
	t.walk(func(k *tree) bool {
		if v, ok := k.node.(nodeValue); ok {
			if text, ok := v.Value.(types.String); ok {
				out[k.at.offset] = string(types.String(workspace.FoldCase(string(text))).MarshalCedar())
			}
		}
		return true
	})
	return out
}

func foldedPattern(pattern types.Pattern) string {
	parts := patternParts(pattern)
	for i, part := range parts {
		if text, ok := part.(types.String); ok {
			parts[i] = types.String(workspace.FoldCase(string(text)))
		}
	}
	return string(types.NewPattern(parts...).MarshalCedar())
}
