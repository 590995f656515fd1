package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"

	"golang.org/x/sync/errgroup"

	"palyra/packaging/linked"
)

// writeArtifacts writes everything that has a digest in SHA256SUMS, and the lists.
func writeArtifacts(ctx context.Context, o options) error {
	rel, err := o.release()
	if err != nil {
		return err
	}
	if err := makeFolder(o.out); err != nil {
		return err
	}
	write := func(name string, data []byte) error {
		fmt.Fprintf(os.Stderr, "%s %d bytes\n", name, len(data))
		return writeFile(filepath.Join(o.out, name), data, 0o644)
	}
	// Compression takes most of the time.
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	artifact := func(name string, produce func() ([]byte, error)) {
		group.Go(func() error {
			data, err := produce()
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return write(name, data)
		})
	}
	for _, img := range images {
		artifact(img.fileName(rel), func() ([]byte, error) { return img.archive(ctx, o, rel) })
	}
	for _, arch := range linuxArches {
		for _, format := range linuxFormats {
			artifact(format.fileName(rel.version, arch), func() ([]byte, error) { return linuxPackage(o, rel, format, arch, "xz") })
		}
	}
	for _, p := range platforms {
		artifact(rel.archive(p), func() ([]byte, error) { return archive(o, rel, p) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	formula, err := formula(o, rel)
	if err != nil {
		return err
	}
	if err := write("palyra.rb", formula); err != nil {
		return err
	}
	installer, err := installer(o)
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(o.out, "install.sh"), installer, 0o755); err != nil {
		return err
	}
	return writeSums(o)
}

// installer returns install.sh with the public key of the release, so that its user gets both from
// one place.
func installer(o options) ([]byte, error) {
	script, err := os.ReadFile(filepath.Join(o.root, "packaging", "install.sh"))
	if err != nil {
		return nil, err
	}
	if _, _, err := o.keys.public(); err != nil {
		return nil, err
	}
	key, err := os.ReadFile(filepath.Join(o.keys.folder, ecdsaPublic))
	if err != nil {
		return nil, err
	}
	return bytes.Replace(script, []byte("'@KEY@'"), []byte("'"+string(bytes.TrimSpace(key))+"'"), 1), nil
}

// archive returns the archive of a platform: one folder with the programs, what belongs to the
// services of the system, manual pages, completions and documents.
func archive(o options, rel release, p linked.Platform) ([]byte, error) {
	top := "palyra_" + rel.version + "_" + folder(p)
	var entries []entry
	for _, name := range programs(p) {
		entries = append(entries, entry{name: path.Join(top, "bin", name), mode: 0o755, source: filepath.Join(o.stage, folder(p), name)})
	}
	documents, err := documents(o, path.Join(top, "share/doc/palyra"))
	if err != nil {
		return nil, err
	}
	entries = append(entries, documents...)
	if p.OS != "windows" {
		pages, err := tree(filepath.Join(o.stage, "share"), path.Join(top, "share"))
		if err != nil {
			return nil, err
		}
		entries = append(entries, pages...)
	}
	services, err := services(o, top, p)
	if err != nil {
		return nil, err
	}
	if entries, err = sorted(append(entries, services...)); err != nil {
		return nil, err
	}
	if p.OS == "windows" {
		return zipped(entries, rel.date)
	}
	return tarGzip(entries, rel.date)
}

// services returns the definitions by which the system starts palyrad. They are templates: whoever
// installs them puts the folder of the programs in the place of @BINDIR@.
func services(o options, top string, p linked.Platform) ([]entry, error) {
	source := filepath.Join(o.root, "packaging")
	at := func(from, to string) entry {
		return entry{name: path.Join(top, "lib", to), mode: 0o644, source: filepath.Join(source, from)}
	}
	switch p.OS {
	case "linux":
		return []entry{at("linux/palyrad.service", "systemd/system/palyrad.service"), at("linux/palyrad.user.service", "systemd/user/palyrad.service"), at("linux/palyra.sysusers", "sysusers.d/palyra.conf")}, nil
	case "darwin":
		return tree(filepath.Join(source, "macos"), path.Join(top, "lib/launchd"))
	case "windows":
		return tree(filepath.Join(source, "windows"), path.Join(top, "lib/windows"))
	}
	return nil, fmt.Errorf("%s has no definition of a service", p.OS)
}
