//go:build linux

package attack

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestDocumentedAttackCounts: every number of attacks in a document equals the number in the
// catalogue. A complete run fails if an attack of the catalogue was not tried.
func TestDocumentedAttackCounts(t *testing.T) {
	t.Parallel()
	rows := len(catalogue())
	names, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(names) == 0 {
		t.Fatalf("there are no documents: %v", err)
	}
	for _, name := range append(names, "../../README.md", "../../CHANGELOG.md", "../../SECURITY.md") {
		text := read(t, name)
		stated := statedRows(text)
		for _, n := range stated {
			if n != rows {
				t.Errorf("%s states %d attacks, and there are %d", name, n, rows)
			}
		}
		if filepath.Base(name) == "README.md" && len(stated) == 0 {
			t.Errorf("the README does not state the %d attacks", rows)
		}
	}
}

var (
	numberOfRows = regexp.MustCompile(`([0-9][0-9,]*)\s+(?:attacks|rows)\b`)
	aboutRows    = regexp.MustCompile(`make attack|test/attack`)
)

// statedRows returns the numbers of attacks in paragraphs and list items about this suite.
func statedRows(text string) (stated []int) {
	for part := range strings.SplitSeq(strings.ReplaceAll(text, "\n- ", "\n\n- "), "\n\n") {
		if !aboutRows.MatchString(part) {
			continue
		}
		for _, m := range numberOfRows.FindAllStringSubmatch(part, -1) {
			n, _ := strconv.Atoi(strings.ReplaceAll(m[1], ",", ""))
			stated = append(stated, n)
		}
	}
	return stated
}

// TestDocumentedAttackCountsAreFound is the control: statedRows finds each notation of a
// number.
func TestDocumentedAttackCountsAreFound(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"- `make attack` tries 7 attacks.":                    "7",
		"one\n\n`test/attack` holds\n1,234 rows, all denied.": "1234",
		"- `test/attack`:\n  5 attacks, and 6 rows":           "5 6",
		"- a table of 3 rows\n- `make attack` is a command":   "",
		"`make attack` takes 5 minutes":                       "",
	} {
		var got []string
		for _, n := range statedRows(text) {
			got = append(got, strconv.Itoa(n))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q states %q, want %q", text, got, want)
		}
	}
}
