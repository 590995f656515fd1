// Package workshop makes skills out of sources: it writes a new one, builds its modules by
// the Go toolchain, strips them, says which import made one too large, and packs. It is
// what people do at their desk; palyrad does not know it.
package workshop

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/exec/skill"
	"palyra/internal/exec/wasm/module"
)

// Built is a package that is not signed yet.
type Built struct {
	// File is the package as it is written.
	File []byte
	*skill.Package
	// Made are its modules in the order of their names.
	Made []Module
}

// Module is what became of one module.
type Module struct {
	// Name is its entry.
	Name string
	// Compiler is what built it, "" for one that was there already.
	Compiler string
	// Bytes is its size, Stripped is what was left out of it.
	Bytes, Stripped int
	// SHA256 is its digest in lower-case hex.
	SHA256 string
	// Sizes are what its imports take, the largest first: nil unless asked for.
	Sizes []ImportSize
}

// Options say how to build.
type Options struct {
	// Limits bound the modules.
	Limits module.Limits
	// Sizes has it say what imports take. It links each module once more.
	Sizes bool
}

// Build makes a package of a directory: skill.toml, and for each module that its tools
// name either modules/NAME.wasm or the Go sources in modules/NAME/.
func Build(ctx context.Context, dir string, o Options) (*Built, error) {
	text, err := os.ReadFile(filepath.Join(dir, skill.ManifestEntry))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, reason.Errorf(reason.InvalidInput, "%s has no %s", dir, skill.ManifestEntry).
			WithRemedy("Name the directory of a skill, or begin one with `palyra skills new`.")
	}
	if err != nil {
		return nil, reason.Errorf(reason.InvalidInput, "reading the manifest: %w", err)
	}
	m, err := skill.ParseManifest(text)
	if err != nil {
		return nil, err
	}
	b := &Built{}
	p := &skill.Package{Manifest: m, ManifestText: text, Modules: map[string][]byte{}}
	origins := map[string]skill.Origin{}
	var libraries []skill.Library
	for _, name := range modulesOf(m) {
		made, err := makeModule(ctx, dir, name, m, o)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		p.Modules[name] = made.bytes
		origins[name] = made.origin
		libraries = append(libraries, made.libraries...)
		b.Made = append(b.Made, made.Module)
	}
	slices.SortFunc(libraries, func(a, b skill.Library) int { return strings.Compare(a.PURL, b.PURL) })
	if err := p.Document(slices.Compact(libraries), origins); err != nil {
		return nil, err
	}
	if b.File, err = skill.Pack(p); err != nil {
		return nil, err
	}
	// What was written is what is read: whatever a package may not be is found here.
	if p, err = skill.Open(b.File); err != nil {
		return nil, err
	}
	b.Package = p
	return b, nil
}

// modulesOf are the modules that the tools are, each once.
func modulesOf(m *skill.Manifest) []string {
	var out []string
	for _, t := range m.Tools {
		out = append(out, t.Module)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// made is a module with where it came from.
type made struct {
	Module
	bytes     []byte
	origin    skill.Origin
	libraries []skill.Library
}

func makeModule(ctx context.Context, dir, name string, m *skill.Manifest, o Options) (made, error) {
	ready := filepath.Join(dir, filepath.FromSlash(name))
	sources := strings.TrimSuffix(ready, ".wasm")
	_, noModule := os.Stat(ready)
	info, noSources := os.Stat(sources)
	var out made
	var raw []byte
	var err error
	switch {
	case noModule == nil && noSources == nil && info.IsDir():
		return made{}, reason.Errorf(reason.InvalidInput, "there is a module, and there are sources for it in %s", sources).
			WithRemedy("Remove the module, so that it is built, or move the sources out of modules/.")
	case noModule == nil:
		raw, err = os.ReadFile(ready)
		out.origin = skill.Origin{Sources: map[string]string{name: digest(raw)}}
	case noSources == nil && info.IsDir():
		raw, out.origin, out.libraries, err = buildGo(ctx, dir, sources)
	default:
		return made{}, reason.Errorf(reason.InvalidInput, "there is neither %s nor a directory %s with Go sources", ready, sources).
			WithRemedy("Write a program there, or build the module with another compiler and put it there.")
	}
	if err != nil {
		return made{}, err
	}
	if out.bytes, err = strip(raw); err != nil {
		return made{}, err
	}
	out.Module = Module{Name: name, Compiler: out.origin.Toolchain, Bytes: len(out.bytes), Stripped: len(raw) - len(out.bytes), SHA256: digest(out.bytes)}
	large := len(out.bytes) > o.Limits.ModuleBytes
	if out.Compiler != "" && (large || o.Sizes) {
		if out.Sizes, err = measure(ctx, dir, sources); err != nil {
			return made{}, err
		}
	}
	if large {
		return made{}, tooLarge(out.Module, o.Limits.ModuleBytes)
	}
	_, err = module.Check(out.bytes, features(o.Limits, m, name))
	return out, err
}

// features are the limits with what the tools of a module ask for.
func features(limits module.Limits, m *skill.Manifest, name string) module.Limits {
	for _, t := range m.Tools {
		if t.Module == name {
			limits.SIMD = limits.SIMD || t.Features.SIMD
			limits.MultiValue = limits.MultiValue || t.Features.MultiValue
		}
	}
	return limits
}

// tooLarge names the imports that a module is large by.
func tooLarge(m Module, most int) error {
	const shown = 5
	var by []string
	for _, s := range m.Sizes[:min(shown, len(m.Sizes))] {
		by = append(by, fmt.Sprintf("%s (%d KiB)", s.Path, s.Bytes>>10))
	}
	err := reason.Errorf(reason.InputTooLarge, "the module has %d bytes after stripping; %d are allowed", m.Bytes, most)
	if len(by) == 0 {
		return err.WithRemedy("Leave out what makes it large, or build it for size.")
	}
	return err.WithRemedy("Do without one of its imports. This much code is there because of each alone: %s.", strings.Join(by, ", "))
}

func digest(text []byte) string { return strings.TrimPrefix(canonical.Digest(text), "sha256:") }
