package sandbox

import (
	"path/filepath"
	"slices"

	"palyra/internal/core/tool"
)

// Toolchain is what people installed beside the system: programs, and the files
// that these are made of. Programs in the sandbox see it read-only, at the paths
// that it has outside.
type Toolchain struct {
	// Name is that of the tool by which it was installed: go, rust, nvm. Several
	// that belong together have the same.
	Name string
	// Bins are where its programs are looked for.
	Bins []string
	// Dirs are all directories that it consists of, those of Bins included. They
	// are absolute and hold no symbolic link.
	Dirs []string
	// Versions is the directory in which each of its versions has a directory with
	// programs in bin, where all of them are shown; "" where only one is. Programs of
	// a version that is not in Bins are started by their path.
	Versions string
	// Git is true of a directory of git that belongs to the workspace: git trusts it, whoever
	// owns it.
	Git bool
	// Env holds name=value pairs that its programs need, whatever the caller may set.
	Env []string
}

// Holds reports whether a file, named by its real path, is part of it.
func (t Toolchain) Holds(name string) bool {
	return slices.ContainsFunc(t.Dirs, func(dir string) bool { return below(name, dir) })
}

// PathWith is SearchPath and then the programs of toolchains.
func PathWith(toolchains []Toolchain) []string {
	path := SearchPath()
	for _, t := range toolchains {
		path = append(path, t.Bins...)
	}
	return path
}

// pathFor is PathWith for a program, named by its real path. One of several versions
// finds the programs of its own version first, and not those of another or of the
// system: a cargo starts the rustc that it finds in PATH.
func pathFor(program string, toolchains []Toolchain) []string {
	path, bin := PathWith(toolchains), filepath.Dir(program)
	if filepath.Base(bin) == "bin" &&
		slices.ContainsFunc(toolchains, func(t Toolchain) bool { return t.Versions != "" && filepath.Dir(filepath.Dir(bin)) == t.Versions }) {
		return append([]string{bin}, path...)
	}
	return path
}

// Shown are the directories of toolchains that a sandbox has to show, sorted: those
// that are no part of what it shows of the system anyway, nor of each other.
func Shown(toolchains []Toolchain) []string {
	var all, list []string
	for _, t := range toolchains {
		all = append(all, t.Dirs...)
	}
	slices.Sort(all)
	for _, dir := range slices.Compact(all) {
		if !OfSystem(dir) && !slices.ContainsFunc(list, func(above string) bool { return below(dir, above) }) {
			list = append(list, dir)
		}
	}
	return list
}

// From returns p with its origin, which is a toolchain for a file that is part of
// one.
func (p Program) From(toolchains []Toolchain) Program {
	if slices.ContainsFunc(toolchains, func(t Toolchain) bool { return t.Holds(p.Path) }) {
		p.Origin = tool.OriginToolchain
	}
	return p
}

// Namesakes are the programs of one name, by their real paths and in the order in
// which they are found: the first one is what runs. Of toolchains that belong
// together one counts: rustup installs a cargo that starts another cargo.
func Namesakes(name string, path []string, toolchains []Toolchain) []string {
	var list, seen []string
	try := func(dir string) bool {
		full := filepath.Join(dir, name)
		if !filepath.IsAbs(dir) || !executable(full) {
			return false
		}
		if resolved, err := filepath.EvalSymlinks(full); err == nil && !slices.Contains(list, resolved) {
			list = append(list, resolved)
		}
		return true
	}
	of := func(dir string) string {
		for _, t := range toolchains {
			if slices.Contains(t.Bins, dir) {
				return t.Name
			}
		}
		return ""
	}
	for _, dir := range path {
		group := of(dir)
		if slices.Contains(seen, group) {
			continue
		}
		if try(dir) && group != "" {
			seen = append(seen, group)
		}
	}
	return list
}
