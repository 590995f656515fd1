package archtest

import (
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/tools/go/packages"

	"palyra/internal/core/must"
)

// stageValues lists the values that the stages of a call pass on, with the functions that build
// them. Only these functions may write their fields, so a stage cannot change the value of an
// earlier stage. A copy in a local variable is a new value.
var stageValues = map[string][]string{
	"proposed":  {"check", "propose", "draftProposed"},
	"question":  {"plan", "injection", "gate"},
	"evaluated": {"evaluate", "judgeEdit", "settle", "settleSecrets", "settleCommit"},
	"answered":  {"settle", "settleCommit"},
	"decided":   {"decide"},
	"executed":  {"execute"},
}

// stageWrites returns the functions of a package that write a field of a stage value, or build one,
// as "function: type".
func stageWrites(p *packages.Package) []string {
	found := map[string]bool{}
	for _, f := range p.Syntax {
		for _, d := range f.Decls {
			fn, is := d.(*ast.FuncDecl)
			if !is || fn.Body == nil {
				continue
			}
			note := func(value string) {
				if value != "" {
					found[fn.Name.Name+": "+value] = true
				}
			}
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.AssignStmt:
					if n.Tok != token.DEFINE {
						for _, left := range n.Lhs {
							note(stageWritten(p.TypesInfo, left))
						}
					}
				case *ast.IncDecStmt:
					note(stageWritten(p.TypesInfo, n.X))
				case *ast.CompositeLit:
					if len(n.Elts) > 0 {
						note(stageValue(p.TypesInfo.TypeOf(n)))
					}
				}
				return true
			})
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// stageWritten returns the stage value that an assignment to the expression changes through a
// pointer, or "".
func stageWritten(info *types.Info, e ast.Expr) string {
	for {
		switch x := e.(type) {
		case *ast.IndexExpr:
			e = x.X
		case *ast.StarExpr:
			return stageValue(info.TypeOf(x))
		case *ast.SelectorExpr:
			s := info.Selections[x]
			if s == nil {
				return ""
			}
			var owner types.Type // what the last pointer of the path points to
			at := s.Recv()
			for _, i := range s.Index() {
				if ptr, is := at.Underlying().(*types.Pointer); is {
					at = ptr.Elem()
					owner = at
				}
				at = at.Underlying().(*types.Struct).Field(i).Type()
			}
			if owner != nil {
				return stageValue(owner)
			}
			e = x.X
		default:
			return ""
		}
	}
}

// stageValue returns the name of the type if it is one of stageValues, or "".
func stageValue(t types.Type) string {
	if n, is := types.Unalias(t).(*types.Named); is && stageValues[n.Obj().Name()] != nil {
		return n.Obj().Name()
	}
	return ""
}

// TestStageValues: no function changes or builds the value of a stage except the functions of that
// stage. The controls are writes of these functions, which the search must find.
func TestStageValues(t *testing.T) {
	t.Parallel()
	root := must.Get(filepath.Abs(filepath.Join("..", "..")))(t)
	pkgs := must.Get(packages.Load(&packages.Config{
		Dir: root, Mode: packages.NeedName | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedImports,
	}, "./internal/call"))(t)
	allowed := map[string]bool{}
	for value, functions := range stageValues {
		for _, f := range functions {
			allowed[f+": "+value] = true
		}
	}
	writes := stageWrites(pkgs[0])
	for _, w := range writes {
		if !allowed[w] {
			t.Errorf("%s is written: a stage value does not change after its stage, so build a new value", w)
		}
	}
	for _, w := range []string{"draftProposed: proposed", "decide: decided", "execute: executed", "gate: question", "settle: answered"} {
		if !slices.Contains(writes, w) {
			t.Errorf("the write %q is not found", w)
		}
	}
}
