package unified

import (
	"strconv"
	"strings"

	"palyra/internal/core/lazyregexp"
)

// Change is one parsed file of a diff.
type Change struct {
	// OldPath is "" for a new file, NewPath for a deleted one.
	OldPath, NewPath string
	// OldMode and NewMode are set if the mode changes.
	OldMode, NewMode string
	// Binary is true if no lines are included.
	Binary bool
	Hunks  []Hunk
}

// Hunk is a group of changed lines with their context. Line numbers start at 1.
type Hunk struct {
	OldStart, NewStart int
	Lines              []Line
}

// Line is a line of a hunk without its line end. Kind is ' ', '-' or '+'.
type Line struct {
	Kind byte
	Text string
	// NoNewline is true for a last line without a line break.
	NoNewline bool
}

var (
	header = lazyregexp.New(`^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@`)
	binary = lazyregexp.New(`^Binary files (.+) and (.+) differ`)
)

// Parse parses the output of Diff for several consecutive files. It skips text in any other form,
// so unrelated text yields nothing, and truncated text yields its complete part.
func Parse(diff string) []Change {
	p := parser{}
	for line := range strings.Lines(diff) {
		p.line(strings.TrimSuffix(line, "\n"))
	}
	return p.changes
}

// Filter returns the files of a diff that keep accepts. It omits comments (lines that begin
// with "# " between hunks), because they may be about any file.
func Filter(diff string, keep func(Change) bool) string {
	p := parser{}
	var texts []string
	for line := range strings.Lines(diff) {
		comment := p.olds == 0 && p.news == 0 && strings.HasPrefix(line, "# ")
		if p.line(strings.TrimSuffix(line, "\n")); comment || len(p.changes) == 0 {
			continue
		}
		if len(texts) < len(p.changes) {
			texts = append(texts, "")
		}
		texts[len(p.changes)-1] += line
	}
	var kept strings.Builder
	for i, c := range p.changes {
		if keep(c) {
			kept.WriteString(texts[i])
		}
	}
	return kept.String()
}

type parser struct {
	changes []Change
	// olds and news are the numbers of lines that remain in the hunk.
	olds, news int
}

func (p *parser) line(text string) {
	switch {
	case len(p.changes) > 0 && strings.HasPrefix(text, `\ `):
		p.markEnd()
	case p.olds > 0 || p.news > 0:
		p.inHunk(text)
	case strings.HasPrefix(text, "diff --git "):
		p.begin(strings.TrimPrefix(text, "diff --git "))
	case binary.MatchString(text):
		m := binary.FindStringSubmatch(text)
		p.changes = append(p.changes, Change{OldPath: pathOf(m[1], "a/"), NewPath: pathOf(m[2], "b/"), Binary: true})
	case len(p.changes) > 0:
		p.inHeader(&p.changes[len(p.changes)-1], text)
	}
}

// begin parses the two names in the first line of a file. Names in later lines take precedence.
func (p *parser) begin(names string) {
	c := Change{}
	if unquoted, err := strconv.QuotedPrefix(names); err == nil {
		c.OldPath = pathOf(unquoted, "a/")
		c.NewPath = pathOf(strings.TrimPrefix(names[len(unquoted):], " "), "b/")
	} else if half := len(names) / 2; len(names)%2 == 1 && names[half] == ' ' { // the same name twice
		c.OldPath, c.NewPath = pathOf(names[:half], "a/"), pathOf(names[half+1:], "b/")
	}
	p.changes = append(p.changes, c)
}

func (p *parser) inHeader(c *Change, text string) {
	word, rest, _ := strings.Cut(text, " ")
	switch {
	case strings.HasPrefix(text, "old mode "):
		c.OldMode = text[len("old mode "):]
	case strings.HasPrefix(text, "new mode "):
		c.NewMode = text[len("new mode "):]
	case strings.HasPrefix(text, "new file mode "):
		c.OldPath, c.NewMode = "", text[len("new file mode "):]
	case strings.HasPrefix(text, "deleted file mode "):
		c.NewPath, c.OldMode = "", text[len("deleted file mode "):]
	case strings.HasPrefix(text, "rename from "):
		c.OldPath = pathOf(text[len("rename from "):], "")
	case strings.HasPrefix(text, "rename to "):
		c.NewPath = pathOf(text[len("rename to "):], "")
	case word == "---":
		c.OldPath = pathOf(rest, "a/")
	case word == "+++":
		c.NewPath = pathOf(rest, "b/")
	case word == "@@":
		p.hunk(c, text)
	}
}

func (p *parser) hunk(c *Change, text string) {
	m := header.FindStringSubmatch(text)
	if m == nil {
		return
	}
	number := func(s string) int {
		if s == "" {
			return 1
		}
		n, _ := strconv.Atoi(s)
		return n
	}
	h := Hunk{OldStart: number(m[1]), NewStart: number(m[3])}
	p.olds, p.news = number(m[2]), number(m[4])
	c.Hunks = append(c.Hunks, h)
}

func (p *parser) inHunk(text string) {
	kind := byte(' ')
	if text != "" {
		kind, text = text[0], text[1:]
	}
	switch kind {
	case '+':
		p.news--
	case '-':
		p.olds--
	case ' ':
		p.olds, p.news = p.olds-1, p.news-1
	default: // truncated, or not a hunk
		p.olds, p.news = 0, 0
		return
	}
	c := &p.changes[len(p.changes)-1]
	h := &c.Hunks[len(c.Hunks)-1]
	h.Lines = append(h.Lines, Line{Kind: kind, Text: text})
}

func (p *parser) markEnd() {
	c := &p.changes[len(p.changes)-1]
	if len(c.Hunks) == 0 {
		return
	}
	if h := &c.Hunks[len(c.Hunks)-1]; len(h.Lines) > 0 {
		h.Lines[len(h.Lines)-1].NoNewline = true
	}
}

// pathOf decodes a name that quoted wrote.
func pathOf(text, prefix string) string {
	if text == "/dev/null" {
		return ""
	}
	if plain, err := strconv.Unquote(text); err == nil {
		text = plain
	}
	return strings.TrimPrefix(text, prefix)
}
