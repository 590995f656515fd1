package archtest

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strings"
)

// CheckPackageComments finds packages without a package comment or with more
// than one.
func CheckPackageComments(t *Tree) []Finding {
	var out []Finding
	for _, p := range t.Sorted() {
		commented, relevant := comments(p)
		switch {
		case !relevant:
		case len(commented) == 0:
			out = append(out, Finding{p.Dir, "no file has a package comment; say in one sentence what the package is"})
		case len(commented) > 1:
			out = append(out, Finding{p.Dir, "package comments in " + strings.Join(commented, ", ") + "; keep one, so that there is one place to read"})
		}
	}
	return out
}

// comments lists the files with a package comment. A folder with only generated files is not
// relevant; a folder with only tests is checked by its tests.
func comments(p *Package) (commented []string, relevant bool) {
	onlyTests := !slices.ContainsFunc(p.Files, func(f *File) bool { return !f.Test })
	for _, f := range p.Files {
		if f.Generated || f.Test != onlyTests {
			continue
		}
		relevant = true
		if f.Syntax.Doc != nil && strings.TrimSpace(f.Syntax.Doc.Text()) != "" {
			commented = append(commented, path.Base(f.Path))
		}
	}
	return commented, relevant
}

// CheckInits finds init functions.
func CheckInits(t *Tree) []Finding {
	var out []Finding
	t.forEachFile(true, func(_ *Package, f *File) {
		for _, d := range f.Syntax.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				out = append(out, Finding{t.at(fn), "init runs before main and cannot fail; call it where it is needed, so that wiring can be followed by reading"})
			}
		}
	})
	return out
}

// ContextFields lists the struct types that may hold a context.Context, as
// "folder.Type", each with its reason.
var ContextFields = map[string]string{
	"internal/core/tool.isolatedContext":  "is a context itself: one without the values of the request, which package context does not have",
	"internal/call/dispatch.timedContext": "is a context itself: one whose deadline can stand still, which package context does not have",
}

// CheckContextFields finds structs that hold a context.Context.
func CheckContextFields(t *Tree) []Finding {
	return contextFields(t, ContextFields)
}

func contextFields(t *Tree, allowed map[string]string) []Finding {
	var out []Finding
	used, here := make(map[string]bool), make(map[string]bool)
	t.forEachFile(false, func(p *Package, f *File) {
		here[p.Dir] = true
		alias := localName(f, "context")
		if alias == "" {
			return
		}
		ast.Inspect(f.Syntax, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			key := p.Dir + "." + spec.Name.Name
			for _, field := range holds(spec.Type, alias+".Context") {
				if allowed[key] != "" {
					used[key] = true
					continue
				}
				out = append(out, Finding{t.at(field), "a struct holds a context.Context; pass it as the first argument, so that a deadline ends with its call"})
			}
			return true
		})
	})
	for key := range allowed {
		if !used[key] && here[strings.TrimSuffix(key, path.Ext(key))] {
			out = append(out, Finding{key, "is excepted from the context rule but needs it no more; remove the exception"})
		}
	}
	return out
}

func holds(e ast.Expr, name string) []*ast.Field {
	var out []*ast.Field
	ast.Inspect(e, func(n ast.Node) bool {
		if s, ok := n.(*ast.StructType); ok {
			for _, field := range s.Fields.List {
				if typeName(field.Type) == name {
					out = append(out, field)
				}
			}
		}
		return true
	})
	return out
}

// vague are names that do not describe the content of a package.
var vague = []string{"util", "utils", "common", "helper", "helpers", "shared", "misc", "lib", "base", "types", "testutil", "testutils", "testing"}

// CheckNames finds packages with a vague name or folder.
func CheckNames(t *Tree) []Finding {
	var out []Finding
	for _, p := range t.Sorted() {
		for _, name := range append(strings.Split(p.Dir, "/"), p.Name) {
			if slices.Contains(vague, name) {
				out = append(out, Finding{p.Dir, fmt.Sprintf("%q says nothing about what is inside; name the package for the noun that it holds", name)})
				break
			}
		}
	}
	return out
}

// MaxLines is the highest number of lines of a hand-written file.
const MaxLines = 700

// CheckLengths finds hand-written product files longer than MaxLines.
func CheckLengths(t *Tree) []Finding {
	var out []Finding
	t.forEachFile(false, func(_ *Package, f *File) {
		if lines := t.Fset.File(f.Syntax.Pos()).LineCount(); lines > MaxLines {
			out = append(out, Finding{f.Path, fmt.Sprintf("%d lines; split it by subject at or before %d", lines, MaxLines)})
		}
	})
	return out
}

// effectImports may be imported for their effect, each with its reason.
var effectImports = map[string]string{
	"embed": "it only enables go:embed",
}

// CheckImportForms finds dot imports, and imports for their side effect, which register by init.
func CheckImportForms(t *Tree) []Finding {
	var out []Finding
	t.forEachFile(false, func(p *Package, f *File) {
		for _, spec := range f.Syntax.Imports {
			if spec.Name == nil {
				continue
			}
			imported := strings.Trim(spec.Path.Value, `"`)
			switch {
			case spec.Name.Name == ".":
				out = append(out, Finding{t.at(spec), "dot import hides where names come from"})
			case spec.Name.Name == "_" && effectImports[imported] == "":
				out = append(out, Finding{t.at(spec), "import for effect of " + imported + "; it registers by init, which wiring must not depend on"})
			}
		}
	})
	return out
}
