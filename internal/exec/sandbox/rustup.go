package sandbox

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"palyra/internal/core/reason"
)

// rustup is what the links in ~/.cargo/bin lead to. It chooses a toolchain by its
// settings, by files in the workspace or by a first argument such as +nightly, and may
// install one: no sandbox shows it what it chooses by.
const rustup = "rustup"

// CheckRustup refuses a program that could only say that it finds no toolchain: a link
// of rustup's, and a +nightly that nothing but rustup reads. What it says to type
// instead is the program of the toolchain itself.
func CheckRustup(p Program, argv []string, toolchains []Toolchain) error {
	link := p.ofRustup()
	version, plus, chosen := "", false, ""
	if len(argv) > 1 {
		version, plus = strings.CutPrefix(argv[1], "+")
		chosen = inVersions(p.Called, version, toolchains)
	}
	// Of a cargo of the distribution's, too, nobody else means a toolchain that there is.
	known := chosen != "" || slices.ContainsFunc(toolchains, func(t Toolchain) bool { return t.holdsVersion(p.Path) })
	switch {
	case plus && (link || known):
		err := reason.Errorf(reason.InvalidInput, "%q chooses no toolchain in a sandbox: rustup reads it, and does not run there", "+"+shorten(version))
		if chosen != "" {
			return err.WithRemedy("Use %s in place of %s and +%s.", chosen, p.Called, shorten(version))
		}
		return err.WithRemedy("Leave it out, or install a toolchain of this name that has %s, outside (`rustup toolchain install`); `palyrad doctor` says which directories are left out.", p.Called)
	case link:
		err := reason.Errorf(reason.SpawnFailed, "%s is a link of rustup's, which finds no toolchain in a sandbox", shorten(p.Called))
		if instead := inBins(p.Called, toolchains); instead != "" {
			return err.WithRemedy("Use %s.", instead)
		}
		return err.WithRemedy("Install what has it in the default toolchain, outside (`rustup component add`), or name the directory of a toolchain in process_runner.toolchains.")
	}
	return nil
}

// ofRustup reports whether a program is a symbolic or hard link to rustup, by another
// name than that.
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

// holdsVersion reports whether a file is part of one of several versions.
func (t Toolchain) holdsVersion(name string) bool { return t.Versions != "" && below(name, t.Versions) }

// inVersions is the program of the version that rustup would take for a name:
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

// inBins is the program of the version that counts.
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
