package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
)

// comments has the doc comments of a package: types by their names, and fields and interface
// methods by "Type.Name".
type comments map[string]string

// readComments reads the doc comments of the package in a directory, without its tests.
func readComments(dir string) (comments, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", dir, err)
	}
	all := comments{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("reading comments: %w", err)
		}
		all.add(file)
	}
	return all, nil
}

func (c comments) add(file *ast.File) {
	for _, d := range file.Decls {
		decl, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, s := range decl.Specs {
			spec, ok := s.(*ast.TypeSpec)
			if !ok {
				continue
			}
			doc := spec.Doc
			if doc == nil {
				doc = decl.Doc
			}
			c[spec.Name.Name] = doc.Text()
			c.addMembers(spec)
		}
	}
}

func (c comments) addMembers(spec *ast.TypeSpec) {
	var list *ast.FieldList
	switch t := spec.Type.(type) {
	case *ast.StructType:
		list = t.Fields
	case *ast.InterfaceType:
		list = t.Methods
	default:
		return
	}
	for _, field := range list.List {
		for _, name := range field.Names {
			c[spec.Name.Name+"."+name.Name] = field.Doc.Text()
		}
	}
}

// sentence returns the comment of a name as a text of its own, without its example: "Port is the
// port." becomes "The port.", and "Run runs it." becomes "Runs it.".
func (c comments) sentence(name string) (string, error) {
	text, _, _ := strings.Cut(c[name], exampleMark)
	words := strings.Fields(text)
	own := name[strings.LastIndexByte(name, '.')+1:]
	if len(words) < 2 || words[0] != own {
		return "", fmt.Errorf("the comment of %s does not begin with its name", name)
	}
	words = words[1:]
	if words[0] == "is" || words[0] == "are" {
		words = words[1:]
	}
	return linked(capital(strings.Join(words, " "))), nil
}

// exampleMark begins the indented block at the end of a comment.
const exampleMark = "\n\n\t"

// example returns the indented block at the end of the comment of a name.
func (c comments) example(name string) string {
	_, block, _ := strings.Cut(c[name], exampleMark)
	return strings.ReplaceAll(block, "\n\t", "\n")
}
