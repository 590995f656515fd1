package archtest

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"
)

// These are the bounds of the documents, see CONTRIBUTING.md, "Language".
const (
	guideLines     = 150
	documentWidth  = 100
	writtenWords   = 80_000
	rationaleItems = 60
)

// longGuides are documents with more than guideLines lines, with their bounds and reasons.
var longGuides = map[string]int{
	"docs/threat-model.md":          200, // one table of threats
	"docs/policy-recipes.md":        200, // complete policies, which tests run
	"docs/policy-recipes-tested.md": 300, // complete policies with their tests
	"CHANGELOG.md":                  80,
	"RATIONALE.md":                  1200, // bounded by rationaleItems
	"CONTRIBUTING.md":               200,
}

// document is a hand-written Markdown file.
type document struct {
	// name is the path relative to the root of the repository, with slashes.
	name, text string
}

// documents reads the hand-written Markdown files of a repository: those at its root and in docs,
// without docs/reference.
func documents(root string) ([]document, error) {
	var list []document
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/format/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil {
			return nil, fmt.Errorf("listing documents: %w", err)
		}
		for _, file := range found {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, fmt.Errorf("reading a document: %w", err)
			}
			list = append(list, document{path.Join(path.Dir(pattern), filepath.Base(file)), string(text)})
		}
	}
	return list, nil
}

// CheckDocuments returns the documents that are too long or too wide, and links without a target.
func CheckDocuments(root string) ([]string, error) {
	list, err := documents(root)
	if err != nil {
		return nil, err
	}
	var problems []string
	words := 0
	for _, d := range list {
		words += len(strings.Fields(d.text))
		problems = append(problems, d.size()...)
		problems = append(problems, d.links(root)...)
	}
	if words > writtenWords {
		problems = append(problems, fmt.Sprintf("the documents have %d words, at most %d: shorten them, or generate reference pages", words, writtenWords))
	}
	return problems, nil
}

// size checks the number and the width of the lines. Specifications in docs/format may have any
// number of lines.
func (d document) size() []string {
	var problems []string
	bound, known := longGuides[d.name]
	if !known {
		bound = guideLines
	}
	lines := strings.Split(strings.TrimSuffix(d.text, "\n"), "\n")
	if path.Dir(d.name) != "docs/format" && len(lines) > bound {
		problems = append(problems, fmt.Sprintf("%s has %d lines, at most %d: shorten it, or split it by task", d.name, len(lines), bound))
	}
	if items := strings.Count(d.text, "\n### "); d.name == "RATIONALE.md" && items > rationaleItems {
		problems = append(problems, fmt.Sprintf("%s has %d decisions, at most %d: move one into a package comment", d.name, items, rationaleItems))
	}
	code := false
	for i, line := range lines {
		code = code != strings.HasPrefix(strings.TrimSpace(line), "```")
		text := strings.TrimSpace(line)
		wide := utf8.RuneCountInString(line) > documentWidth && strings.Contains(text, " ")
		if wide && !code && !strings.HasPrefix(text, "|") && !strings.HasPrefix(text, "<") && !strings.HasPrefix(line, "    ") && !strings.HasPrefix(text, "[") {
			problems = append(problems, fmt.Sprintf("%s:%d is wider than %d columns", d.name, i+1, documentWidth))
		}
	}
	return problems
}

var (
	fenced  = regexp.MustCompile("(?s)```.*?```")
	linkTo  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	linked  = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	dropped = regexp.MustCompile(`[^\w\- ]`)
)

// links returns the relative links of a document without a file or a heading.
func (d document) links(root string) []string {
	var problems []string
	prose := fenced.ReplaceAllString(d.text, "")
	for _, m := range linkTo.FindAllStringSubmatch(prose, -1) {
		if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
			continue
		}
		file, anchor, _ := strings.Cut(m[1], "#")
		target := d.name
		if file != "" {
			target = path.Join(path.Dir(d.name), file)
		}
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(target)))
		if _, statErr := os.Stat(filepath.Join(root, filepath.FromSlash(target))); statErr != nil {
			problems = append(problems, fmt.Sprintf("%s links to %s, which does not exist", d.name, m[1]))
		} else if anchor != "" && err == nil && !hasAnchor(string(text), anchor) {
			problems = append(problems, fmt.Sprintf("%s links to %s, which has no such heading", d.name, m[1]))
		}
	}
	return problems
}

// hasAnchor reports whether a heading has an anchor, as GitHub forms it.
func hasAnchor(text, anchor string) bool {
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		name := strings.ToLower(linked.ReplaceAllString(strings.ReplaceAll(m[1], "`", ""), "$1"))
		if strings.ReplaceAll(dropped.ReplaceAllString(name, ""), " ", "-") == anchor {
			return true
		}
	}
	return false
}
