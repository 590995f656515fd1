// Package workshop builds skills from sources. It creates new skills, builds their modules with
// the Go toolchain, strips and packs them, and reports which imports made a module too large. It
// is a developer tool; palyrad does not use it.
//
// palyrad imports only package skill, which starts no program, so that no call can start a
// compiler.
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

// Built is an unsigned package.
type Built struct {
	// File is the package file.
	File []byte
	*skill.Package
	// Made lists its modules, sorted by name.
	Made []Module
}

// Module describes one built module.
type Module struct {
	// Name is its entry name.
	Name string
	// Compiler is the compiler that built it, "" for a prebuilt module.
	Compiler string
	// Bytes is its size, and Stripped the number of removed bytes.
	Bytes, Stripped int
	// SHA256 is its digest in lower-case hex.
	SHA256 string
	// Sizes are the sizes of its imports, the largest first: nil unless requested.
	Sizes []ImportSize
}

// Options configure a build.
type Options struct {
	// Limits are the limits of the modules.
	Limits module.Limits
	// Sizes requests the sizes of imports. It links each module once more.
	Sizes bool
}

// Build makes a package from a directory: skill.toml, and for each module that its tools name
// either modules/NAME.wasm or the Go sources in modules/NAME/.
func Build(ctx context.Context, dir string, o Options) (*Built, error) {
	text, err := os.ReadFile(filepath.Join(dir, skill.ManifestEntry))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, reason.Errorf(reason.InvalidInput, "%s has no %s", dir, skill.ManifestEntry).
			WithRemedy("Name the directory of a skill, or create one with `palyra skills new`.")
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
	// Open reads the result, so that any violation of the format is reported here.
	if p, err = skill.Open(b.File); err != nil {
		return nil, err
	}
	b.Package = p
	return b, nil
}

// modulesOf returns the modules of the tools, each once.
func modulesOf(m *skill.Manifest) []string {
	var out []string
	for _, t := range m.Tools {
		out = append(out, t.Module)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// made is a module with its origin.
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
		return made{}, reason.Errorf(reason.InvalidInput, "both the module and sources for it in %s exist", sources).
			WithRemedy("Remove the module so that it is rebuilt, or move the sources out of modules/.")
	case noModule == nil:
		raw, err = os.ReadFile(ready)
		out.origin = skill.Origin{Sources: map[string]string{name: digest(raw)}}
	case noSources == nil && info.IsDir():
		raw, out.origin, out.libraries, err = buildGo(ctx, dir, sources)
	default:
		return made{}, reason.Errorf(reason.InvalidInput, "neither %s nor a directory %s with Go sources exists", ready, sources).
			WithRemedy("Write a program there, or build the module with another compiler and store it there.")
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

// features returns the limits with the features that the tools of a module request.
func features(limits module.Limits, m *skill.Manifest, name string) module.Limits {
	for _, t := range m.Tools {
		if t.Module == name {
			limits.SIMD = limits.SIMD || t.Features.SIMD
			limits.MultiValue = limits.MultiValue || t.Features.MultiValue
		}
	}
	return limits
}

// tooLarge names the imports that contribute most to a module's size.
func tooLarge(m Module, most int) error {
	const shown = 5
	var by []string
	for _, s := range m.Sizes[:min(shown, len(m.Sizes))] {
		by = append(by, fmt.Sprintf("%s (%d KiB)", s.Path, s.Bytes>>10))
	}
	err := reason.Errorf(reason.InputTooLarge, "the module has %d bytes after stripping; the limit is %d", m.Bytes, most)
	if len(by) == 0 {
		return err.WithRemedy("Remove large parts of it, or build it for size.")
	}
	return err.WithRemedy("Remove one of its imports. Each of these adds the given amount of code: %s.", strings.Join(by, ", "))
}

func digest(text []byte) string { return strings.TrimPrefix(canonical.Digest(text), "sha256:") }
