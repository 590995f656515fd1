package archtest

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"

	"palyra/internal/core/must"
)

// TestDependenciesAreExplained compares the go.mod of the product and of its packaging, and the
// package.json files of the console and of Node, with the tables of RATIONALE.md. The tables have the purpose and the licence of every direct
// dependency.
func TestDependenciesAreExplained(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile("../../RATIONALE.md"))(t)
	rows := make(map[string]bool)
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]+`) \\| [A-Z][^|]+ \\| [^|]{10,} \\|$").FindAllStringSubmatch(string(text), -1) {
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			rows[name[1]] = true
		}
	}
	required := make(map[string]bool)
	for where, names := range map[string][]string{"go.mod": goModules(t, "go.mod"), "packaging/go.mod": goModules(t, "packaging/go.mod"), "web/package.json": npmPackages(t, "web"), "scripts/node/package.json": npmPackages(t, "scripts/node")} {
		for _, name := range names {
			if !rows[name] {
				t.Errorf("%s requires %s: give it a row in a table of RATIONALE.md, with licence, what for and why this one", where, name)
			}
			required[name] = true
		}
	}
	for name := range rows {
		if !required[name] {
			t.Errorf("RATIONALE.md explains %s, which neither a go.mod nor a package.json requires directly: remove the row", name)
		}
	}
}

func goModules(t *testing.T, name string) []string {
	t.Helper()
	mod, err := os.ReadFile("../../" + name)
	must.Do(t, err)
	parsed, err := modfile.Parse(name, mod, nil)
	must.Do(t, err)
	var names []string
	for _, r := range parsed.Require {
		if !r.Indirect {
			names = append(names, r.Mod.Path)
		}
	}
	return names
}

func npmPackages(t *testing.T, folder string) []string {
	t.Helper()
	text := must.Get(os.ReadFile("../../" + folder + "/package.json"))(t)
	var file struct {
		Dependencies, DevDependencies, OptionalDependencies map[string]string
	}
	must.Do(t, json.Unmarshal(text, &file))
	var names []string
	for _, group := range []map[string]string{file.Dependencies, file.DevDependencies, file.OptionalDependencies} {
		for name := range group {
			names = append(names, name)
		}
	}
	return names
}

// TestMapIsWritten compares the tree with the map of CONTRIBUTING.md.
func TestMapIsWritten(t *testing.T) {
	t.Parallel()
	tree, err := Load("../..")
	must.Do(t, err)
	text, err := os.ReadFile("../../CONTRIBUTING.md")
	must.Do(t, err)
	written := make(map[string]bool)
	for _, match := range regexp.MustCompile("(?m)^\\| `((?:cmd|internal)/[a-z-]+)/` \\|").FindAllStringSubmatch(string(text), -1) {
		if written[match[1]] {
			t.Errorf("CONTRIBUTING.md has two lines for %s/", match[1])
		}
		written[match[1]] = true
	}
	for _, dir := range undocumentedPackages(tree, written) {
		t.Errorf("CONTRIBUTING.md has no line for %s/", dir)
	}
	delete(written, "internal/call")
	if missing := undocumentedPackages(tree, written); len(missing) == 0 && tree.Packages["internal/call"] != nil {
		t.Error("a room without a line is not found")
	}
}

func undocumentedPackages(tree *Tree, written map[string]bool) []string {
	var missing []string
	for _, p := range tree.Sorted() {
		parts := strings.Split(p.Dir, "/")
		if parts[0] != "cmd" && parts[0] != "internal" {
			continue
		}
		if dir := top(p.Dir); !written[dir] && !slices.Contains(missing, dir) {
			missing = append(missing, dir)
		}
	}
	return missing
}
