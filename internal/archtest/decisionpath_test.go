package archtest

import (
	"go/ast"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"

	"palyra/internal/core/must"
)

// These constants define the path of a decision: the code that Pipeline.Call reaches in
// internal/call before a permit is used.
const (
	pathRoot     = "(*palyra/internal/call.Pipeline).Call"
	pathPackages = "palyra/internal/call"
	pathDocument = "docs/design/decision-path.md"
	// maxPathLines bounds the whole files, and maxPathFunctions the functions and variables that are
	// reached in them.
	maxPathLines     = 9_000
	maxPathFunctions = 5_620
	maxPathFile      = 300
	// maxPathPackages bounds the packages of the path, and maxPathClimbs how often the reading order
	// returns to the package call from a package below it.
	maxPathPackages = 12
	maxPathClimbs   = 6
)

// afterPermit are the stages that use a permit; test doubles are not reached by palyrad.
var (
	afterPermit = []string{"(*palyra/internal/call.call).execute", "(*palyra/internal/call.call).attest"}
	testDoubles = []string{"palyra/internal/call/calltest", "palyra/internal/call/approval/approvaltest", "palyra/internal/call/policyadmin/policyadmintest"}
)

// callPath finds functions and variables by the code that uses them. A call of a method of an
// interface of this module reaches every implementation.
type callPath struct {
	declared map[types.Object]ast.Node
	in       map[types.Object]*packages.Package
	types    []*types.Named
	reached  map[types.Object]bool
	queue    []types.Object
}

func loadPath(t *testing.T, root string) *callPath {
	t.Helper()
	pkgs := must.Get(packages.Load(&packages.Config{
		Dir:  root,
		Mode: packages.NeedName | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedImports | packages.NeedDeps,
	}, "./internal/call/..."))(t)
	c := &callPath{declared: map[types.Object]ast.Node{}, in: map[types.Object]*packages.Package{}, reached: map[types.Object]bool{}}
	for _, p := range pkgs {
		if slices.Contains(testDoubles, p.PkgPath) {
			continue
		}
		c.declare(p)
	}
	return c
}

// declare adds the functions, variables and types of a package.
func (c *callPath) declare(p *packages.Package) {
	add := func(name *ast.Ident, node ast.Node) {
		if o := p.TypesInfo.Defs[name]; o != nil {
			c.declared[o], c.in[o] = node, p
		}
	}
	for _, f := range p.Syntax {
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				add(d.Name, d)
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if v, is := spec.(*ast.ValueSpec); is {
						for _, name := range v.Names {
							add(name, v)
						}
					}
				}
			}
		}
	}
	for _, name := range p.Types.Scope().Names() {
		if n, is := p.Types.Scope().Lookup(name).Type().(*types.Named); is && !types.IsInterface(n) {
			c.types = append(c.types, n)
		}
	}
}

func (c *callPath) reach(o types.Object) {
	if f, is := o.(*types.Func); is {
		if o = f.Origin(); slices.Contains(afterPermit, f.FullName()) {
			return
		}
	}
	if c.declared[o] != nil && !c.reached[o] {
		c.reached[o] = true
		c.queue = append(c.queue, o)
	}
}

// uses reaches what one use of an object reaches.
func (c *callPath) uses(o types.Object) {
	f, is := o.(*types.Func)
	if !is {
		c.reach(o)
		return
	}
	recv := f.Signature().Recv()
	if recv == nil || !types.IsInterface(recv.Type()) {
		c.reach(f)
		return
	}
	if f.Pkg() == nil || !strings.HasPrefix(f.Pkg().Path(), Module+"/") {
		return // of the standard library, such as error
	}
	of := recv.Type().Underlying().(*types.Interface)
	for _, n := range c.types {
		if ptr := types.NewPointer(n); types.Implements(ptr, of) {
			if m, _, _ := types.LookupFieldOrMethod(ptr, true, n.Obj().Pkg(), f.Name()); m != nil {
				c.reach(m)
			}
		}
	}
}

// walk reaches everything from a function, and returns the lines that are reached by file.
func (c *callPath) walk(root string) map[string]int {
	for o := range c.declared {
		if f, is := o.(*types.Func); is && f.FullName() == root {
			c.reach(f)
		}
	}
	lines := map[string]int{}
	for len(c.queue) > 0 {
		o := c.queue[0]
		c.queue = c.queue[1:]
		p, node := c.in[o], c.declared[o]
		from, to := p.Fset.Position(node.Pos()), p.Fset.Position(node.End())
		lines[from.Filename] += to.Line - from.Line + 1
		ast.Inspect(node, func(n ast.Node) bool {
			if id, is := n.(*ast.Ident); is && p.TypesInfo.Uses[id] != nil {
				c.uses(p.TypesInfo.Uses[id])
			}
			return true
		})
	}
	return lines
}

var pathRow = regexp.MustCompile("(?m)^\\| `([a-z_/]+\\.go)` \\| [^|]+ \\|$")

// walkOf counts the packages of files in reading order, and the returns to the package call.
func walkOf(files []string) (packages, climbs int) {
	seen := map[string]bool{}
	at := ""
	for _, f := range files {
		dir := path.Dir(f)
		if seen[dir] = true; dir == "call" && at != "" && at != dir {
			climbs++
		}
		at = dir
	}
	return len(seen), climbs
}

// TestWalk: the count of packages and climbs.
func TestWalk(t *testing.T) {
	t.Parallel()
	if packages, climbs := walkOf([]string{"call/a.go", "call/b.go", "call/x/c.go", "call/d.go", "call/y/e.go", "call/y/f.go", "call/g.go"}); packages != 3 || climbs != 2 {
		t.Errorf("%d packages, %d climbs", packages, climbs)
	}
}

// TestDecisionPath: every file that a call reaches up to its permit is in the document with one
// sentence, no other file is, and the path stays within its budget. The control is the path with the
// stages after the permit, which reaches more files.
func TestDecisionPath(t *testing.T) {
	t.Parallel()
	root := must.Get(filepath.Abs(filepath.Join("..", "..")))(t)
	c := loadPath(t, root)
	reachedFiles := c.walk(pathRoot)
	if len(reachedFiles) == 0 {
		t.Fatalf("%s is not found", pathRoot)
	}
	var listed []string
	for _, row := range pathRow.FindAllStringSubmatch(string(must.Get(os.ReadFile(filepath.Join(root, pathDocument)))(t)), -1) {
		listed = append(listed, row[1])
	}
	if packages, climbs := walkOf(listed); packages > maxPathPackages || climbs > maxPathClimbs {
		t.Errorf("the path passes %d packages and climbs %d times; at most %d and %d", packages, climbs, maxPathPackages, maxPathClimbs)
	}
	files, functions := 0, 0
	for name, reached := range reachedFiles {
		text := must.Get(os.ReadFile(name))(t)
		n := strings.Count(string(text), "\n")
		short := strings.TrimPrefix(filepath.ToSlash(must.Get(filepath.Rel(root, name))(t)), "internal/")
		files, functions = files+n, functions+reached
		if n > maxPathFile {
			t.Errorf("%s has %d lines; a file of the path of a decision has at most %d", short, n, maxPathFile)
		}
		i := slices.Index(listed, short)
		if i < 0 {
			t.Errorf("a call reaches %s: add it to %s with one sentence, or move what the call reaches to a file of the path", short, pathDocument)
			continue
		}
		listed = slices.Delete(listed, i, i+1)
	}
	for _, short := range listed {
		t.Errorf("%s lists %s, which no call reaches before its permit", pathDocument, short)
	}
	if files > maxPathLines || functions > maxPathFunctions {
		t.Errorf("the path has %d lines in %d files, and functions of %d lines; the budgets are %d and %d", files, len(reachedFiles), functions, maxPathLines, maxPathFunctions)
	}
	t.Logf("%d lines in %d files; functions of %d lines", files, len(reachedFiles), functions)
	for o := range c.declared {
		if f, is := o.(*types.Func); is && slices.Contains(afterPermit, f.FullName()) {
			c.reached[f] = true
			c.queue = append(c.queue, f)
		}
	}
	if more := c.walk(pathRoot); len(more) == 0 {
		t.Error("the control: the stages after the permit reach nothing")
	}
}
