package main

import (
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"palyra/internal/core/lazyregexp"
)

// table collects the rows of a Markdown table.
type table struct{ b strings.Builder }

func newTable(headings ...string) *table {
	t := &table{}
	t.row(headings...)
	t.row(strings.Split(strings.Repeat("--- ", len(headings)-1)+"---", " ")...)
	return t
}

func (t *table) row(cells ...string) {
	for _, c := range cells {
		t.b.WriteString("| ")
		if c != "" {
			t.b.WriteString(strings.ReplaceAll(c, "|", `\|`) + " ")
		}
	}
	t.b.WriteString("|\n")
}

func (t *table) String() string { return t.b.String() }

var documentName = lazyregexp.New(`\bdocs/((?:[a-z]+/)?([a-z-]+)\.md)`)

// linked turns names of documents, such as docs/egress.md, into links relative to directory.
func linked(text string) string {
	return documentName.ReplaceAllStringFunc(text, func(name string) string {
		m := documentName.FindStringSubmatch(name)
		target := "../" + m[1]
		if path.Dir(name) == directory {
			target = path.Base(name)
		}
		return "[" + m[2] + "](" + target + ")"
	})
}

// capital begins a text with a capital letter.
func capital(text string) string {
	r, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(r)) + text[size:]
}
