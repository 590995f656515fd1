//go:build linux

package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"palyra/internal/core/must"
)

// excerpt is a block of a document that shows the output of a command: it starts with
// ```console. An empty line, or a line with only [...], stands for any number of lines. Within
// a line, [...] stands for any text.
type excerpt struct{ document, text string }

// excerptsOf returns the excerpts of README and docs.
func excerptsOf(t *testing.T) []excerpt {
	t.Helper()
	documents := append(must.Get(filepath.Glob(repository+"/docs/*.md"))(t), repository+"/README.md")
	var list []excerpt
	for _, name := range documents {
		rest := string(must.Get(os.ReadFile(name))(t))
		for {
			_, after, found := strings.Cut(rest, "\n```console\n")
			if !found {
				break
			}
			text, below, closed := strings.Cut(after, "\n```")
			if !closed {
				t.Fatalf("%s: a block is not closed", name)
			}
			list, rest = append(list, excerpt{filepath.Base(name), text}), below
		}
	}
	return list
}

// TestExcerptsAreCurrent: every command output in README and docs is current. It is the output
// of the demo, or of a command with the sample gateway of the golden tests.
func TestExcerptsAreCurrent(t *testing.T) {
	t.Parallel()
	sources := map[string]string{"the demo": string(demo(t, "allow"))}
	for _, name := range must.Get(filepath.Glob(repository + "/internal/cli/*/testdata/golden/*.table"))(t) {
		sources[filepath.Base(name)] = string(must.Get(os.ReadFile(name))(t))
	}
	if len(sources) < 10 {
		t.Fatalf("there are only %d goldens", len(sources))
	}
	list := excerptsOf(t)
	if len(list) < 4 {
		t.Errorf("README and docs have only %d excerpts", len(list))
	}
	for _, e := range list {
		shown := false
		for _, text := range sources {
			shown = shown || current(e.text, text) == nil
		}
		if !shown {
			t.Errorf("%s shows what nothing prints any more; in the demo it ends here: %v\n%s", e.document, current(e.text, sources["the demo"]), e.text)
		}
	}
}

// TestStaleExcerptsAreFound is the control of TestExcerptsAreCurrent.
func TestStaleExcerptsAreFound(t *testing.T) {
	t.Parallel()
	const printed = "$ palyra x\nrun 01M7XVP5HGBZBN8HC4NEQ8F18R: model a\nsecond\nthird, 35ms\n(exit code 3)\n"
	for text, want := range map[string]bool{
		"$ palyra x\nrun 01M7Y40CCJRZACQ204N3BEHDZV: model a\n[...]\nthird, 1.5s": true,
		"second\n\n(exit code 3)":         true,
		"$ palyra x\n[...]: model a":      true,
		"second\n(exit code 3)":           false, // a line is omitted without [...]
		"third, [...]\n\nsecond":          false, // another order
		"$ palyra x\n[...]\nexit code 3":  false, // only a part of a line
		"(exit code 4)":                   false,
		"run 01M7XVP5HGBZBN: model a":     false,
		"$ palyra x\n[...]\nthird, 35 MB": false,
	} {
		if err := current(text, printed); (err == nil) != want {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// varying lists the words that differ between runs, each with a pattern of its values.
var varying = []struct{ word, pattern string }{
	{`\[\.\.\.\]`, `.*`},
	{`[0-9A-HJKMNP-TV-Z]{26}`, `[0-9A-HJKMNP-TV-Z]{26}`}, // an id
	{`\b[0-9]+(?:\.[0-9]+)?m?s\b`, `[0-9.]+(?:ms|s|m[0-9]+s)`},
	{`\bjournal [0-9]+`, `journal [0-9]+`},
	{`\bevents +[0-9]+ \(1 to [0-9]+\)`, ` *events +[0-9]+ \(1 to [0-9]+\)`},
	{`\b[0-9]+ checkpoints?\b`, `[0-9]+ checkpoints?`}, // one per minute
	{`\b(?:line|sequence number) [0-9]+`, `(?:line|sequence number) [0-9]+`},
	{`\.cedar:[0-9]+`, `\.cedar:[0-9]+`},
	{`  +`, ` +`}, // columns are as wide as their content
}

// current returns an error with the line at which an excerpt differs from a text.
func current(excerpt, text string) error {
	pattern := `(?m)^`
	for line := range strings.Lines(excerpt) {
		line = strings.TrimSuffix(line, "\n")
		if word := strings.TrimSpace(line); word == "" || word == "[...]" {
			pattern += `(?:.*\n)*?`
			continue
		}
		pattern += linePattern(line) + `\n`
		if ok, err := regexp.MatchString(pattern, text); err != nil || !ok {
			return errors.Join(err, fmt.Errorf("%q is not there", line))
		}
	}
	return nil
}

// linePattern returns a pattern for lines that differ from the given one only in varying words.
func linePattern(line string) string {
	var words []string
	for _, v := range varying {
		words = append(words, "("+v.word+")")
	}
	any := regexp.MustCompile(strings.Join(words, "|"))
	var b strings.Builder
	last := 0
	for _, m := range any.FindAllStringSubmatchIndex(line, -1) {
		b.WriteString(regexp.QuoteMeta(line[last:m[0]]))
		for i, v := range varying {
			if m[2+2*i] >= 0 {
				b.WriteString(v.pattern)
			}
		}
		last = m[1]
	}
	b.WriteString(regexp.QuoteMeta(line[last:]))
	return b.String()
}
