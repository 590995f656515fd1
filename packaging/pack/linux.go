package main

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers the format
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm" // registers the format
)

const (
	summary = "Gateway between language-model agents and a machine"
	// The first line of a Debian description is its synopsis.
	description = summary + `
Palyra decides every tool call of a model or an agent with Cedar policy, asks a
person where policy requires it, runs the call in a sandbox that the kernel
enforces, and leaves a signed record that anyone can verify.
The package starts nothing by itself.`
	maintainer = "The Palyra maintainers <maintainers@palyra.invalid>"
)

// A linuxFormat is a format of packages.
type linuxFormat struct {
	name string
	// fileName is that of the package of a version, release 1, and architecture.
	fileName func(version, arch string) string
}

var linuxFormats = []linuxFormat{
	{
		name:     "deb",
		fileName: func(version, arch string) string { return "palyra_" + version + "_" + arch + ".deb" },
	},
	{
		name: "rpm",
		fileName: func(version, arch string) string {
			return "palyra-" + version + "-1." + map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[arch] + ".rpm"
		},
	},
}

// linuxPackage returns the bytes of a package of the tree that scripts/install.sh made.
func linuxPackage(o options, rel release, format linuxFormat, arch, compression string) ([]byte, error) {
	contents, err := packageContents(o, arch)
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "palyra-scripts-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	scripts, err := maintainerScripts(o, rel, folder)
	if err != nil {
		return nil, err
	}
	libc, err := libcVersion(filepath.Join(o.stage, "linux_"+arch, "palyra-wasm"))
	if err != nil {
		return nil, err
	}
	// Without bubblewrap palyrad starts, and programs do not run in the full sandbox. palyra-wasm is
	// the only program that needs libraries. doctor names what is missing.
	recommended := []string{"bubblewrap", "libc6 (>= " + libc + ")", "libgcc-s1"}
	if format.name == "rpm" {
		recommended = []string{"bubblewrap", "glibc >= " + libc, "libgcc"}
	}
	info := nfpm.WithDefaults(&nfpm.Info{
		Name:          "palyra",
		Arch:          arch,
		Platform:      "linux",
		Version:       rel.version,
		VersionSchema: "none", // as it is
		Release:       "1",
		Section:       "admin",
		Priority:      "optional",
		Maintainer:    maintainer,
		Description:   description,
		License:       "Apache-2.0",
		MTime:         rel.date,
		Overridables: nfpm.Overridables{
			Contents:   contents,
			Scripts:    scripts,
			Recommends: recommended,
			Deb:        nfpm.Deb{Compression: compression},
			RPM:        nfpm.RPM{Compression: compression, Summary: summary, BuildHost: "localhost", Packager: maintainer},
		},
	})
	if format.name == "deb" {
		info.Release = "" // a native version has no Debian revision
	}
	if err := nfpm.PrepareForPackager(info, format.name); err != nil {
		return nil, err
	}
	packager, err := nfpm.Get(format.name)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := packager.Package(info, &out); err != nil {
		return nil, fmt.Errorf("the %s of %s: %w", format.name, arch, err)
	}
	return out.Bytes(), nil
}

// packageContents returns the files of a package: the installed tree, the documents and the
// configuration, which stays as people change it.
func packageContents(o options, arch string) (files.Contents, error) {
	root := filepath.Join(o.stage, "linux_"+arch+".root")
	entries, err := tree(root, "")
	if err != nil {
		return nil, fmt.Errorf("%w; scripts/packages.sh makes the stage", err)
	}
	documents, err := documents(o, "usr/share/doc/palyra")
	if err != nil {
		return nil, err
	}
	entries = append(entries, documents...)
	var contents files.Contents
	for _, e := range entries {
		contents = append(contents, &files.Content{Source: e.source, Destination: "/" + e.name, FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: e.mode.Perm()}})
	}
	// preinst has created the user when the files are unpacked.
	contents = append(contents,
		&files.Content{Destination: "/etc/palyra", Type: files.TypeDir, FileInfo: &files.ContentFileInfo{Owner: "root", Group: "palyra", Mode: 0o750}},
		&files.Content{Source: filepath.Join(o.root, "packaging/linux/palyra.toml"), Destination: "/etc/palyra/palyra.toml", Type: files.TypeConfigNoReplace, FileInfo: &files.ContentFileInfo{Owner: "root", Group: "palyra", Mode: 0o640}},
		&files.Content{Destination: "/var/lib/palyra", Type: files.TypeDir, FileInfo: &files.ContentFileInfo{Owner: "palyra", Group: "palyra", Mode: 0o700}},
	)
	return contents, nil
}

// documents returns the documents that every artifact carries.
func documents(o options, prefix string) ([]entry, error) {
	var entries []entry
	// Debian's name of the licence is copyright.
	for name, as := range map[string]string{"LICENSE": "copyright", "THIRD-PARTY-NOTICES": "THIRD-PARTY-NOTICES", "CHANGELOG.md": "CHANGELOG.md", "README.md": "README.md"} {
		if !strings.HasPrefix(prefix, "usr/") && name == "LICENSE" {
			as = name
		}
		source := filepath.Join(o.root, name)
		if info, err := os.Stat(source); err != nil || !info.Mode().IsRegular() {
			return nil, fmt.Errorf("%s is absent: every artifact carries it", source)
		}
		entries = append(entries, entry{name: prefix + "/" + as, mode: fs.FileMode(0o644), source: source})
	}
	return entries, nil
}

// libcVersion returns the newest version of the GNU C library that a program asks for.
func libcVersion(program string) (string, error) {
	file, err := elf.Open(program)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	symbols, err := file.ImportedSymbols()
	if err != nil {
		return "", fmt.Errorf("%s: %w", program, err)
	}
	newest := 0
	for _, symbol := range symbols {
		minor, ok := strings.CutPrefix(symbol.Version, "GLIBC_2.")
		if !ok {
			continue
		}
		minor, _, _ = strings.Cut(minor, ".") // GLIBC_2.2.5
		number, err := strconv.Atoi(minor)
		if err != nil {
			return "", fmt.Errorf("%s needs the version %s of the C library", program, symbol.Version)
		}
		newest = max(newest, number)
	}
	if newest == 0 {
		return "", fmt.Errorf("%s needs no version of the GNU C library", program)
	}
	return "2." + strconv.Itoa(newest), nil
}
