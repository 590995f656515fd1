package archtest

import (
	"fmt"
	"go/ast"
	"maps"
	"slices"
)

// MaxMethods is the maximum number of methods of a type, including unexported ones.
const MaxMethods = 25

// MaxInterface is the maximum number of methods of an interface. Methods of embedded interfaces do
// not count.
const MaxInterface = 8

// CheckBreadth finds types and interfaces with too many methods. Test support and generated code may
// have more.
func CheckBreadth(t *Tree) []Finding {
	var out []Finding
	for _, p := range t.Sorted() {
		if testSupport(p.Dir) || !within(p.Dir, "internal") {
			continue
		}
		methods, interfaces := make(map[string]int), make(map[string]int)
		for _, f := range p.product() {
			countOwn(f, methods, interfaces)
		}
		for _, name := range slices.Sorted(maps.Keys(methods)) {
			if n := methods[name]; n > MaxMethods {
				out = append(out, Finding{p.Dir + "." + name, fmt.Sprintf("%d methods, at most %d: split the type by noun", n, MaxMethods)})
			}
		}
		for _, name := range slices.Sorted(maps.Keys(interfaces)) {
			if n := interfaces[name]; n > MaxInterface {
				out = append(out, Finding{p.Dir + "." + name, fmt.Sprintf("%d methods, at most %d: compose the interface of smaller ones", n, MaxInterface)})
			}
		}
	}
	return out
}

// countOwn counts the methods that a file adds to each type, and the methods that each interface
// declares itself.
func countOwn(f *File, methods, interfaces map[string]int) {
	for _, d := range f.Syntax.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil {
			methods[receiver(fn.Recv.List[0].Type)]++
		}
	}
	ast.Inspect(f.Syntax, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		if i, ok := spec.Type.(*ast.InterfaceType); ok {
			for _, m := range i.Methods.List {
				interfaces[spec.Name.Name] += len(m.Names)
			}
		}
		return false
	})
}
