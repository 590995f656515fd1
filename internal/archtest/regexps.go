package archtest

import (
	"go/ast"
	"regexp"
	"strconv"
)

// CheckRegexps finds regular expressions that are compiled at every start, and lazy ones that do
// not compile, which would otherwise fail at their first use.
func CheckRegexps(t *Tree) []Finding {
	var out []Finding
	t.forEachFile(false, func(p *Package, f *File) {
		if within(p.Dir, "test") || within(p.Dir, "internal/archtest") {
			return
		}
		eager, lazy := localName(f, "regexp"), localName(f, Module+"/internal/core/lazyregexp")
		for _, d := range f.Syntax.Decls {
			_, isFunc := d.(*ast.FuncDecl)
			ast.Inspect(d, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				switch {
				case !ok:
				case !isFunc && isSelector(call.Fun, eager, "MustCompile"):
					out = append(out, Finding{t.at(call), "compiles a regular expression at every start; use lazyregexp.New"})
				case isSelector(call.Fun, lazy, "New"):
					if say := compiles(call); say != "" {
						out = append(out, Finding{t.at(call), say})
					}
				}
				return true
			})
		}
	})
	return out
}

// compiles returns the error in the text of a lazy regular expression.
func compiles(call *ast.CallExpr) string {
	for _, arg := range call.Args {
		literal, ok := arg.(*ast.BasicLit)
		if !ok {
			return "lazyregexp.New takes a literal, so that this test can compile it"
		}
		text, err := strconv.Unquote(literal.Value)
		if err == nil {
			_, err = regexp.Compile(text)
		}
		if err != nil {
			return err.Error()
		}
	}
	return ""
}

func isSelector(e ast.Expr, pkg, name string) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok || pkg == "" || s.Sel.Name != name {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == pkg
}
