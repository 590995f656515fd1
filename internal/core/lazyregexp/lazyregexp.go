// Package lazyregexp compiles regular expressions at their first use. palyra and palyrad link many
// regular expressions and use few of them in a run. Compiling all of them was the longest step
// before main.
package lazyregexp

import (
	"regexp"
	"sync"
)

// Regexp is a regular expression with the methods of regexp.Regexp.
type Regexp struct {
	text    string
	compile func() *regexp.Regexp
}

// New returns the regular expression for a text. A text that does not compile causes a panic at
// its first use; internal/archtest compiles all texts.
func New(text string) *Regexp {
	return &Regexp{text, sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })}
}

// String returns the text.
func (r *Regexp) String() string { return r.compile().String() }

// MatchString reports whether s has a match.
func (r *Regexp) MatchString(s string) bool { return r.compile().MatchString(s) }

// FindStringIndex returns the start and end of the leftmost match in s, or nil.
func (r *Regexp) FindStringIndex(s string) []int { return r.compile().FindStringIndex(s) }

// FindStringSubmatch returns the leftmost match in s and its submatches, or nil.
func (r *Regexp) FindStringSubmatch(s string) []string { return r.compile().FindStringSubmatch(s) }

// FindAllStringSubmatch returns up to n matches in s with their submatches, or all if n is
// negative.
func (r *Regexp) FindAllStringSubmatch(s string, n int) [][]string {
	return r.compile().FindAllStringSubmatch(s, n)
}

// ReplaceAllStringFunc is regexp.Regexp.ReplaceAllStringFunc.
func (r *Regexp) ReplaceAllStringFunc(s string, replace func(string) string) string {
	return r.compile().ReplaceAllStringFunc(s, replace)
}
