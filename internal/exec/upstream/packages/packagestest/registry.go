// Package packagestest provides a package registry on loopback for tests, both for npm and for
// wheels.
package packagestest

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
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Registry serves packages. Packages may be added while it serves.
type Registry struct {
	// URL is the npm registry, and Index the index of wheels.
	URL, Index string

	// Authorized, unless nil, reports whether to serve a request with an Authorization header. All
	// other requests get 401.
	Authorized func(authorization string) bool
	// Certificate is the registry's certificate in PEM, if it uses TLS.
	Certificate []byte

	mu       sync.Mutex
	npm      map[string]map[string]map[string]any // by name and version
	wheels   map[string]map[string][]byte         // by name and file
	archives map[string][]byte                    // by path
	asked    []string
}

// New starts a registry that serves until the test ends.
func New(t testing.TB) *Registry {
	r, stop := Start()
	t.Cleanup(stop)
	return r
}

// Start starts a registry that serves until stop is called.
func Start() (r *Registry, stop func()) {
	r = &Registry{npm: map[string]map[string]map[string]any{}, wheels: map[string]map[string][]byte{}, archives: map[string][]byte{}}
	s := httptest.NewServer(http.HandlerFunc(r.serve))
	r.URL, r.Index = s.URL, s.URL+"/simple"
	return r, s.Close
}

// NewPrivate starts a registry with TLS that serves only authorized requests, until the test
// ends.
func NewPrivate(t testing.TB, authorized func(authorization string) bool) *Registry {
	r := &Registry{npm: map[string]map[string]map[string]any{}, wheels: map[string]map[string][]byte{}, archives: map[string][]byte{}, Authorized: authorized}
	s := httptest.NewTLSServer(http.HandlerFunc(r.serve))
	t.Cleanup(s.Close)
	r.URL, r.Index = s.URL, s.URL+"/simple"
	r.Certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return r
}

// PutProbe publishes a version of @probe/server, the program mcp-probe of NodeServer, and its
// dependency. Both have scripts that an installation must not run. It also publishes the wheel
// probe-server of PythonServer.
func (r *Registry) PutProbe(version string) {
	mark := map[string]string{"postinstall": "echo ran > ran-a-script"}
	r.PutNPM("@probe/server", version, map[string]any{
		"bin": map[string]string{"mcp-probe": "server.mjs"}, "dependencies": map[string]string{"probe-part": "^1.0.0"}, "scripts": mark,
	}, map[string]string{"server.mjs": NodeServer})
	r.PutNPM("probe-part", "1.0.3", map[string]any{"scripts": mark}, map[string]string{"index.js": "module.exports = 1\n"})
	r.PutWheel("probe-part", "2.0", nil, nil, map[string]string{"probe_part.py": "NAME = 'part'\n"})
	r.PutWheel("probe-server", version, []string{"probe-part>=1"}, map[string]string{"probe-server": "probe_server:main"}, map[string]string{"probe_server.py": PythonServer})
}

// Asked returns the requested paths in order.
func (r *Registry) Asked() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.asked)
}

// Host returns the host and port of the registry.
func (r *Registry) Host() string { return r.URL[strings.Index(r.URL, "//")+2:] }

// PutNPM publishes a version of a package. manifest has the fields of package.json other than
// name and version.
func (r *Registry) PutNPM(name, version string, manifest map[string]any, files map[string]string) {
	all := maps.Clone(manifest)
	if all == nil {
		all = map[string]any{}
	}
	all["name"], all["version"] = name, version
	text, _ := json.MarshalIndent(all, "", "  ")
	archive := tgz(files, map[string]string{"package.json": string(text)})
	path := fmt.Sprintf("/%s/-/%s-%s.tgz", name, name[strings.LastIndex(name, "/")+1:], version)
	sum := sha512.Sum512(archive)
	all["dist"] = map[string]any{"tarball": r.URL + path, "integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:])}
	if scripts, _ := manifest["scripts"].(map[string]string); scripts["install"]+scripts["postinstall"]+scripts["preinstall"] != "" {
		all["hasInstallScript"] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.npm[name] == nil {
		r.npm[name] = map[string]map[string]any{}
	}
	r.npm[name][version], r.archives[path] = all, archive
}

// Replace serves another archive for a version without changing its digest, like a compromised
// registry.
func (r *Registry) Replace(name, version string, files map[string]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.archives[fmt.Sprintf("/%s/-/%s-%s.tgz", name, name[strings.LastIndex(name, "/")+1:], version)] = tgz(files, map[string]string{"package.json": fmt.Sprintf(`{"name":%q,"version":%q}`, name, version)})
}

func tgz(sets ...map[string]string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, files := range sets {
		for _, name := range slices.Sorted(maps.Keys(files)) {
			_ = w.WriteHeader(&tar.Header{Name: "package/" + name, Mode: 0o644, Size: int64(len(files[name])), ModTime: time.Unix(0, 0)})
			_, _ = w.Write([]byte(files[name]))
		}
	}
	_ = w.Close()
	_ = z.Close()
	return b.Bytes()
}

// PutWheel publishes a pure wheel. scripts are its programs, each as "module:function".
func (r *Registry) PutWheel(name, version string, requires []string, scripts, files map[string]string) {
	under := strings.ReplaceAll(name, "-", "_")
	info := under + "-" + version + ".dist-info/"
	metadata := "Metadata-Version: 2.1\nName: " + name + "\nVersion: " + version + "\n"
	for _, one := range requires {
		metadata += "Requires-Dist: " + one + "\n"
	}
	entries := "[console_scripts]\n"
	for _, script := range slices.Sorted(maps.Keys(scripts)) {
		entries += script + " = " + scripts[script] + "\n"
	}
	all := maps.Clone(files)
	if all == nil {
		all = map[string]string{}
	}
	all[info+"METADATA"], all[info+"entry_points.txt"] = metadata, entries
	all[info+"WHEEL"] = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
	record := ""
	for _, file := range slices.Sorted(maps.Keys(all)) {
		sum := sha256.Sum256([]byte(all[file]))
		record += fmt.Sprintf("%s,sha256=%s,%d\n", file, base64.RawURLEncoding.EncodeToString(sum[:]), len(all[file]))
	}
	all[info+"RECORD"] = record + info + "RECORD,,\n"
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, file := range slices.Sorted(maps.Keys(all)) {
		f, _ := w.Create(file)
		_, _ = f.Write([]byte(all[file]))
	}
	_ = w.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.wheels[name] == nil {
		r.wheels[name] = map[string][]byte{}
	}
	r.wheels[name][under+"-"+version+"-py3-none-any.whl"] = b.Bytes()
}

func (r *Registry) serve(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	path, _ := url.PathUnescape(req.URL.EscapedPath())
	r.asked = append(r.asked, path)
	if r.Authorized != nil && !r.Authorized(req.Header.Get("Authorization")) {
		w.Header().Set("WWW-Authenticate", `Basic realm="packages"`)
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return
	}
	if rest, is := strings.CutPrefix(path, "/simple/"); is {
		r.index(w, req, rest)
		return
	}
	if archive, is := r.archives[path]; is {
		_, _ = w.Write(archive)
		return
	}
	versions, is := r.npm[strings.TrimPrefix(path, "/")]
	if !is {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"error":"not_found"}`))
		return
	}
	newest := slices.Max(slices.Collect(maps.Keys(versions)))
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"name": strings.TrimPrefix(path, "/"), "dist-tags": map[string]string{"latest": newest}, "versions": versions})
}

// index answers as PEP 691 if the client accepts that, otherwise as PEP 503.
func (r *Registry) index(w http.ResponseWriter, req *http.Request, rest string) {
	name, file, _ := strings.Cut(strings.TrimSuffix(rest, "/"), "/")
	wheels, is := r.wheels[name]
	switch {
	case !is:
		http.NotFound(w, req)
		return
	case file != "":
		if wheels[file] == nil {
			http.NotFound(w, req)
			return
		}
		_, _ = w.Write(wheels[file])
		return
	}
	type entry struct {
		Filename string            `json:"filename"`
		URL      string            `json:"url"`
		Hashes   map[string]string `json:"hashes"`
	}
	var files []entry
	page := "<!DOCTYPE html><html><body>\n"
	for _, one := range slices.Sorted(maps.Keys(wheels)) {
		sum := sha256.Sum256(wheels[one])
		link := r.Index + "/" + name + "/" + one
		files = append(files, entry{one, link, map[string]string{"sha256": hex.EncodeToString(sum[:])}})
		page += fmt.Sprintf("<a href=%q>%s</a><br>\n", link+"#sha256="+hex.EncodeToString(sum[:]), one)
	}
	if strings.Contains(req.Header.Get("Accept"), "application/vnd.pypi.simple.v1+json") {
		w.Header().Set("Content-Type", "application/vnd.pypi.simple.v1+json")
		_ = json.NewEncoder(w).Encode(map[string]any{"meta": map[string]string{"api-version": "1.0"}, "name": name, "files": files})
		return
	}
	w.Header().Set("Content-Type", "text/html")
	_, _ = w.Write([]byte(page + "</body></html>\n"))
}
