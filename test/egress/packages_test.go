//go:build linux

package egress

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"palyra/internal/core/must"
	"palyra/internal/exec/sandbox/jail/jailtest"
)

// serveGit serves a repository with one commit, using git itself.
func (w *world) serveGit(mux *http.ServeMux) {
	w.t.Helper()
	dir := jailtest.Dir(w.t)
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1"}
	git := func(args ...string) string {
		cmd := exec.CommandContext(w.t.Context(), "git", args...)
		cmd.Dir, cmd.Env = dir, env
		text, err := cmd.CombinedOutput()
		if err != nil {
			w.t.Fatalf("git %v: %v\n%s", args, err, text)
		}
		return strings.TrimSpace(string(text))
	}
	git("init", "-q", "-b", "main", "work")
	jailtest.WriteFile(w.t, filepath.Join(dir, "work", "README"), "cloned\n", 0o644)
	git("-C", "work", "add", "README")
	git("-C", "work", "-c", "user.name=x", "-c", "user.email=x@x", "commit", "-q", "-m", "first")
	git("clone", "-q", "--bare", "work", "tiny.git")
	mux.Handle(gitHost+"/", &cgi.Handler{
		Path: filepath.Join(git("--exec-path"), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1", "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1"}, Stderr: io.Discard,
	})
}

// serveRegistry is an npm registry with one package.
func (w *world) serveRegistry(mux *http.ServeMux) {
	w.t.Helper()
	manifest := map[string]any{"name": "tiny", "version": "1.0.0", "main": "index.js"}
	text := must.Get(json.Marshal(manifest))(w.t)
	var packed bytes.Buffer
	zipped := gzip.NewWriter(&packed)
	files := tar.NewWriter(zipped)
	for _, f := range [][2]string{{"package/package.json", string(text)}, {"package/index.js", "module.exports = 'installed';\n"}} {
		must.Do(w.t, files.WriteHeader(&tar.Header{Name: f[0], Mode: 0o644, Size: int64(len(f[1]))}))
		must.Get(io.WriteString(files, f[1]))(w.t)
	}
	must.Do(w.t, files.Close())
	must.Do(w.t, zipped.Close())
	sum := sha512.Sum512(packed.Bytes())
	mux.HandleFunc("GET "+npmHost+"/tiny", func(rw http.ResponseWriter, r *http.Request) {
		scheme := "http://"
		if r.TLS != nil {
			scheme = "https://"
		}
		manifest := map[string]any{
			"name": "tiny", "version": "1.0.0", "main": "index.js",
			"dist": map[string]any{"tarball": scheme + npmHost + "/tiny/-/tiny-1.0.0.tgz", "integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:])},
		}
		rw.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(rw).Encode(map[string]any{"name": "tiny", "dist-tags": map[string]string{"latest": "1.0.0"}, "versions": map[string]any{"1.0.0": manifest}})
	})
	mux.HandleFunc("GET "+npmHost+"/tiny/-/tiny-1.0.0.tgz", func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write(packed.Bytes()) })
}

// serveIndex is a Python package index with one wheel.
func (w *world) serveIndex(mux *http.ServeMux) {
	w.t.Helper()
	const info = "tiny-1.0.dist-info/"
	var wheel bytes.Buffer
	files := zip.NewWriter(&wheel)
	for _, f := range [][2]string{
		{"tiny/__init__.py", "said = 'downloaded'\n"},
		{info + "METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n"},
		{info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		{info + "RECORD", "tiny/__init__.py,,\n" + info + "METADATA,,\n" + info + "WHEEL,,\n" + info + "RECORD,,\n"},
	} {
		file := must.Get(files.Create(f[0]))(w.t)
		must.Get(io.WriteString(file, f[1]))(w.t)
	}
	must.Do(w.t, files.Close())
	sum := sha256.Sum256(wheel.Bytes())
	const name = "tiny-1.0-py3-none-any.whl"
	mux.HandleFunc("GET "+pypiHost+"/simple/tiny/", func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(rw, `<!DOCTYPE html><html><body><a href="/files/`+name+`#sha256=`+hex.EncodeToString(sum[:])+`">`+name+`</a></body></html>`)
	})
	mux.HandleFunc("GET "+pypiHost+"/files/"+name, func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write(wheel.Bytes()) })
}
