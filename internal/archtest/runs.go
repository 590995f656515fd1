package archtest

import (
	"go/ast"
	"maps"
	"slices"
	"strings"
)

const (
	// sandboxHome has the common types of isolation; the backends are its subpackages.
	sandboxHome = "internal/exec/sandbox"
	// specName is the type that describes one program to a backend.
	specName = "Spec"
	// withoutName is the field of a backend's configuration that disables layers, so that a test
	// can show the effect of each layer.
	withoutName = "Without"
)

// specMakers may describe a program to run. Other code with a Spec could run a program without a
// decision.
var specMakers = map[string]string{
	"internal/exec/builtin":                      "process.run, which dispatch calls with a permit",
	"internal/exec/upstream/packages/resolve.go": "npm or pip for an upstream server: to pin a package for a person who may add servers, which installs nothing, or for package.install, which dispatch calls with a permit",
	"internal/exec/upstream/start.go":            "an upstream server, which a decided call starts, or a person who may add servers when they add it or look at it again",
	"internal/exec/wasm":                         "Tier A runs its worker in the sandbox that it is handed, for a guest that a decided call names",
	"internal/gateway/exec_command.go":           "palyrad sandbox exec is the runner without the gateway: a person at a shell runs a program of their own as themselves, so that there is no call to decide",
}

// CheckRuns finds sandbox.Spec values that are created outside specMakers.
func CheckRuns(t *Tree) []Finding {
	var out []Finding
	t.forEachFile(false, func(p *Package, f *File) {
		alias := localName(f, Module+"/"+sandboxHome)
		if alias == "" || within(p.Dir, sandboxHome) || within(p.Dir, "test") || maySpecify(p.Dir, f.Path) {
			return
		}
		ast.Inspect(f.Syntax, func(n ast.Node) bool {
			if makes(n, alias+"."+specName) {
				out = append(out, Finding{t.at(n), "describes a program to run; only " + strings.Join(slices.Sorted(maps.Keys(specMakers)), ", ") +
					" may, so that nothing else runs without a permit"})
			}
			return true
		})
	})
	return out
}

func maySpecify(dir, file string) bool {
	for base := range specMakers {
		if within(dir, base) || file == base {
			return true
		}
	}
	return false
}

// CheckWithout finds code outside the backends and tests that disables layers of the sandbox.
func CheckWithout(t *Tree) []Finding {
	var out []Finding
	t.forEachFile(false, func(p *Package, f *File) {
		if within(p.Dir, sandboxHome) || within(p.Dir, "test") {
			return
		}
		if !importsBelow(f, Module+"/"+sandboxHome+"/") {
			return
		}
		ast.Inspect(f.Syntax, func(n ast.Node) bool {
			if leavesOut(n) {
				out = append(out, Finding{t.at(n), "leaves layers of the sandbox out; only the backends' own examination and tests may"})
			}
			return true
		})
	})
	return out
}

// leavesOut reports whether n sets a field of that name.
func leavesOut(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.KeyValueExpr:
		id, ok := n.Key.(*ast.Ident)
		return ok && id.Name == withoutName
	case *ast.AssignStmt:
		for _, left := range n.Lhs {
			if selector, ok := left.(*ast.SelectorExpr); ok && selector.Sel.Name == withoutName {
				return true
			}
		}
	}
	return false
}

func importsBelow(f *File, prefix string) bool {
	for _, imported := range f.Imports {
		if strings.HasPrefix(imported, prefix) {
			return true
		}
	}
	return false
}
