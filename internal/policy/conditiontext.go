package policy

import (
	"slices"
	"strings"
	"unicode"
)

// maxCondition is the longest text of a condition, in characters.
const maxCondition = 300

// conditionText returns the policy's clauses in its own words, on one line and
// without comments: of each clause the conjuncts that keep admits, all with
// nil. A clause of which nothing is left is left out.
func (c *compiled) conditionText(keep func([]token) bool) string {
	var clauses []string
	for _, start := range c.clauseStarts() {
		body := clauseBody(c.tokens[start+1:])
		var parts []string
		for _, part := range conjuncts(body) {
			if keep == nil || keep(part) {
				parts = append(parts, sourceOf(part))
			}
		}
		if len(parts) > 0 {
			clauses = append(clauses, c.tokens[start].text+" { "+strings.Join(parts, " && ")+" }")
		}
	}
	return clipCondition(strings.Join(clauses, " "))
}

// clauseBody returns the tokens between the braces that a clause begins with.
func clauseBody(tokens []token) []token {
	depth := 0
	for i, t := range tokens {
		if depth += nesting(t); depth == 0 {
			return tokens[min(1, i):i]
		}
	}
	return nil
}

// nesting is 1 for an opening bracket, -1 for a closing one, else 0.
func nesting(t token) int {
	if t.kind != tokPunct {
		return 0
	}
	switch t.text {
	case "(", "{", "[":
		return 1
	case ")", "}", "]":
		return -1
	}
	return 0
}

// conjuncts cuts an expression at the && that are not inside anything else.
// One with an || or an if outside of brackets is no conjunction: those bind
// weaker.
func conjuncts(body []token) [][]token {
	var parts [][]token
	depth, start := 0, 0
	for i, t := range body {
		depth += nesting(t)
		switch {
		case depth > 0:
		case t.kind == tokPunct && t.text == "||", t.kind == tokIdent && t.text == "if":
			return [][]token{body}
		case t.kind == tokPunct && t.text == "&&":
			parts = append(parts, body[start:i])
			start = i + 1
		}
	}
	return append(parts, body[start:])
}

// readsApproval reports whether an expression has context.approval, in either
// way to write it.
func readsApproval(part []token) bool {
	for i := range part {
		rest := part[i:]
		if len(rest) < 3 || rest[0].kind != tokIdent || rest[0].text != "context" {
			continue
		}
		if rest[1].text == "." && rest[2].text == "approval" || rest[1].text == "[" && rest[2].unquoted() == "approval" {
			return true
		}
	}
	return false
}

// sourceOf writes tokens as they stood, with one space where there was any.
func sourceOf(tokens []token) string {
	var b strings.Builder
	for i, t := range tokens {
		if i > 0 && t.offset > tokens[i-1].end() {
			b.WriteByte(' ')
		}
		b.WriteString(t.text)
	}
	return b.String()
}

// clipCondition keeps a text to one line and maxCondition characters.
func clipCondition(text string) string {
	runes := []rune(text)
	if len(runes) > maxCondition {
		runes = append(runes[:maxCondition-3], []rune("...")...)
	}
	for i, r := range runes {
		if unicode.IsControl(r) {
			runes[i] = ' ' // a string may run over lines
		}
	}
	return string(slices.Clip(runes))
}
