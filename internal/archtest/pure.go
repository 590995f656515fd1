package archtest

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
)

const (
	// pureHome holds the tools that cannot have an effect.
	pureHome = "internal/exec/builtin/pure"
	// pureName is the method that marks such a tool, and the interface that dispatch checks.
	pureName = "Pure"
)

// pureImports are the only imports of a tool without effects: none of them opens a file, dials,
// starts a process, or reaches a part of the gateway that does.
var pureImports = []string{"context", "encoding/json", "time", Module + "/internal/core/tool"}

// pureUsers may use the name: the interface, dispatch, which checks it, and the tools.
var pureUsers = []string{"internal/call/dispatch", "internal/core/tool/executor.go", pureHome}

// CheckPure finds code that could make a tool with effects count as pure: an import that pureHome
// must not have, or a Pure tool of another package.
func CheckPure(t *Tree) []Finding {
	var out []Finding
	t.forEachFile(false, func(p *Package, f *File) {
		if within(p.Dir, pureHome) {
			out = append(out, effects(f)...)
		}
		ast.Inspect(f.Syntax, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				if n.Name == pureName && !inAny(f.Path, pureUsers) {
					out = append(out, Finding{t.at(n), "says that something is " + pureName + "; only a tool of " + pureHome +
						" may, so that a call which is recorded after it ran has had no effect"})
				}
			case *ast.Field:
				if len(n.Names) == 0 && fromPure(f, n.Type) {
					out = append(out, Finding{t.at(n), "embeds a tool of " + pureHome + ", whose word it would give for its own work"})
				}
			}
			return true
		})
	})
	return out
}

// effects finds imports that could have an effect.
func effects(f *File) []Finding {
	var out []Finding
	for _, imported := range f.Imports {
		if !slices.Contains(pureImports, imported) {
			out = append(out, Finding{f.Path, fmt.Sprintf("imports %s; a tool that is recorded after it ran may import %s alone",
				imported, strings.Join(pureImports, ", "))})
		}
	}
	return out
}

// fromPure reports whether a type belongs to pureHome.
func fromPure(f *File, e ast.Expr) bool {
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	alias := localName(f, Module+"/"+pureHome)
	return alias != "" && strings.HasPrefix(typeName(e), alias+".")
}
