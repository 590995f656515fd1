package archtest

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// Concurrent returns the folders of the packages that the race detector must watch: their product
// or test code starts a goroutine or uses a channel, sync or atomic. A call of t.Parallel alone
// does not count: the code that parallel tests share then uses none of these.
func Concurrent(t *Tree) []string {
	var dirs []string
	for _, p := range t.Sorted() {
		if slices.ContainsFunc(p.Files, func(f *File) bool { return !f.Generated && isConcurrent(f) }) {
			dirs = append(dirs, p.Dir)
		}
	}
	return dirs
}

func isConcurrent(f *File) bool {
	for _, imported := range f.Imports {
		if imported == "sync" || imported == "sync/atomic" || strings.HasPrefix(imported, "golang.org/x/sync/") {
			return true
		}
	}
	found := false
	ast.Inspect(f.Syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt, *ast.ChanType, *ast.SendStmt, *ast.SelectStmt:
			found = true
		case *ast.UnaryExpr:
			found = found || n.Op == token.ARROW
		}
		return !found
	})
	return found
}
