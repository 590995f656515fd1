package main

import (
	"archive/tar"
	"bytes"
	"context"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/blakesmith/ar"
	"github.com/ulikunitz/xz"
)

// compressed returns a tar archive under xz.
func compressed(t *testing.T, members ...tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := xz.NewWriter(&out)
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewWriter(w)
	for _, h := range members {
		body := "content of " + h.Name
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(body))
		}
		if err := archive.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := archive.Write([]byte(body)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// deb returns a Debian package with the members.
func deb(t *testing.T, members ...tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	w := ar.NewWriter(&out)
	if err := w.WriteGlobalHeader(); err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string][]byte{"debian-binary": []byte("2.0\n"), "control.tar.xz": compressed(t, tar.Header{Name: "./control", Typeflag: tar.TypeReg, Mode: 0o644}), "data.tar.xz": compressed(t, members...)} {
		if err := w.WriteHeader(&ar.Header{Name: name, Size: int64(len(body)), Mode: 0o100644, ModTime: time.Unix(0, 0)}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(body); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

func TestUnpack(t *testing.T) {
	t.Parallel()
	files := make(map[string]entry)
	data := deb(t,
		tar.Header{Name: "./", Typeflag: tar.TypeDir, Mode: 0o755},
		tar.Header{Name: "./bin", Typeflag: tar.TypeSymlink, Linkname: "usr/bin"},
		tar.Header{Name: "./bin/tool", Typeflag: tar.TypeReg, Mode: 0o4755},
		tar.Header{Name: "./usr/bin/again", Typeflag: tar.TypeLink, Linkname: "./usr/bin/tool"},
		tar.Header{Name: "./usr/share/doc/tool/copyright", Typeflag: tar.TypeReg, Mode: 0o644},
		tar.Header{Name: "./usr/share/doc/tool/changelog", Typeflag: tar.TypeReg, Mode: 0o644},
		tar.Header{Name: "./../../etc/outside", Typeflag: tar.TypeReg, Mode: 0o644},
	)
	if err := unpack(debianPackage{name: "tool"}, data, files); err != nil {
		t.Fatal(err)
	}
	var names []string
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	want := []string{"etc/outside", "usr/bin/again", "usr/bin/tool", "usr/share/doc/tool/copyright", "var/lib/dpkg/status.d/tool"}
	if !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
	if mode := files["usr/bin/tool"].mode; mode != 0o755 {
		t.Errorf("a set-user-ID program has the mode %v", mode)
	}
	if !bytes.Equal(files["usr/bin/again"].body, files["usr/bin/tool"].body) {
		t.Error("a hard link has other content")
	}
	if err := unpack(debianPackage{name: "other"}, data, files); err == nil || !strings.Contains(err.Error(), "two packages have") {
		t.Errorf("two packages with one file: %v", err)
	}
	for name, member := range map[string]tar.Header{
		"a device":                 {Name: "./dev/null", Typeflag: tar.TypeChar},
		"a link to an absent file": {Name: "./usr/bin/x", Typeflag: tar.TypeLink, Linkname: "./usr/bin/absent"},
	} {
		if err := unpack(debianPackage{name: "bad"}, deb(t, member), make(map[string]entry)); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// TestPinnedPackage: bytes that the lock does not pin are refused, whatever the mirror sends.
func TestPinnedPackage(t *testing.T) {
	t.Parallel()
	data := deb(t)
	sent := data
	mirror := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(sent) }))
	defer mirror.Close()
	o := options{root: t.TempDir(), mirror: mirror.URL}
	p := debianPackage{name: "tool", path: "pool/tool.deb", digest: hexDigest(data)}
	sent = append(bytes.Clone(data), 'x')
	if _, err := fetchPackage(context.Background(), o, p); err == nil || !strings.Contains(err.Error(), "not the pinned") {
		t.Errorf("other bytes are accepted: %v", err)
	}
	sent = data
	if _, err := fetchPackage(t.Context(), o, p); err != nil {
		t.Fatal(err)
	}
	mirror.Close()
	if got, err := fetchPackage(t.Context(), o, p); err != nil || !bytes.Equal(got, data) {
		t.Errorf("the cache has not what the mirror sent: %v", err)
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	index := make(map[string]paragraph)
	for _, name := range append(slices.Clone(wanted), "libc6", "libother", "dpkg") {
		index[name] = paragraph{"Package": name}
	}
	index["git"]["Pre-Depends"] = "libc6 (>= 2.41)"
	index["git"]["Depends"] = "absent | libother:any (>= 1), dpkg (>= 1.2)"
	index["libother"]["Depends"] = "git"
	got, err := resolve(index)
	if err != nil {
		t.Fatal(err)
	}
	want := append(slices.Clone(wanted), "libc6", "libother")
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	delete(index, "bubblewrap")
	if _, err := resolve(index); err == nil {
		t.Error("an absent package is accepted")
	}
}

// TestLayer: entries are sorted, have their folders above them, and no name twice.
func TestLayer(t *testing.T) {
	t.Parallel()
	entries, err := sorted([]entry{{name: "usr/bin/b", mode: 0o755}, {name: "usr/bin/a", mode: 0o755}, {name: "tmp", mode: fs.ModeDir | fs.ModeSticky | 0o777}})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := tarball(&out, entries, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	var names []string
	for archive := tar.NewReader(&out); ; {
		h, err := archive.Next()
		if err != nil {
			break
		}
		names = append(names, h.Name)
		if h.Name == "tmp/" && h.Mode != 0o1777 {
			t.Errorf("tmp has the mode %o", h.Mode)
		}
		if h.Uid != 0 || h.Uname != "root" || !h.ModTime.Equal(time.Unix(1, 0)) {
			t.Errorf("%s is of %d %q at %v", h.Name, h.Uid, h.Uname, h.ModTime)
		}
	}
	if want := []string{"tmp/", "usr/", "usr/bin/", "usr/bin/a", "usr/bin/b"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
	if _, err := sorted([]entry{{name: "a"}, {name: "a"}}); err == nil {
		t.Error("two files of one name are accepted")
	}
}
