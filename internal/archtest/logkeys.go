package archtest

import (
	"go/ast"
	"strconv"
)

// LogKeys returns the keys of all log attributes, each with the place of one use. Keys are an
// interface for log queries: docs/observability.md lists them, and a test compares the two.
func LogKeys(t *Tree) map[string]string {
	keys := make(map[string]string)
	t.forEachFile(false, func(_ *Package, f *File) {
		alias := localName(f, "log/slog")
		if alias == "" {
			return
		}
		ast.Inspect(f.Syntax, func(n ast.Node) bool {
			if key, ok := attributeKey(n, alias); ok && keys[key] == "" {
				keys[key] = t.at(n)
			}
			return true
		})
	})
	return keys
}

// attributeKey returns the key of slog.String("key", value) and similar calls. Constructors of
// values have no key.
func attributeKey(n ast.Node, alias string) (string, bool) {
	call, ok := n.(*ast.CallExpr)
	if !ok || len(call.Args) != 2 {
		return "", false
	}
	fn, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return "", false
	}
	base, ok := fn.X.(*ast.Ident)
	if !ok || base.Name != alias {
		return "", false
	}
	literal, ok := call.Args[0].(*ast.BasicLit)
	if !ok {
		return "", false
	}
	key, err := strconv.Unquote(literal.Value)
	return key, err == nil
}
