// Command notices writes THIRD-PARTY-NOTICES, the licences of everything that the programs of a
// release contain. It fails if a component has a licence that is not allowed. With -check it
// compares the file and writes nothing.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"palyra/packaging/linked"
)

// file is the name of the notices in the root of the repository.
const file = "THIRD-PARTY-NOTICES"

func main() {
	check := flag.Bool("check", false, "compare the file, and write nothing")
	root := flag.String("root", "..", "the root of the repository")
	flag.Parse()
	if err := run(context.Background(), *root, *check); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, root string, check bool) error {
	components, err := gather(ctx, root)
	if err != nil {
		return err
	}
	if err := allow(components); err != nil {
		return err
	}
	text := write(components)
	path := filepath.Join(root, file)
	if !check {
		return os.WriteFile(path, []byte(text), 0o644) //nolint:gosec // it is a file of the checkout
	}
	current, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading the notices: %w; `make notices` writes them", err)
	}
	if difference := compare(string(current), text); difference != "" {
		return fmt.Errorf("%s is not current: %s; run `make notices` and commit the file", file, difference)
	}
	return nil
}

// component is a Go module, an npm package or a copied file.
type component struct {
	// name is such as "golang.org/x/sys v0.48.0".
	name    string
	licence string
	// in names the programs without their platforms.
	in    []string
	texts []linked.Text
	// crates are the Rust crates in a static library of the component.
	crates []string
}

// gather returns the components of a release.
func gather(ctx context.Context, root string) ([]component, error) {
	modules, err := linked.Modules(ctx, root, linked.Platforms)
	if err != nil {
		return nil, err
	}
	packages, err := linked.Packages(root)
	if err != nil {
		return nil, err
	}
	components, err := copied(root)
	if err != nil {
		return nil, err
	}
	for _, m := range modules {
		components = append(components, component{moduleName(m), m.Licence, programs(m.In), m.Texts, m.Crates})
	}
	for _, p := range packages {
		components = append(components, component{"npm " + p.Name + " " + p.Version, p.Licence, []string{"palyrad"}, p.Texts, nil})
	}
	return components, nil
}

// moduleName leaves out the version of the standard library, which depends on the machine.
func moduleName(m linked.Module) string {
	if m.Path == "std" {
		return "the Go standard library and runtime"
	}
	return m.Path + " " + m.Version
}

// programs returns the different names of programs, in their first order.
func programs(in []linked.Program) []string {
	var names []string
	seen := map[string]bool{}
	for _, p := range in {
		if !seen[p.Name] {
			seen[p.Name] = true
			names = append(names, p.Name)
		}
	}
	return names
}

// allow returns an error that names each component with a licence that is not allowed.
func allow(components []component) error {
	var refused []error
	for _, c := range components {
		for _, id := range strings.Split(c.licence, " AND ") {
			if !allowed[id] {
				refused = append(refused, fmt.Errorf("%s has the licence %q, which is not allowed: it is linked into %s; replace it, or add the licence to packaging/notices/allowed.go with its reason in RATIONALE.md",
					c.name, id, strings.Join(c.in, ", ")))
			}
		}
	}
	return errors.Join(refused...)
}

// compare describes the first difference between two texts, "" if they are equal.
func compare(have, want string) string {
	haveLines, wantLines := strings.Split(have, "\n"), strings.Split(want, "\n")
	for i, line := range wantLines {
		if i >= len(haveLines) {
			return fmt.Sprintf("it ends before line %d, which should be %q", i+1, line)
		}
		if haveLines[i] != line {
			return fmt.Sprintf("line %d is %q and should be %q", i+1, haveLines[i], line)
		}
	}
	if len(haveLines) > len(wantLines) {
		return fmt.Sprintf("it should end before line %d", len(wantLines)+1)
	}
	return ""
}
