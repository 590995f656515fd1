package workshop

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"palyra/internal/core/reason"
	"palyra/internal/exec/skill"
)

// The Go build flags: no paths, version control data or build ids, so that the same sources and
// toolchain produce the same bytes everywhere.
var buildArguments = []string{"build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid="}

// goTool runs the go command in a directory, for wasip1.
func goTool(ctx context.Context, dir string, arguments ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", arguments...)
	cmd.Dir = dir
	// Personal settings for native programs must not affect the modules.
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOWASM=", "GOEXPERIMENT=", "GODEBUG=", "PWD="+dir)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil, reason.Errorf(reason.InvalidInput, "the Go toolchain was not found").
			WithRemedy("Install Go, or replace the sources with a prebuilt module.")
	case err != nil:
		return nil, reason.Errorf(reason.InvalidInput, "go %s: %v\n%s", arguments[0], err, bytes.TrimSpace(stderr.Bytes())).
			WithRemedy("Fix the errors of the compiler.")
	}
	return stdout.Bytes(), nil
}

// goPackage is a package in the output of `go list`.
type goPackage struct {
	ImportPath string
	Dir        string
	Standard   bool
	Imports    []string
	ImportMap  map[string]string
	GoFiles    []string
	SFiles     []string
	EmbedFiles []string
	Module     *goModule
}

type goModule struct {
	Path, Version, Dir string
	Main               bool
	Replace            *goModule
}

// own reports whether the package belongs to the sources of the skill.
func (p goPackage) own() bool { return !p.Standard && p.Module != nil && p.Module.Main }

// target returns the directory and the package argument for the go command.
func target(dir, sources string) (string, string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", "", err
	}
	sources, err = filepath.Abs(sources)
	if err != nil {
		return "", "", err
	}
	rel, err := filepath.Rel(dir, sources)
	return dir, "./" + filepath.ToSlash(rel), err
}

// dependencies returns all packages of a program.
func dependencies(ctx context.Context, dir, pkg string) ([]goPackage, error) {
	text, err := goTool(ctx, dir, "list", "-deps", "-json=ImportPath,Dir,Standard,Imports,ImportMap,GoFiles,SFiles,EmbedFiles,Module", pkg)
	if err != nil {
		return nil, err
	}
	var out []goPackage
	for d := json.NewDecoder(bytes.NewReader(text)); ; {
		var p goPackage
		switch err := d.Decode(&p); {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, err
		}
		out = append(out, p)
	}
}

// buildGo builds the program in sources.
func buildGo(ctx context.Context, dir, sources string) (module []byte, from skill.Origin, libraries []skill.Library, err error) {
	dir, pkg, err := target(dir, sources)
	if err != nil {
		return nil, from, nil, err
	}
	deps, err := dependencies(ctx, dir, pkg)
	if err != nil {
		return nil, from, nil, err
	}
	version, err := goTool(ctx, dir, "env", "GOVERSION")
	if err != nil {
		return nil, from, nil, err
	}
	if module, err = link(ctx, dir, pkg, buildArguments); err != nil {
		return nil, from, nil, err
	}
	from = skill.Origin{Toolchain: strings.TrimSpace(string(version)), Arguments: slices.Concat([]string{"GOOS=wasip1", "GOARCH=wasm", "go"}, buildArguments)}
	if from.Sources, err = sourcesOf(deps); err != nil {
		return nil, from, nil, err
	}
	return module, from, librariesOf(deps, from.Toolchain), nil
}

func link(ctx context.Context, dir, pkg string, arguments []string) ([]byte, error) {
	temporary, err := os.MkdirTemp("", "palyra-skill-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(temporary)
	file := filepath.Join(temporary, "module.wasm")
	if _, err := goTool(ctx, dir, slices.Concat(arguments, []string{"-o", file, pkg})...); err != nil {
		return nil, err
	}
	return os.ReadFile(file)
}

// sourcesOf returns the digests of the skill's own sources, by path in its Go module.
func sourcesOf(deps []goPackage) (map[string]string, error) {
	out := map[string]string{}
	add := func(root, file string) error {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, file)
		out[filepath.ToSlash(rel)] = digest(text)
		return err
	}
	for _, p := range deps {
		if !p.own() {
			continue
		}
		files := slices.Concat(p.GoFiles, p.SFiles, p.EmbedFiles)
		for i, f := range files {
			files[i] = filepath.Join(p.Dir, f)
		}
		files = append(files, filepath.Join(p.Module.Dir, "go.mod"))
		if sums := filepath.Join(p.Module.Dir, "go.sum"); exists(sums) {
			files = append(files, sums)
		}
		for _, f := range files {
			if err := add(p.Module.Dir, f); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// librariesOf returns the modules of a program and the standard library.
func librariesOf(deps []goPackage, version string) []skill.Library {
	number := strings.TrimPrefix(version, "go")
	out := []skill.Library{{Name: "std", Version: number, PURL: "pkg:golang/std@" + number}}
	for _, p := range deps {
		if p.Standard || p.Module == nil || p.Module.Main {
			continue
		}
		m := cmp.Or(p.Module.Replace, p.Module)
		out = append(out, skill.Library{Name: m.Path, Version: m.Version, PURL: "pkg:golang/" + m.Path + "@" + m.Version})
	}
	return out
}
