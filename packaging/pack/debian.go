package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/blakesmith/ar"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// The image with sandbox has a Debian system of pinned packages, unpacked without running their
// scripts, as the images called distroless have.

// A debianPackage is a line of debian.lock: architecture, name, version, SHA-256 and the path below
// the mirror.
type debianPackage struct{ arch, name, version, digest, path string }

// lockName is the file that pins the packages. `pack debian` writes it.
const lockName = "packaging/linux/debian.lock"

func readLock(o options) ([]debianPackage, error) {
	data, err := os.ReadFile(filepath.Join(o.root, lockName))
	if err != nil {
		return nil, err
	}
	var packages []debianPackage
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Fields(line)
		if len(f) != 5 || len(f[3]) != sha256.Size*2 {
			return nil, fmt.Errorf("%s: %q does not have the fields architecture, name, version, SHA-256 and path", lockName, line)
		}
		packages = append(packages, debianPackage{f[0], f[1], f[2], f[3], f[4]})
	}
	return packages, nil
}

// debianSystem returns the files of the pinned packages of an architecture.
func debianSystem(ctx context.Context, o options, arch string) ([]entry, error) {
	packages, err := readLock(o)
	if err != nil {
		return nil, err
	}
	byName := make(map[string]entry)
	// Every folder below / that Debian has merged into /usr.
	for _, name := range []string{"bin", "lib", "lib64", "sbin"} {
		byName[name] = entry{name: name, mode: fs.ModeSymlink | 0o777, target: "usr/" + name}
		byName["usr/"+name] = entry{name: "usr/" + name, mode: fs.ModeDir | 0o755}
	}
	for _, p := range packages {
		if p.arch != arch {
			continue
		}
		data, err := fetchPackage(ctx, o, p)
		if err != nil {
			return nil, err
		}
		if err := unpack(p, data, byName); err != nil {
			return nil, fmt.Errorf("%s: %w", p.path, err)
		}
	}
	entries := make([]entry, 0, len(byName))
	for _, e := range byName {
		entries = append(entries, e)
	}
	return entries, nil
}

// fetchPackage returns the bytes of a package with the pinned digest, from .tools/debian or
// from the mirror.
func fetchPackage(ctx context.Context, o options, p debianPackage) ([]byte, error) {
	name := filepath.Join(o.root, ".tools", "debian", p.digest+".deb")
	data, err := os.ReadFile(name)
	if err == nil && hexDigest(data) == p.digest {
		return data, nil
	}
	if data, err = fetch(ctx, o.mirror+"/"+p.path); err != nil {
		return nil, fmt.Errorf("%w; the mirror may have a newer version: `make debian-lock` pins it", err)
	}
	if got := hexDigest(data); got != p.digest {
		return nil, fmt.Errorf("%s from the mirror has the digest %s, not the pinned %s", p.path, got, p.digest)
	}
	return data, errors.Join(makeFolder(filepath.Dir(name)), writeFile(name, data, 0o644))
}

func hexDigest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// fetch returns the body of a URL, at most 256 MiB.
func fetch(ctx context.Context, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", url, response.Status)
	}
	return io.ReadAll(io.LimitReader(response.Body, 256<<20))
}

// left out of the image: documents other than licences, translations and manual pages.
func isLeftOut(name string) bool {
	if strings.HasPrefix(name, "usr/share/doc/") {
		return path.Base(name) != "copyright"
	}
	for _, folder := range []string{"usr/share/man", "usr/share/locale", "usr/share/info", "usr/share/lintian", "usr/share/bash-completion", "usr/share/doc-base"} {
		if name == folder || strings.HasPrefix(name, folder+"/") {
			return true
		}
	}
	return false
}

// unpack adds the files of a package, and its control data as the status of an installed package,
// from which scanners read what an image has.
func unpack(p debianPackage, data []byte, into map[string]entry) error {
	archive := ar.NewReader(bytes.NewReader(data))
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := strings.TrimSuffix(header.Name, "/")
		switch {
		case strings.HasPrefix(name, "control.tar"):
			err = eachFile(name, archive, func(h *tar.Header, body []byte) error {
				if path.Clean(h.Name) == "control" {
					status := "var/lib/dpkg/status.d/" + p.name
					into[status] = entry{name: status, mode: 0o644, body: body}
				}
				return nil
			})
		case strings.HasPrefix(name, "data.tar"):
			err = eachFile(name, archive, func(h *tar.Header, body []byte) error { return add(h, body, into) })
		}
		if err != nil {
			return err
		}
	}
}

// eachFile calls do for each member of a compressed tar archive.
func eachFile(name string, compressed io.Reader, do func(*tar.Header, []byte) error) error {
	var plain io.Reader
	switch path.Ext(name) {
	case ".xz":
		r, err := xz.NewReader(bufio.NewReader(compressed))
		if err != nil {
			return err
		}
		plain = r
	case ".zst":
		r, err := zstd.NewReader(compressed)
		if err != nil {
			return err
		}
		defer r.Close()
		plain = r
	default:
		return fmt.Errorf("%s has an unknown compression", name)
	}
	members := tar.NewReader(plain)
	for {
		h, err := members.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		body, err := io.ReadAll(members)
		if err != nil {
			return err
		}
		if err := do(h, body); err != nil {
			return err
		}
	}
}

// add adds one member of a package.
func add(h *tar.Header, body []byte, into map[string]entry) error {
	name := strings.TrimPrefix(path.Clean("/"+h.Name), "/")
	if name == "" || isLeftOut(name) {
		return nil
	}
	if top, rest, ok := strings.Cut(name, "/"); ok && slices.Contains([]string{"bin", "lib", "lib64", "sbin"}, top) {
		name = "usr/" + top + "/" + rest
	} else if !ok && slices.Contains([]string{"bin", "lib", "lib64", "sbin"}, top) {
		return nil
	}
	e := entry{name: name, mode: h.FileInfo().Mode().Perm(), body: body}
	switch h.Typeflag {
	case tar.TypeReg:
		if h.Mode&0o6000 != 0 { // no program of the image gains rights
			e.mode &= 0o755
		}
	case tar.TypeDir:
		e.mode |= fs.ModeDir
	case tar.TypeSymlink:
		e.mode, e.target = fs.ModeSymlink|0o777, h.Linkname
	case tar.TypeLink:
		linked, ok := into[strings.TrimPrefix(path.Clean("/"+h.Linkname), "/")]
		if !ok {
			return fmt.Errorf("%s is a link to %s, which is absent", name, h.Linkname)
		}
		e.mode, e.body = linked.mode, linked.body
	default:
		return fmt.Errorf("%s has the type %q", name, h.Typeflag)
	}
	if old, ok := into[name]; ok && !(old.mode.IsDir() && e.mode.IsDir()) {
		return fmt.Errorf("two packages have %s", name)
	}
	into[name] = e
	return nil
}
