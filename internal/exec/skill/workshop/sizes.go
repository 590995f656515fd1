package workshop

import (
	"cmp"
	"context"
	"encoding/binary"
	"regexp"
	"slices"
	"strings"

	"palyra/internal/core/reason"
)

// ImportSize is what one import of a skill's own packages takes.
type ImportSize struct {
	// Path is the imported package.
	Path string
	// Bytes is the code that would not be there without it: that of the package and of all
	// that nothing else needs. Data come on top, about as much again.
	Bytes int
}

// measure links the program once more, with names, and adds up by package.
func measure(ctx context.Context, dir, sources string) ([]ImportSize, error) {
	dir, pkg, err := target(dir, sources)
	if err != nil {
		return nil, err
	}
	deps, err := dependencies(ctx, dir, pkg)
	if err != nil {
		return nil, err
	}
	// -s would leave the names out.
	named, err := link(ctx, dir, pkg, []string{"build", "-trimpath", "-buildvcs=false", "-ldflags=-w -buildid="})
	if err != nil {
		return nil, err
	}
	functions, err := functionSizes(named)
	if err != nil {
		return nil, err
	}
	return importSizes(deps, byPackage(deps, functions)), nil
}

// importSizes compares what is reached from the program with what is reached without each
// import.
func importSizes(deps []goPackage, sizes map[string]int) []ImportSize {
	packages := map[string]goPackage{}
	for _, p := range deps {
		packages[p.ImportPath] = p
	}
	program := deps[len(deps)-1].ImportPath // go list has what is imported before what imports
	all := reached(packages, program, "")
	var out []ImportSize
	for _, p := range deps {
		if !p.own() {
			continue
		}
		for _, imported := range p.Imports {
			if packages[imported].own() || slices.ContainsFunc(out, func(s ImportSize) bool { return s.Path == imported }) {
				continue
			}
			without, bytes := reached(packages, program, imported), 0
			for name := range all {
				if !without[name] {
					bytes += sizes[name]
				}
			}
			if bytes > 0 {
				out = append(out, ImportSize{imported, bytes})
			}
		}
	}
	slices.SortFunc(out, func(a, b ImportSize) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), strings.Compare(a.Path, b.Path))
	})
	return out
}

// reached are the packages of a program whose own packages do not import one. The
// runtime is always there.
func reached(packages map[string]goPackage, program, without string) map[string]bool {
	seen := map[string]bool{}
	for todo := []string{program, "runtime"}; len(todo) > 0; {
		name := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		p, there := packages[name]
		if !there || seen[name] {
			continue
		}
		seen[name] = true
		for _, imported := range p.Imports {
			if mapped := p.ImportMap[imported]; mapped != "" {
				imported = mapped
			}
			if !p.own() || imported != without {
				todo = append(todo, imported)
			}
		}
	}
	return seen
}

// byPackage adds functions up. Go's linker writes '_' for all but letters, digits, '_'
// and '.' in the names of functions (cmd/link/internal/wasm, writeNameSec).
func byPackage(deps []goPackage, functions map[string]int) map[string]int {
	odd := regexp.MustCompile(`[^\w.]`)
	prefixes := map[string]string{"main.": deps[len(deps)-1].ImportPath}
	for _, p := range deps {
		prefixes[odd.ReplaceAllString(p.ImportPath, "_")+"."] = p.ImportPath
	}
	out := map[string]int{}
	for name, size := range functions {
		// The longest prefix that ends in a point: packages of hosts have points, too.
		for end := strings.LastIndexByte(name, '.'); end >= 0; end = strings.LastIndexByte(name[:end], '.') {
			if path, is := prefixes[name[:end+1]]; is {
				out[path] += size
				break
			}
		}
	}
	return out
}

// The sections that sizes are read from.
const (
	customSection = 0
	importSection = 2
	codeSection   = 10
	// functionNames is the part of the name section that has the names of functions.
	functionNames = 1
)

// functionSizes are the sizes of function bodies by name. Functions with one name add up.
func functionSizes(module []byte) (map[string]int, error) {
	parts, err := sections(module)
	if err != nil {
		return nil, err
	}
	imported, names := 0, map[int]string{}
	var sizes []int
	for _, s := range parts {
		c := &cutter{rest: s.body}
		switch s.id {
		case importSection:
			imported = c.number()
		case codeSection:
			for range c.number() {
				body := c.take(c.number())
				sizes = append(sizes, len(body))
			}
		case customSection:
			if string(c.take(c.number())) == "name" {
				readNames(c, names)
			}
		}
		if c.short {
			return nil, reason.Errorf(reason.InvalidInput, "the module's section %d ends too early", s.id)
		}
	}
	out := map[string]int{}
	for i, size := range sizes {
		out[names[imported+i]] += size
	}
	return out, nil
}

func readNames(c *cutter, names map[int]string) {
	for len(c.rest) > 0 && !c.short {
		kind, part := c.take(1), &cutter{}
		part.rest = c.take(c.number())
		if len(kind) == 0 || kind[0] != functionNames {
			continue
		}
		for range part.number() {
			index := part.number()
			names[index] = string(part.take(part.number()))
			if part.short {
				c.short = true
				return
			}
		}
	}
}

// cutter takes pieces off the front.
type cutter struct {
	rest  []byte
	short bool
}

func (c *cutter) number() int {
	n, size := binary.Uvarint(c.rest)
	if size <= 0 || n > 1<<31 {
		c.short, c.rest = true, nil
		return 0
	}
	c.rest = c.rest[size:]
	return int(n)
}

func (c *cutter) take(n int) []byte {
	if n > len(c.rest) {
		c.short, c.rest = true, nil
		return nil
	}
	taken := c.rest[:n]
	c.rest = c.rest[n:]
	return taken
}
