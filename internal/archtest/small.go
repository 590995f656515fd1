package archtest

import (
	"fmt"
	"strings"
)

// smallPackage is the lowest number of lines of a package with one importer. A smaller package
// should be a file of its importer.
const smallPackage = 100

// small lists packages with one importer that have fewer lines, each with its reason.
var small = map[string]string{
	"internal/call/policy/profile":    "it embeds files that the policy engine must not link",
	"internal/exec/builtin/pure":      "CheckPure restricts the imports of this whole package, so that its code cannot have side effects",
	"internal/ops/socket":             "a process takes over the sockets of a service manager once, before it opens listeners",
	"internal/surface/console/assets": "a build tag decides whether the pages are embedded",
	"internal/vault/kek/dpapi":        "it contains the system calls of Windows, and the unsafe code that they need",
}

// CheckSmall finds packages that are too small: fewer lines than smallPackage, and one importer.
func CheckSmall(t *Tree) []Finding { return smallPackages(t, small) }

func smallPackages(t *Tree, allowed map[string]string) []Finding {
	lines, importers := make(map[string]int), make(map[string]int)
	for _, p := range t.Sorted() {
		seen := make(map[string]bool)
		for _, f := range p.Files {
			if f.Test {
				continue
			}
			lines[p.Dir] += t.Fset.Position(f.Syntax.FileEnd).Line
		}
		for _, imported := range p.Imports() {
			if dir, ok := own(imported); ok && !seen[dir] {
				seen[dir] = true
				importers[dir]++
			}
		}
	}
	var out []Finding
	found := make(map[string]bool)
	for _, p := range t.Sorted() {
		if !strings.HasPrefix(p.Dir, "internal/") || testSupport(p.Dir) || lines[p.Dir] >= smallPackage || importers[p.Dir] != 1 {
			continue
		}
		found[p.Dir] = true
		if allowed[p.Dir] == "" {
			out = append(out, Finding{p.Dir, fmt.Sprintf("has %d lines and one importer; move it into the importer, or add its reason to archtest", lines[p.Dir])})
		}
	}
	for dir := range allowed {
		if !found[dir] && t.Packages[dir] != nil {
			out = append(out, Finding{dir, "is not a small package with one importer; remove the exception"})
		}
	}
	return out
}
