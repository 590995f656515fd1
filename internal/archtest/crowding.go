package archtest

import (
	"fmt"
	"go/ast"
	"maps"
	"slices"
	"strings"
)

// MaxFiles is how many hand-written product files a package may have.
const MaxFiles = 30

// CheckCrowding finds packages with more files than somebody can keep in mind.
func CheckCrowding(t *Tree) []Finding {
	var out []Finding
	for _, p := range t.Sorted() {
		if n := len(p.product()); n > MaxFiles {
			out = append(out, Finding{p.Dir, fmt.Sprintf("%d files; split it by noun at or before %d", n, MaxFiles)})
		}
	}
	return out
}

// product are the hand-written files that are no tests.
func (p *Package) product() []*File {
	return slices.DeleteFunc(slices.Clone(p.Files), func(f *File) bool { return f.Test || f.Generated })
}

const (
	wiring = "internal/gateway"
	// wiringFiles and wiringMethods are how many files the daemon may have, and
	// how many methods one of its types.
	wiringFiles, wiringMethods = 20, 5
)

// wiringShuns are imports that the daemon has no use for, with what they are.
var wiringShuns = map[string]string{
	"github.com/cedar-policy/cedar-go": "Cedar",
	Module + "/gen":                    "a message of the API",
	"connectrpc.com":                   "the API",
	"google.golang.org/protobuf":       "a message of the API",
	"database/sql":                     "SQL",
	"zombiezen.com/go/sqlite":          "SQL",
	"modernc.org/sqlite":               "SQL",
}

// CheckWiring holds the daemon to building and running: what it did beyond that
// made it the place where everything could reach everything.
func CheckWiring(t *Tree) []Finding {
	p := t.Packages[wiring]
	if p == nil {
		return nil
	}
	var out []Finding
	files := p.product()
	if len(files) > wiringFiles {
		out = append(out, Finding{wiring, fmt.Sprintf("%d files, at most %d: what is no construction, running, server or signal has a room of its own", len(files), wiringFiles)})
	}
	methods := make(map[string]int)
	var stores []string
	for _, f := range files {
		for _, imported := range f.Imports {
			for shunned, what := range wiringShuns {
				if within(imported, shunned) {
					out = append(out, Finding{f.Path, "imports " + imported + ": the daemon knows rooms, not " + what})
				}
			}
			if imported == Module+"/internal/store/sqlite" {
				stores = append(stores, f.Path)
			}
		}
		countMethods(f, methods)
	}
	if len(stores) > 1 {
		out = append(out, Finding{wiring, strings.Join(stores, " and ") + " name the store; one file may, so that another store is a package and its wiring"})
	}
	for _, name := range slices.Sorted(maps.Keys(methods)) {
		if n := methods[name]; n > wiringMethods {
			out = append(out, Finding{wiring, fmt.Sprintf("%s has %d methods, at most %d: what has more to do is a room with a stated interface", name, n, wiringMethods)})
		}
	}
	return out
}

// countMethods adds the methods that a file gives to each type, interfaces
// included.
func countMethods(f *File, methods map[string]int) {
	ast.Inspect(f.Syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Recv != nil {
				methods[receiver(n.Recv.List[0].Type)]++
			}
		case *ast.TypeSpec:
			if i, ok := n.Type.(*ast.InterfaceType); ok {
				methods[n.Name.Name] += i.Methods.NumFields()
			}
		}
		return true
	})
}

// receiver is the name of a method's type.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
