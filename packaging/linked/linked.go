// Package linked reports the Go modules and npm packages that the programs of a release contain.
// The third-party notices and the SBOM are both made from its answer.
package linked

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Platform is a target of the Go toolchain.
type Platform struct{ OS, Arch string }

// Platforms are the targets of a release.
var Platforms = []Platform{
	{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}, {"windows", "arm64"},
}

// Program is a program of a release on one platform.
type Program struct{ Name, OS, Arch string }

// String returns a form such as linux_amd64/palyrad.
func (p Program) String() string { return p.OS + "_" + p.Arch + "/" + p.Name }

// Module is a Go module with at least one package in at least one program.
type Module struct {
	// Path is the module path, "std" for the standard library. If go.mod replaces the module, Path
	// and Version are those of the replacement.
	Path string
	// Version is such as v1.2.3, go1.26.0 for the standard library, "" for a local replacement.
	Version string
	// Sum is the digest of go.sum ("h1:" and base64), "" where go.sum has none.
	Sum string
	// Licence is an SPDX expression.
	Licence string
	// Texts are the licence and notice files that apply to the linked packages.
	Texts []Text
	// Crates are the Rust crates, such as "regex-1.9.1", that static libraries of the module contain.
	// A library names a crate in its panic messages; a crate without one is not found.
	Crates []string
	// In lists the programs, in the order of the platforms.
	In []Program
}

// product is a program as the Makefile builds it.
type product struct {
	name string
	tags string
	cgo  bool
	// linuxOnly programs are built for no other system.
	linuxOnly bool
}

// products are the programs of a release. palyrad embeds palyra-init on Linux.
var products = []product{
	{name: "palyra"},
	{name: "palyrad", tags: "palyrainit,palyraweb"},
	{name: "palyra-hook"},
	{name: "palyra-init", linuxOnly: true},
	{name: "palyra-wasm", cgo: true, linuxOnly: true},
}

// Modules returns the modules that are linked into the programs of the product at root, sorted by
// path. The module of the product itself is not among them. It runs the go command, which needs
// the files that palyrad embeds: `make build` creates them. It is an error if a module has no
// licence file that can be identified.
func Modules(ctx context.Context, root string, platforms []Platform) ([]Module, error) {
	return modules(ctx, root, products, platforms)
}

func modules(ctx context.Context, root string, products []product, platforms []Platform) ([]Module, error) {
	found := map[string]*gathered{}
	for _, platform := range platforms {
		for _, product := range products {
			if product.linuxOnly && platform.OS != "linux" {
				continue
			}
			packages, err := list(ctx, root, product, platform)
			if err != nil {
				return nil, err
			}
			program := Program{product.name, platform.OS, platform.Arch}
			for _, p := range packages {
				if err := add(found, p, program); err != nil {
					return nil, err
				}
			}
		}
	}
	standard, err := standardLibrary(ctx, root)
	if err != nil {
		return nil, err
	}
	modules := make([]Module, 0, len(found))
	for _, g := range found {
		if g.Path == standard.Path {
			g.Version, g.dir = standard.Version, standard.dir
		}
		if g.Texts, g.Licence, err = licence(g.Path, g.dir, g.packages); err != nil {
			return nil, err
		}
		if g.Crates, err = crates(g.libraries); err != nil {
			return nil, fmt.Errorf("finding the crates in %s: %w", g.Path, err)
		}
		modules = append(modules, g.Module)
	}
	slices.SortFunc(modules, func(a, b Module) int { return strings.Compare(a.Path, b.Path) })
	return modules, nil
}

// gathered is a module whose programs and packages are being collected.
type gathered struct {
	Module
	dir string
	// packages are the directories of the linked packages.
	packages map[string]bool
	// libraries are the directories of static libraries.
	libraries map[string]bool
}

// listed is a package in the output of `go list -json`.
type listed struct {
	Dir        string
	Standard   bool
	Module     *listedModule
	CgoLDFLAGS []string
}

type listedModule struct {
	Path, Version, Sum, Dir string
	Main                    bool
	Replace                 *listedModule
}

// list returns the packages that a program of a platform consists of.
func list(ctx context.Context, root string, product product, platform Platform) ([]listed, error) {
	cgo := "0"
	if product.cgo {
		cgo = "1"
	}
	env := append(os.Environ(), "GOOS="+platform.OS, "GOARCH="+platform.Arch, "CGO_ENABLED="+cgo, "GOWORK=off")
	out, err := goCommand(ctx, root, env, "list", "-deps", "-json=Dir,Standard,Module,CgoLDFLAGS", "-tags", product.tags, "./cmd/"+product.name)
	if err != nil {
		return nil, fmt.Errorf("listing the packages of %s for %s/%s: %w", product.name, platform.OS, platform.Arch, err)
	}
	var packages []listed
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading the output of go list: %w", err)
		}
		packages = append(packages, p)
	}
}

// add records that a program contains a package.
func add(found map[string]*gathered, p listed, program Program) error {
	m := p.Module
	switch {
	case p.Standard:
		m = &listedModule{Path: "std"}
	case m == nil:
		return fmt.Errorf("the package in %s has no module", p.Dir)
	case m.Main:
		return nil
	case m.Replace != nil:
		m = m.Replace
	}
	g := found[m.Path]
	if g == nil {
		g = &gathered{Module: Module{Path: m.Path, Version: m.Version, Sum: m.Sum}, dir: m.Dir, packages: map[string]bool{}, libraries: map[string]bool{}}
		found[m.Path] = g
	}
	if !slices.Contains(g.In, program) {
		g.In = append(g.In, program)
	}
	if p.Dir != "" && !p.Standard {
		g.packages[p.Dir] = true
		for _, flag := range p.CgoLDFLAGS {
			if directory, ok := strings.CutPrefix(flag, "-L"); ok {
				g.libraries[directory] = true
			}
		}
	}
	return nil
}

// standardLibrary describes the toolchain that builds the product.
func standardLibrary(ctx context.Context, root string) (gathered, error) {
	out, err := goCommand(ctx, root, os.Environ(), "env", "-json", "GOVERSION", "GOROOT")
	if err != nil {
		return gathered{}, fmt.Errorf("finding the Go toolchain: %w", err)
	}
	var env struct{ GOVERSION, GOROOT string }
	if err := json.Unmarshal(out, &env); err != nil {
		return gathered{}, fmt.Errorf("reading the output of go env: %w", err)
	}
	return gathered{Module: Module{Path: "std", Version: env.GOVERSION}, dir: filepath.Clean(env.GOROOT)}, nil
}

// goCommand runs the go command of the environment in root.
func goCommand(ctx context.Context, root string, env []string, args ...string) ([]byte, error) {
	name := os.Getenv("GO")
	if name == "" {
		name = "go"
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = root, env
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", name, args[0], err, strings.TrimSpace(stderr.String()))
	}
	return out, nil
}
