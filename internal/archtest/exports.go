package archtest

import (
	"fmt"
	"go/ast"
	"slices"
)

// MaxExports maps a package to the highest number of names that it may export, without methods
// and fields, and to the reason.
var MaxExports = map[string]struct {
	Names int
	Why   string
}{
	"internal/call/policy": {60, "an auditor of the deciding part reads its surface first; packages that explain, warn or test are separate"},
}

// CheckExports finds packages that export more names than they may.
func CheckExports(t *Tree) []Finding {
	var out []Finding
	for _, p := range t.Sorted() {
		bound, ok := MaxExports[p.Dir]
		if n := len(exportsOf(p)); ok && n > bound.Names {
			out = append(out, Finding{p.Dir, fmt.Sprintf("exports %d names, of at most %d: %s", n, bound.Names, bound.Why)})
		}
	}
	return out
}

// exportsOf lists the names that a package exports: types, functions, constants
// and variables.
func exportsOf(p *Package) []string {
	var names []string
	add := func(id *ast.Ident) {
		if id.IsExported() && !slices.Contains(names, id.Name) {
			names = append(names, id.Name)
		}
	}
	for _, f := range p.Files {
		if f.Test {
			continue
		}
		for _, d := range f.Syntax.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					add(d.Name)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						add(s.Name)
					case *ast.ValueSpec:
						for _, id := range s.Names {
							add(id)
						}
					}
				}
			}
		}
	}
	return names
}

// policyReaders read policy sets and take no part in decisions.
var policyReaders = []string{"internal/call/policy/explain", "internal/call/policy/lint", "internal/call/policy/policytests", "internal/call/policy/profile"}

// inForce are the names of package policy that put a set in force.
var inForce = []string{"Engine", "NewEngine", "Restore"}

// CheckPolicyReaders finds policy readers that use a name of inForce.
func CheckPolicyReaders(t *Tree) []Finding {
	var out []Finding
	t.forEachFile(false, func(p *Package, f *File) {
		alias := localName(f, Module+"/internal/call/policy")
		if !inAny(p.Dir, policyReaders) || alias == "" {
			return
		}
		ast.Inspect(f.Syntax, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if id, ok := sel.X.(*ast.Ident); ok && id.Name == alias && slices.Contains(inForce, sel.Sel.Name) {
				out = append(out, Finding{t.at(sel), "names policy." + sel.Sel.Name + "; what explains, warns and tests cannot put a set into force"})
			}
			return true
		})
	})
	return out
}
