package archtest

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

// TestDependenciesAreExplained holds go.mod and the table of RATIONALE.md
// together: every direct module says what for, why and under which licence.
func TestDependenciesAreExplained(t *testing.T) {
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := modfile.Parse("go.mod", mod, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../RATIONALE.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := make(map[string]bool)
	for _, match := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| [A-Z][^|]+ \\| [^|]{10,} \\|$").FindAllStringSubmatch(string(text), -1) {
		rows[match[1]] = true
	}
	for _, r := range parsed.Require {
		if r.Indirect {
			continue
		}
		if !rows[r.Mod.Path] {
			t.Errorf("go.mod requires %s: give it a row in the table of RATIONALE.md, with licence, what for and why this one", r.Mod.Path)
		}
		delete(rows, r.Mod.Path)
	}
	for path := range rows {
		t.Errorf("RATIONALE.md explains %s, which go.mod does not require directly: remove the row", path)
	}
}

// TestMapIsWritten holds the tree and the map of CONTRIBUTING.md together.
func TestMapIsWritten(t *testing.T) {
	tree, err := Load("../..")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	written := make(map[string]bool)
	for _, match := range regexp.MustCompile("(?m)^\\| `((?:cmd|internal)/[a-z-]+)/` \\|").FindAllStringSubmatch(string(text), -1) {
		written[match[1]] = true
	}
	for _, dir := range unwritten(tree, written) {
		t.Errorf("CONTRIBUTING.md has no line for %s/", dir)
	}
	delete(written, "internal/policy")
	if missing := unwritten(tree, written); len(missing) == 0 && tree.Packages["internal/policy"] != nil {
		t.Error("a room without a line is not found")
	}
}

func unwritten(tree *Tree, written map[string]bool) []string {
	var missing []string
	for _, p := range tree.Sorted() {
		parts := strings.Split(p.Dir, "/")
		top := parts[0] == "cmd" || parts[0] == "internal"
		if top && len(parts) == 2 && !written[p.Dir] {
			missing = append(missing, p.Dir)
		}
	}
	return missing
}
