package command

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"palyra/internal/core/reason"
)

// rustup is the target of the links in ~/.cargo/bin. It selects a toolchain by its settings, by
// files in the workspace or by a first argument such as +nightly, and may install one. Its
// settings are not visible in any sandbox.
const rustup = "rustup"

// CheckRustup refuses a program that would only fail to find a toolchain: a link to rustup, and a
// +nightly, which only rustup interprets. The error names the program of the toolchain itself.
func CheckRustup(p Program, argv []string, toolchains []Toolchain) error {
	link := p.ofRustup()
	version, plus, chosen := "", false, ""
	if len(argv) > 1 {
		version, plus = strings.CutPrefix(argv[1], "+")
		chosen = inVersions(p.Called, version, toolchains)
	}
	// Even for the distribution's cargo, +NAME refers to an existing toolchain only in the syntax
	// of rustup.
	known := chosen != "" || slices.ContainsFunc(toolchains, func(t Toolchain) bool { return t.holdsVersion(p.Path) })
	switch {
	case plus && (link || known):
		err := reason.Errorf(reason.InvalidInput, "%q selects no toolchain in a sandbox: only rustup interprets it, and rustup does not run there", "+"+shorten(version))
		if chosen != "" {
			return err.WithRemedy("Use %s instead of %s and +%s.", chosen, p.Called, shorten(version))
		}
		return err.WithRemedy("Omit it, or install a toolchain of this name that contains %s outside of the sandbox (`rustup toolchain install`); `palyrad doctor` lists the skipped directories.", p.Called)
	case link:
		err := reason.Errorf(reason.SpawnFailed, "%s is a link to rustup, which finds no toolchain in a sandbox", shorten(p.Called))
		if instead := inBins(p.Called, toolchains); instead != "" {
			return err.WithRemedy("Use %s.", instead)
		}
		return err.WithRemedy("Install the component with this program in the default toolchain, outside of the sandbox (`rustup component add`), or name the directory of a toolchain in process_runner.toolchains.")
	}
	return nil
}

// ofRustup reports whether a program is a symbolic or hard link to rustup under another name.
func (p Program) ofRustup() bool {
	if p.Called == rustup {
		return false
	}
	if p.Basename == rustup {
		return true
	}
	own, err := os.Stat(p.Path)
	other, otherErr := os.Stat(filepath.Join(filepath.Dir(p.Path), rustup))
	return err == nil && otherErr == nil && os.SameFile(own, other)
}

// holdsVersion reports whether a file belongs to one of several versions.
func (t Toolchain) holdsVersion(name string) bool { return t.Versions != "" && below(name, t.Versions) }

// inVersions returns the program of the version that rustup would select for a name:
// nightly-x86_64-unknown-linux-gnu for nightly, and not nightly-2026-01-01-x86_64-....
func inVersions(program, version string, toolchains []Toolchain) string {
	for _, t := range toolchains {
		if t.Versions == "" || version == "" {
			continue
		}
		entries, err := os.ReadDir(t.Versions)
		if err != nil {
			continue
		}
		slices.SortStableFunc(entries, func(a, b os.DirEntry) int { return cmp.Compare(len(a.Name()), len(b.Name())) })
		for _, entry := range entries {
			full := filepath.Join(t.Versions, entry.Name(), "bin", program)
			if entry.IsDir() && (entry.Name() == version || strings.HasPrefix(entry.Name(), version+"-")) && executable(full) {
				return full
			}
		}
	}
	return ""
}

// inBins returns the program of the default version.
func inBins(program string, toolchains []Toolchain) string {
	for _, t := range toolchains {
		for _, bin := range t.Bins {
			if full := filepath.Join(bin, program); t.holdsVersion(full) && executable(full) {
				return full
			}
		}
	}
	return ""
}
