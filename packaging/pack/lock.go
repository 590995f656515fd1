package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ulikunitz/xz"
)

const (
	suite = "trixie"
	// Debian's own keys, by which the mirror need not be trusted.
	keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"
)

// wanted are the packages of the image with sandbox: bubblewrap, and the programs that agents run
// most. What they depend on is added.
var wanted = []string{"base-files", "bash", "bubblewrap", "coreutils", "dash", "diffutils", "findutils", "git", "grep", "gzip", "sed", "tar"}

// writeLock resolves the wanted packages in the newest index of Debian, and pins them.
func writeLock(ctx context.Context, o options) error {
	release, err := fetch(ctx, o.mirror+"/dists/"+suite+"/InRelease")
	if err != nil {
		return err
	}
	check := exec.CommandContext(ctx, "gpgv", "--quiet", "--keyring", keyring, "--output", "-", "-")
	var problem bytes.Buffer
	check.Stdin, check.Stderr = bytes.NewReader(release), &problem
	signed, err := check.Output()
	if err != nil {
		return fmt.Errorf("the index of %s is not signed by the keys of %s: %w\n%s", suite, keyring, err, problem.String())
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "# The Debian packages of the image with sandbox, written by `make debian-lock`: architecture,\n# name, version, SHA-256, path below the mirror.\n")
	for _, arch := range linuxArches {
		index, err := fetchIndex(ctx, o, string(signed), arch)
		if err != nil {
			return err
		}
		chosen, err := resolve(index)
		if err != nil {
			return err
		}
		for _, name := range chosen {
			p := index[name]
			fmt.Fprintln(&out, arch, name, p["Version"], p["SHA256"], p["Filename"])
		}
	}
	return writeFile(filepath.Join(o.root, lockName), out.Bytes(), 0o644)
}

// A paragraph has the fields of one package.
type paragraph map[string]string

// fetchIndex returns the packages of an architecture by name, and by the names that they provide.
func fetchIndex(ctx context.Context, o options, release, arch string) (map[string]paragraph, error) {
	name := "main/binary-" + arch + "/Packages.xz"
	data, err := fetch(ctx, o.mirror+"/dists/"+suite+"/"+name)
	if err != nil {
		return nil, err
	}
	_, digests, _ := strings.Cut(release, "\nSHA256:")
	if !slices.ContainsFunc(strings.Split(digests, "\n"), func(line string) bool {
		f := strings.Fields(line)
		return len(f) == 3 && f[2] == name && f[0] == hexDigest(data)
	}) {
		return nil, fmt.Errorf("%s has the digest %s, which the signed index does not list; try again", name, hexDigest(data))
	}
	plain, err := xz.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(plain)
	if err != nil {
		return nil, err
	}
	index := make(map[string]paragraph)
	provided := make(map[string]paragraph)
	for block := range strings.SplitSeq(string(text), "\n\n") {
		p := make(paragraph)
		for line := range strings.Lines(block) {
			if key, value, ok := strings.Cut(line, ": "); ok && !strings.HasPrefix(line, " ") {
				p[key] = strings.TrimSpace(value)
			}
		}
		index[p["Package"]] = p
		for virtual := range strings.SplitSeq(p["Provides"], ",") {
			virtual, _, _ = strings.Cut(strings.TrimSpace(virtual), " ")
			if _, ok := provided[virtual]; !ok {
				provided[virtual] = p
			}
		}
	}
	for name, p := range provided {
		if _, ok := index[name]; !ok {
			index[name] = p
		}
	}
	return index, nil
}

// resolve returns the names of the wanted packages and what they depend on, sorted. Of alternatives
// it takes the first that exists. Debian's own scripts do not run in an image, so that what only they
// need is left out.
func resolve(index map[string]paragraph) ([]string, error) {
	var chosen []string
	open := slices.Clone(wanted)
	for len(open) > 0 {
		name := open[0]
		open = open[1:]
		p, ok := index[name]
		if !ok {
			return nil, fmt.Errorf("%s has no package %s", suite, name)
		}
		name = p["Package"]
		if slices.Contains(chosen, name) {
			continue
		}
		chosen = append(chosen, name)
		for dependency := range strings.SplitSeq(p["Pre-Depends"]+","+p["Depends"], ",") {
			var first string
			for alternative := range strings.SplitSeq(dependency, "|") {
				f := strings.Fields(alternative)
				if len(f) == 0 {
					continue
				}
				candidate, _, _ := strings.Cut(f[0], ":")
				if _, ok := index[candidate]; ok {
					first = candidate
					break
				}
			}
			if first != "" && !slices.Contains(forScripts, first) {
				open = append(open, first)
			}
		}
	}
	if len(chosen) == 0 {
		return nil, errors.New("no package is wanted")
	}
	slices.Sort(chosen)
	return chosen, nil
}

// forScripts are the packages that only maintainer scripts use.
var forScripts = []string{"debconf", "debconf-2.0", "debianutils", "dpkg", "install-info", "cdebconf"}
