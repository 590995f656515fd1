package main

import (
	"strings"

	"palyra/internal/core/lazyregexp"
)

// phrases are the phrases that well-kept Go projects rarely use.
var phrases = []phrase{
	{"what is/it/was/a ...", lazyregexp.New(`\bwhat (it|is|was|were|a|the|they|somebody|people)\b`), 5},
	{"that of / those of", lazyregexp.New(`\b(that|those) of\b`), 3},
	{"says so/what/which", lazyregexp.New(`\bsays? (so|what|which|who|how|why|no)\b`), 4},
	{"those that / who", lazyregexp.New(`\bthose (that|who)\b`), 3},
	{"nobody", lazyregexp.New(`\bnobody\b`), 2.5},
	{"somebody", lazyregexp.New(`\bsomebody\b`), 1},
	{"told", lazyregexp.New(`\btold\b`), 0.5},
	{"whoever / whatever", lazyregexp.New(`\b(whoever|whatever)\b`), 2},
	{"beside", lazyregexp.New(`\bbeside\b`), 0.5},
	{"anew / of before", lazyregexp.New(`\banew\b|\bof before\b`), 0.5},
	{"is no x", lazyregexp.New(`\b(?:is|are|was|were) no [a-z]\w*`), 4},
	{"to be had / there is none", lazyregexp.New(`\bto be had\b|\bthere is none\b`), 0.5},
}

// count returns how often a phrase occurs in a text in lower case. "is no longer" and "is no
// more" are plain English.
func (p phrase) count(text string) (n int) {
	for _, found := range p.pattern.FindAllStringSubmatch(text, -1) {
		if !strings.Contains(found[0], " no longer") && !strings.HasSuffix(found[0], " no more") {
			n++
		}
	}
	return n
}
