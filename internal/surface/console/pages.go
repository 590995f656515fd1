package console

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"sync"
)

// Files are the files of the console (package assets).
type Files = fs.FS

// indexPage is served for every path of the console: the browser renders its pages.
const indexPage = "index.html"

// pages holds the files in memory.
type pages struct{ byName map[string]*file }

// file has both forms of a file. The one that is not embedded is made at its first use.
type file struct {
	kind  string
	plain func() []byte
	// packed is compressed; nil for kinds of files that compression does not make smaller.
	packed func() []byte
}

// packedSuffix ends the names of files that the build of the console compressed.
const packedSuffix = ".gz"

func readPages(files fs.FS) (*pages, error) {
	p := &pages{byName: map[string]*file{}}
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		name, isPacked := strings.CutSuffix(name, packedSuffix)
		p.byName[name] = newFile(name, text, isPacked)
		return nil
	})
	if err == nil && p.byName[indexPage] == nil {
		err = fmt.Errorf("%s is missing", indexPage)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the files of the console: %w", err)
	}
	return p, nil
}

func newFile(name string, text []byte, isPacked bool) *file {
	kind := mime.TypeByExtension(path.Ext(name))
	if own, known := kinds[path.Ext(name)]; known {
		kind = own
	}
	embedded := func() []byte { return text }
	f := &file{kind: kind, plain: embedded}
	switch {
	case isPacked:
		f.plain, f.packed = sync.OnceValue(func() []byte { return unpacked(text) }), embedded
	case strings.HasPrefix(kind, "text/") || strings.Contains(kind, "json") || strings.Contains(kind, "svg") || strings.Contains(kind, "wasm"):
		f.packed = sync.OnceValue(func() []byte { return packed(text) })
	}
	return f
}

// kinds are the content types that must not depend on the configuration of the machine.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".mjs": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
	".svg": "image/svg+xml", ".wasm": "application/wasm", ".woff2": "font/woff2", ".json": "application/json", ".webmanifest": "application/manifest+json", ".png": "image/png", ".ico": "image/x-icon",
}

// packed returns nil for a text that compression does not make smaller.
func packed(text []byte) []byte {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil
	}
	_, err = w.Write(text)
	if w.Close() != nil || err != nil || b.Len() >= len(text) {
		return nil
	}
	return b.Bytes()
}

// unpacked returns nil for a file that is damaged.
func unpacked(text []byte) []byte {
	r, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		return nil
	}
	plain, err := io.ReadAll(r)
	if err != nil {
		return nil
	}
	return plain
}

// ServeHTTP serves a file by its name, and index.html for every path of the console.
func (p *pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(path.Clean(r.URL.Path), "/")
	f, known := p.byName[name]
	switch {
	case known && name != indexPage:
	case isFile(name):
		http.NotFound(w, r)
		return
	default:
		name, f = indexPage, p.byName[indexPage]
	}
	h := w.Header()
	h.Set("Content-Type", f.kind)
	if strings.HasPrefix(name, "assets/") {
		// Their names contain a hash of their content.
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	if worker(name) {
		h.Set("Content-Security-Policy", workerPolicy)
	}
	var text []byte
	if f.packed != nil {
		h.Set("Vary", "Accept-Encoding")
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			text = f.packed()
		}
	}
	if text != nil {
		h.Set("Content-Encoding", "gzip")
	} else if text = f.plain(); text == nil {
		h.Set("Cache-Control", "no-store")
		http.Error(w, "this file of the console is damaged; install palyrad again", http.StatusInternalServerError)
		return
	}
	h.Set("Content-Length", fmt.Sprint(len(text)))
	if r.Method == http.MethodHead {
		return
	}
	// The browser may have disconnected.
	_, _ = w.Write(text)
}

// isFile reports whether a name belongs to a file or a route, for which the index is never served.
// Every other path is a page, including names with a dot: a tool (/tools/process.run) or a member.
func isFile(name string) bool {
	folder, _, below := strings.Cut(name, "/")
	return folder == "assets" || folder == "console" || strings.HasPrefix(name, ".") || !below && path.Ext(name) != ""
}

// worker reports whether a file is the script of a Worker that compiles WebAssembly. Such a
// script has its own policy, which allows the compilation.
func worker(name string) bool {
	base := path.Base(name)
	return strings.HasPrefix(base, "wasm-worker") && path.Ext(base) == ".js"
}
