package command

import (
	"path/filepath"
	"slices"

	"palyra/internal/core/tool"
)

// Toolchain is a set of programs and their files outside of the system directories. It is mounted
// read-only in the sandbox, at the same paths as outside.
type Toolchain struct {
	// Name is the name of its installer: go, rust, nvm. Related toolchains have the same name.
	Name string
	// Bins are the directories of its programs.
	Bins []string
	// Dirs are all its directories, including Bins. They are absolute and contain no symbolic
	// link.
	Dirs []string
	// Versions is the directory that contains one directory with a bin for each version, if all
	// of them are mounted; "" if only one is. Programs of a version that is not in Bins are
	// started by their path.
	Versions string
	// Git is true for a git directory of the workspace: git trusts it regardless of its owner.
	Git bool
	// Env contains name=value pairs that its programs need, and that the caller cannot override.
	Env []string
}

// Holds reports whether a file, named by its real path, belongs to it.
func (t Toolchain) Holds(name string) bool {
	return slices.ContainsFunc(t.Dirs, func(dir string) bool { return below(name, dir) })
}

// PathWith is SearchPath followed by the programs of toolchains.
func PathWith(toolchains []Toolchain) []string {
	path := SearchPath()
	for _, t := range toolchains {
		path = append(path, t.Bins...)
	}
	return path
}

// pathFor is PathWith for a program, named by its real path. A program of one of several versions
// finds programs of its own version first: cargo, for example, starts the rustc that it finds in
// PATH.
func pathFor(program string, toolchains []Toolchain) []string {
	path, bin := PathWith(toolchains), filepath.Dir(program)
	if filepath.Base(bin) == "bin" &&
		slices.ContainsFunc(toolchains, func(t Toolchain) bool { return t.Versions != "" && filepath.Dir(filepath.Dir(bin)) == t.Versions }) {
		return append([]string{bin}, path...)
	}
	return path
}

// Shown returns the directories of toolchains to mount, sorted. It omits directories that are
// inside of system directories or of each other.
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

// From returns p with Origin set to tool.OriginToolchain if its file belongs to a toolchain.
func (p Program) From(toolchains []Toolchain) Program {
	if slices.ContainsFunc(toolchains, func(t Toolchain) bool { return t.Holds(p.Path) }) {
		p.Origin = tool.OriginToolchain
	}
	return p
}

// Namesakes returns the programs of one name, by their real paths and in the order of the
// search: the first one runs. Only one of several related toolchains counts, because rustup
// installs a cargo that starts another cargo.
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
