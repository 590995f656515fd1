package archtest

import (
	"fmt"
	"strings"
)

// smallPackage is how many lines a package with one importer has at least. A smaller one is
// usually a file of its importer.
const smallPackage = 100

// small lists packages with one importer that have fewer lines, each with its reason.
var small = map[string]string{
	"internal/call/policy/profile":    "the files that it embeds lie beside it, and the part that decides must not link them",
	"internal/exec/builtin/pure":      "CheckPure holds a whole package to imports by which code can have no effect",
	"internal/ops/socket":             "the sockets of a service manager are taken once in a process, before anything else listens",
	"internal/surface/console/assets": "a build tag decides whether the pages are embedded",
	"internal/vault/kek/dpapi":        "the home of the system call of Windows, and of the unsafe that it needs",
}

// CheckSmall finds packages that are too small to stand alone: fewer lines than smallPackage,
// and one importer.
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
			out = append(out, Finding{p.Dir, fmt.Sprintf("has %d lines and one importer; make it a file of that, or state the reason in archtest", lines[p.Dir])})
		}
	}
	for dir := range allowed {
		if !found[dir] && t.Packages[dir] != nil {
			out = append(out, Finding{dir, "is no small package with one importer; remove the exception"})
		}
	}
	return out
}
