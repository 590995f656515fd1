package access

import (
	"go/ast"
	"go/parser"
	"go/token"
	"testing"

	"palyra/internal/core/must"
)

// The list contains every constant. A missing one would be reported as an action that no
// operation performs.
func TestPermissionsAreAll(t *testing.T) {
	t.Parallel()
	file := must.Get(parser.ParseFile(token.NewFileSet(), "permissions.go", nil, 0))(t)
	constants := 0
	for _, d := range file.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.CONST {
			constants += len(g.Specs)
		}
	}
	seen := map[Permission]bool{}
	for _, p := range Permissions {
		seen[p] = true
	}
	if len(seen) != constants || len(Permissions) != constants {
		t.Errorf("%d constants, %d in the list, %d of them different", constants, len(Permissions), len(seen))
	}
}
