package archtest

import (
	"fmt"
	"go/ast"
	"maps"
	"slices"
	"strings"
)

// MaxFiles is the maximum number of hand-written product files of a package.
const MaxFiles = 30

// CheckCrowding finds packages with more than MaxFiles files.
func CheckCrowding(t *Tree) []Finding {
	var out []Finding
	for _, p := range t.Sorted() {
		if n := len(p.product()); n > MaxFiles {
			out = append(out, Finding{p.Dir, fmt.Sprintf("%d files; split it by noun at or before %d", n, MaxFiles)})
		}
	}
	return out
}

// product returns the hand-written files that are not tests.
func (p *Package) product() []*File {
	return slices.DeleteFunc(slices.Clone(p.Files), func(f *File) bool { return f.Test || f.Generated })
}

const (
	wiring = "internal/gateway"
	// wiringFiles is the highest number of files of the daemon, and wiringMethods the highest
	// number of methods of one of its types.
	wiringFiles, wiringMethods = 20, 5
)

// wiringShuns are imports that the daemon must not use, each with its reason.
var wiringShuns = map[string]string{
	"github.com/cedar-policy/cedar-go": "Cedar",
	Module + "/gen":                    "a message of the API",
	"connectrpc.com":                   "the API",
	"google.golang.org/protobuf":       "a message of the API",
	"database/sql":                     "SQL",
	"zombiezen.com/go/sqlite":          "SQL",
	"modernc.org/sqlite":               "SQL",
}

// CheckWiring restricts the daemon to building and running. Other code in it could reach every part
// of the gateway.
func CheckWiring(t *Tree) []Finding {
	p := t.Packages[wiring]
	if p == nil {
		return nil
	}
	var out []Finding
	files := p.product()
	if len(files) > wiringFiles {
		out = append(out, Finding{wiring, fmt.Sprintf("%d files, at most %d: code that is not construction, running, a server or a signal belongs in another package", len(files), wiringFiles)})
	}
	methods := make(map[string]int)
	var stores []string
	locks := 0
	for _, f := range files {
		locks += countCalls(f, "statedir", "Take")
		for _, imported := range f.Imports {
			for shunned, what := range wiringShuns {
				if within(imported, shunned) {
					out = append(out, Finding{f.Path, "imports " + imported + ": the daemon uses packages of internal, not " + what})
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
	if locks > 1 {
		out = append(out, Finding{wiring, "statedir.Take is called in several places; takeState alone may, because it refuses a store of an older schema first"})
	}
	for _, name := range slices.Sorted(maps.Keys(methods)) {
		if n := methods[name]; n > wiringMethods {
			out = append(out, Finding{wiring, fmt.Sprintf("%s has %d methods, at most %d: a type with more belongs in a package with a stated interface", name, n, wiringMethods)})
		}
	}
	return out
}

// countCalls counts the uses of a function of a package in a file.
func countCalls(f *File, pkg, name string) (n int) {
	ast.Inspect(f.Syntax, func(node ast.Node) bool {
		if s, is := node.(*ast.SelectorExpr); is && s.Sel.Name == name {
			if x, is := s.X.(*ast.Ident); is && x.Name == pkg {
				n++
			}
		}
		return true
	})
	return n
}

// countMethods counts the methods that a file adds to each type, including interfaces.
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

// receiver returns the name of a method's type.
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
