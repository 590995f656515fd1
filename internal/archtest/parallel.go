package archtest

import (
	"go/ast"
	"strings"
)

// notParallel is the start of the line in a test's doc comment with the reason why the test cannot
// run in parallel.
const notParallel = "Not parallel:"

// CheckParallel finds top-level tests that neither call t.Parallel nor give a reason. The call
// must be a statement of the test's own body, not of a branch, a subtest or a helper: it is
// then visible, and a changed helper cannot remove it. It may follow other statements, which
// run before any parallel test of the package starts. The reason is a line "Not parallel:
// reason" in the doc comment. TestMain, benchmarks and fuzz targets are exempt.
func CheckParallel(t *Tree) []Finding {
	var out []Finding
	t.forEachFile(true, func(_ *Package, f *File) {
		if !f.Test {
			return
		}
		alias := localName(f, "testing")
		for _, d := range f.Syntax.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || !isTest(fn, alias) {
				continue
			}
			if say := judgeParallel(fn); say != "" {
				out = append(out, Finding{t.at(fn), fn.Name.Name + say})
			}
		}
	})
	return out
}

// judgeParallel returns the fault of a test, or "".
func judgeParallel(fn *ast.FuncDecl) string {
	reason, excused := parallelExcuse(fn)
	switch parallel := callsParallel(fn); {
	case parallel && excused:
		return ` calls t.Parallel and says "` + notParallel + `"; remove one of the two`
	case excused && reason == "":
		return ` says "` + notParallel + `" without a reason; name the resource of the process that the test changes or measures`
	case !parallel && !excused:
		return ` does not call t.Parallel; call it first, or end the doc comment with a line "` + notParallel + ` reason"`
	}
	return ""
}

// isTest reports whether go test runs a function as a test: TestX(*testing.T).
func isTest(fn *ast.FuncDecl, alias string) bool {
	if alias == "" || fn.Recv != nil || fn.Body == nil || !strings.HasPrefix(fn.Name.Name, "Test") {
		return false
	}
	params := fn.Type.Params.List
	if len(params) != 1 || len(params[0].Names) > 1 {
		return false
	}
	star, ok := params[0].Type.(*ast.StarExpr)
	return ok && typeName(star.X) == alias+".T"
}

// parallelExcuse returns the reason in a doc comment, and whether the comment has a line for it.
func parallelExcuse(fn *ast.FuncDecl) (reason string, ok bool) {
	for line := range strings.Lines(fn.Doc.Text()) {
		if rest, found := strings.CutPrefix(line, notParallel); found {
			return strings.TrimSpace(rest), true
		}
	}
	return "", false
}

// callsParallel reports whether a statement of the body itself is t.Parallel().
func callsParallel(fn *ast.FuncDecl) bool {
	names := fn.Type.Params.List[0].Names
	if len(names) == 0 {
		return false
	}
	for _, s := range fn.Body.List {
		expr, ok := s.(*ast.ExprStmt)
		if !ok {
			continue
		}
		call, ok := expr.X.(*ast.CallExpr)
		if ok && typeName(call.Fun) == names[0].Name+".Parallel" {
			return true
		}
	}
	return false
}
