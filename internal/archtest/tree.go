package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Module is the path of the module whose structure is checked.
const Module = "palyra"

// File is one parsed Go file.
type File struct {
	// Path is relative to the repository root, with slashes.
	Path      string
	Syntax    *ast.File
	Test      bool
	Generated bool
	// Imports are the import paths in the file.
	Imports []string
}

// Package is the Go files of one folder. Files of an external test package count as test files of
// the folder's package.
type Package struct {
	// Dir is relative to the repository root, "internal/call/policy".
	Dir   string
	Name  string
	Files []*File
}

// Tree has all packages of the repository by folder.
type Tree struct {
	Packages map[string]*Package
	Fset     *token.FileSet
}

// Finding is one violated rule.
type Finding struct {
	// At is a directory, or a file with line.
	At  string
	Say string
}

// String returns "where: what".
func (f Finding) String() string { return f.At + ": " + f.Say }

// Load parses every Go file below root, with every build tag. Folders named testdata or
// node_modules, folders whose names start with '.' or '_', and other Go modules are not part of the
// build and are skipped.
func Load(root string) (*Tree, error) {
	t := newTree()
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name != root && (skipped(d.Name()) || isModule(name)) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return t.add(filepath.ToSlash(rel), string(text))
	})
	if err != nil {
		return nil, fmt.Errorf("reading the sources: %w", err)
	}
	return t, nil
}

// Parse returns a tree of sources, given as file path to text.
func Parse(sources map[string]string) (*Tree, error) {
	t := newTree()
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		if err := t.add(name, sources[name]); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func newTree() *Tree {
	return &Tree{Packages: make(map[string]*Package), Fset: token.NewFileSet()}
}

func skipped(dir string) bool {
	return dir == "testdata" || dir == "node_modules" || strings.HasPrefix(dir, ".") || strings.HasPrefix(dir, "_")
}

// isModule reports whether a folder is a separate Go module, as the example skills are.
func isModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

func (t *Tree) add(name, text string) error {
	syntax, err := parser.ParseFile(t.Fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("parsing: %w", err)
	}
	f := &File{
		Path:      name,
		Syntax:    syntax,
		Test:      strings.HasSuffix(name, "_test.go"),
		Generated: ast.IsGenerated(syntax),
	}
	for _, spec := range syntax.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return fmt.Errorf("%s: import %s: %w", name, spec.Path.Value, err)
		}
		f.Imports = append(f.Imports, imported)
	}
	dir := path.Dir(name)
	p := t.Packages[dir]
	if p == nil {
		p = &Package{Dir: dir}
		t.Packages[dir] = p
	}
	if !f.Test || p.Name == "" {
		p.Name = strings.TrimSuffix(syntax.Name.Name, "_test")
	}
	p.Files = append(p.Files, f)
	return nil
}

// Sorted returns the packages in the order of their folders.
func (t *Tree) Sorted() []*Package {
	var all []*Package
	for _, p := range t.Packages {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *Package) int { return strings.Compare(a.Dir, b.Dir) })
	return all
}

// Imports returns the import paths of the package's non-test files, sorted and without duplicates.
func (p *Package) Imports() []string {
	var all []string
	for _, f := range p.Files {
		if !f.Test {
			all = append(all, f.Imports...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// own returns the folder of an import path of this module.
func own(imported string) (dir string, ok bool) {
	return strings.CutPrefix(imported, Module+"/")
}

// within reports whether dir is base or a directory below it.
func within(dir, base string) bool {
	return dir == base || strings.HasPrefix(dir, base+"/")
}

// forEachFile calls visit for the hand-written files. It includes tests and their helper packages
// only if tests is true.
func (t *Tree) forEachFile(tests bool, visit func(*Package, *File)) {
	for _, p := range t.Sorted() {
		for _, f := range p.Files {
			if !f.Generated && (tests || !f.Test && !testSupport(p.Dir)) {
				visit(p, f)
			}
		}
	}
}

func (t *Tree) at(n ast.Node) string {
	pos := t.Fset.Position(n.Pos())
	return fmt.Sprintf("%s:%d", pos.Filename, pos.Line)
}
