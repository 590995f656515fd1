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

// ImportSize is the size of one import of a skill's own packages.
type ImportSize struct {
	// Path is the imported package.
	Path string
	// Bytes is the size of the code that only this import needs: of the package and its exclusive
	// dependencies. Their data adds about the same size again.
	Bytes int
}

// measure links the program once more, with names, and sums the sizes by package.
func measure(ctx context.Context, dir, sources string) ([]ImportSize, error) {
	dir, pkg, err := target(dir, sources)
	if err != nil {
		return nil, err
	}
	deps, err := dependencies(ctx, dir, pkg)
	if err != nil {
		return nil, err
	}
	// -s would omit the names.
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

// importSizes compares the reachable packages of the program with those reachable without each
// import.
func importSizes(deps []goPackage, sizes map[string]int) []ImportSize {
	packages := map[string]goPackage{}
	for _, p := range deps {
		packages[p.ImportPath] = p
	}
	program := deps[len(deps)-1].ImportPath // go list prints imported packages before their importers
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

// reached returns the packages of a program that remain without one import in its own packages.
// The runtime is always included.
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

// byPackage sums the sizes of functions by package. Go's linker replaces all characters other
// than letters, digits, '_' and '.' in function names by '_' (cmd/link/internal/wasm,
// writeNameSec).
func byPackage(deps []goPackage, functions map[string]int) map[string]int {
	odd := regexp.MustCompile(`[^\w.]`)
	prefixes := map[string]string{"main.": deps[len(deps)-1].ImportPath}
	for _, p := range deps {
		prefixes[odd.ReplaceAllString(p.ImportPath, "_")+"."] = p.ImportPath
	}
	out := map[string]int{}
	for name, size := range functions {
		// Find the longest prefix that ends in a point, because host names in package paths
		// contain points as well.
		for end := strings.LastIndexByte(name, '.'); end >= 0; end = strings.LastIndexByte(name[:end], '.') {
			if path, is := prefixes[name[:end+1]]; is {
				out[path] += size
				break
			}
		}
	}
	return out
}

// The sections that contain the sizes.
const (
	customSection = 0
	importSection = 2
	codeSection   = 10
	// functionNames is the subsection of the name section with the function names.
	functionNames = 1
)

// functionSizes returns the sizes of function bodies by name. Functions with the same name are
// summed.
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

// cutter reads from the front of a byte slice.
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
