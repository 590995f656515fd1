package expr

import (
	"slices"
	"strings"
	"unicode"
)

// maxCondition is the longest text of a condition, in characters.
const maxCondition = 300

// ConditionText returns the source text of the policy's clauses on one line and without
// comments. It includes the conjuncts for which keep returns true, or all if keep is nil, and
// omits empty clauses.
func (c *Policy) ConditionText(keep func([]Token) bool) string {
	var clauses []string
	for _, start := range c.clauseStarts() {
		body := clauseBody(c.Tokens[start+1:])
		var parts []string
		for _, part := range conjuncts(body) {
			if keep == nil || keep(part) {
				parts = append(parts, sourceOf(part))
			}
		}
		if len(parts) > 0 {
			clauses = append(clauses, c.Tokens[start].Text+" { "+strings.Join(parts, " && ")+" }")
		}
	}
	return Clip(strings.Join(clauses, " "))
}

// clauseBody returns the tokens between the braces that a clause begins with.
func clauseBody(tokens []Token) []Token {
	depth := 0
	for i, t := range tokens {
		if depth += nesting(t); depth == 0 {
			return tokens[min(1, i):i]
		}
	}
	return nil
}

// conjuncts splits an expression at each top-level &&. An expression with a top-level || or if
// is not a conjunction, because these operators bind more weakly.
func conjuncts(body []Token) [][]Token {
	var parts [][]Token
	depth, start := 0, 0
	for i, t := range body {
		depth += nesting(t)
		switch {
		case depth > 0:
		case t.Kind == tokPunct && t.Text == "||", t.Kind == TokIdent && t.Text == "if":
			return [][]Token{body}
		case t.Kind == tokPunct && t.Text == "&&":
			parts = append(parts, body[start:i])
			start = i + 1
		}
	}
	return append(parts, body[start:])
}

// ReadsApproval reports whether an expression contains context.approval, in either notation.
func ReadsApproval(part []Token) bool {
	for i := range part {
		rest := part[i:]
		if len(rest) < 3 || rest[0].Kind != TokIdent || rest[0].Text != "context" {
			continue
		}
		if rest[1].Text == "." && rest[2].Text == "approval" || rest[1].Text == "[" && rest[2].Unquoted() == "approval" {
			return true
		}
	}
	return false
}

// sourceOf returns the source text of tokens, with each white space replaced by one space.
func sourceOf(tokens []Token) string {
	var b strings.Builder
	for i, t := range tokens {
		if i > 0 && t.Offset > tokens[i-1].End() {
			b.WriteByte(' ')
		}
		b.WriteString(t.Text)
	}
	return b.String()
}

// Clip keeps a text to one line and maxCondition characters.
func Clip(text string) string {
	runes := []rune(text)
	if len(runes) > maxCondition {
		runes = append(runes[:maxCondition-3], []rune("...")...)
	}
	for i, r := range runes {
		if unicode.IsControl(r) {
			runes[i] = ' ' // a string may span lines
		}
	}
	return string(slices.Clip(runes))
}
