package console

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"palyra/internal/core/must"
)

// TestPackedPages: a file has the same content whether it is embedded compressed or not, and whether
// the browser accepts compression or not.
func TestPackedPages(t *testing.T) {
	t.Parallel()
	script := strings.Repeat("console.log(1);\n", 200)
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	must.Get(io.WriteString(z, script))(t)
	must.Do(t, z.Close())
	p := must.Get(readPages(fstest.MapFS{
		"index.html": {Data: []byte("<title>console</title>")}, "assets/plain.js": {Data: []byte(script)}, "assets/packed.js.gz": {Data: zipped.Bytes()},
		"assets/damaged.js.gz": {Data: zipped.Bytes()[:40]}, "assets/picture.png": {Data: []byte(script)},
	}))(t)
	get := func(path, accept string) *http.Response {
		r := httptest.NewRequest(http.MethodGet, path, http.NoBody)
		r.Header.Set("Accept-Encoding", accept)
		w := httptest.NewRecorder()
		p.ServeHTTP(w, r)
		return w.Result()
	}
	for _, path := range []string{"/assets/plain.js", "/assets/packed.js"} {
		for accept, encoding := range map[string]string{"gzip, br": "gzip", "br": "", "": ""} {
			res := get(path, accept)
			if res.StatusCode != http.StatusOK || res.Header.Get("Content-Encoding") != encoding || res.Header.Get("Vary") != "Accept-Encoding" ||
				res.Header.Get("Content-Type") != "text/javascript; charset=utf-8" || !strings.Contains(res.Header.Get("Cache-Control"), "immutable") {
				t.Errorf("%s, accepting %q: %s, %v", path, accept, res.Status, res.Header)
			}
			body := io.Reader(res.Body)
			if encoding == "gzip" {
				body = must.Get(gzip.NewReader(body))(t)
			}
			if got := string(must.Get(io.ReadAll(body))(t)); got != script {
				t.Errorf("%s, accepting %q: %d bytes, want %d", path, accept, len(got), len(script))
			}
		}
	}
	if res := get("/assets/picture.png", "gzip"); res.Header.Get("Content-Encoding") != "" || res.Header.Get("Vary") != "" {
		t.Errorf("a picture: %v", res.Header)
	}
	if res := get("/assets/packed.js.gz", "gzip"); res.StatusCode != http.StatusNotFound {
		t.Errorf("the name of a compressed file: %s", res.Status)
	}
	// A browser that accepts compression notices the damage itself.
	if res := get("/assets/damaged.js", ""); res.StatusCode != http.StatusInternalServerError || res.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("a damaged file: %s, %v", res.Status, res.Header)
	}
	if res := get("/calls", "gzip"); res.Header.Get("Content-Encoding") != "" || must.Get(io.ReadAll(res.Body))(t) == nil {
		t.Errorf("a page too small to compress: %v", res.Header)
	}
}
