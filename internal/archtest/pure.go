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
	// pureName is the method that marks such a tool, and the interface of
	// dispatch that asks for it.
	pureName = "Pure"
)

// pureImports are all that a tool without effect may import: nothing on the
// list opens a file, dials, starts a process, or reaches a part of the gateway
// that does.
var pureImports = []string{"context", "encoding/json", "time", Module + "/internal/core/tool"}

// pureUsers may name what is pure: the interface, dispatch, which asks for it, and the tools.
var pureUsers = []string{"internal/call/dispatch", "internal/core/tool/executor.go", pureHome}

// CheckPure finds what would let a tool with an effect pass for one without: an
// import that pureHome must not have, or a Pure tool that comes from elsewhere.
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

// effects finds imports by which a tool could have an effect.
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

// fromPure reports whether a type is one of pureHome.
func fromPure(f *File, e ast.Expr) bool {
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	alias := localName(f, Module+"/"+pureHome)
	return alias != "" && strings.HasPrefix(typeName(e), alias+".")
}
