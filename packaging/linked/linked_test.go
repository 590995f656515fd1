package linked

import (
	"debug/buildinfo"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// TestModulesAreThoseOfTheProgram compares the answer with the list that the linker wrote into a
// program.
func TestModulesAreThoseOfTheProgram(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "palyra")
	build := exec.CommandContext(t.Context(), "go", "build", "-p", "1", "-trimpath", "-buildvcs=false", "-o", file, "./cmd/palyra")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building palyra: %v\n%s", err, out)
	}
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"std " + info.GoVersion + " "}
	for _, dep := range info.Deps {
		want = append(want, dep.Path+" "+dep.Version+" "+dep.Sum)
	}
	slices.Sort(want)
	modules, err := modules(t.Context(), root, []product{{name: "palyra"}, {name: "palyra-wasm", cgo: true, linuxOnly: true}}, []Platform{{"linux", "amd64"}, {"darwin", "arm64"}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	program := Program{"palyra", "linux", "amd64"}
	for _, m := range modules {
		if slices.Contains(m.In, program) {
			got = append(got, m.Path+" "+m.Version+" "+m.Sum)
		}
		if m.Licence == "" || len(m.Texts) == 0 {
			t.Errorf("%s has no licence", m.Path)
		}
		if m.Path == "github.com/bytecodealliance/wasmtime-go/v39" && !slices.Equal(m.In, []Program{{"palyra-wasm", "linux", "amd64"}}) {
			t.Errorf("the WebAssembly engine is in %v", m.In)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("modules differ from `go version -m`\n got %q\nwant %q", got, want)
	}
}

// write creates files below dir.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, body := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

const isc = `Copyright (c) 2026 Somebody

Permission to use, copy, modify, and distribute this software for any
purpose with or without fee is hereby granted, provided that the above
copyright notice and this permission notice appear in all copies.

THE SOFTWARE IS PROVIDED "AS IS" AND THE AUTHOR DISCLAIMS ALL WARRANTIES
WITH REGARD TO THIS SOFTWARE INCLUDING ALL IMPLIED WARRANTIES OF
MERCHANTABILITY AND FITNESS. IN NO EVENT SHALL THE AUTHOR BE LIABLE FOR
ANY SPECIAL, DIRECT, INDIRECT, OR CONSEQUENTIAL DAMAGES OR ANY DAMAGES
WHATSOEVER RESULTING FROM LOSS OF USE, DATA OR PROFITS, WHETHER IN AN
ACTION OF CONTRACT, NEGLIGENCE OR OTHER TORTIOUS ACTION, ARISING OUT OF
OR IN CONNECTION WITH THE USE OR PERFORMANCE OF THIS SOFTWARE.
`

// project is a program with a replaced dependency of three packages: one is linked, one is not,
// and one is linked only on Windows.
func project(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"go.mod":                      "module product\n\ngo 1.26\n\nrequire example.com/dep v1.0.0\n\nreplace example.com/dep => ./replaced\n",
		"cmd/tool/main.go":            "package main\n\nimport _ \"example.com/dep/used\"\n\nfunc main() {}\n",
		"cmd/tool/windows.go":         "//go:build windows\n\npackage main\n\nimport _ \"example.com/dep/windows\"\n",
		"replaced/go.mod":             "module example.com/dep\n",
		"replaced/LICENSE":            isc,
		"replaced/NOTICE":             "Made by somebody.\n",
		"replaced/used/used.go":       "package used\n",
		"replaced/used/license.go":    "package used\n",
		"replaced/windows/windows.go": "package windows\n",
		"replaced/windows/COPYING":    mit,
		"replaced/other/other.go":     "package other\n",
		"replaced/other/LICENSE":      "All rights reserved.\n",
	})
	return dir
}

func TestLicencesOfLinkedPackages(t *testing.T) {
	t.Parallel()
	dir := project(t)
	for _, test := range []struct {
		os, licence, files string
	}{
		{"linux", "ISC", "LICENSE NOTICE"},
		{"windows", "ISC AND MIT", "LICENSE NOTICE windows/COPYING"},
	} {
		modules, err := modules(t.Context(), dir, []product{{name: "tool"}}, []Platform{{test.os, "amd64"}})
		if err != nil {
			t.Fatal(err)
		}
		if len(modules) != 2 || modules[1].Path != "std" {
			t.Fatalf("%s: modules are %+v", test.os, modules)
		}
		m := modules[0]
		var files []string
		for _, text := range m.Texts {
			files = append(files, text.Name)
		}
		if m.Path != "./replaced" || m.Licence != test.licence || strings.Join(files, " ") != test.files {
			t.Errorf("%s: %s has the licence %q in %q", test.os, m.Path, m.Licence, files)
		}
	}
}

func TestLicenceThatIsNotIdentified(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]map[string]string{
		"not identified": {"replaced/LICENSE": "You may use this on Tuesdays.\n"},
		"mostly other":   {"replaced/LICENSE": isc + strings.Repeat("The user owes the author a house. ", 100)},
		"only a link":    {"replaced/LICENSE": "See https://opensource.org/licenses/MIT\n"},
		"empty":          {"replaced/LICENSE": ""},
	} {
		dir := project(t)
		write(t, dir, change)
		_, err := modules(t.Context(), dir, []product{{name: "tool"}}, []Platform{{"linux", "amd64"}})
		if err == nil || !strings.Contains(err.Error(), "./replaced") || !strings.Contains(err.Error(), "not identified") {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
	dir := project(t)
	if err := os.Remove(filepath.Join(dir, "replaced", "LICENSE")); err != nil {
		t.Fatal(err)
	}
	if _, err := modules(t.Context(), dir, []product{{name: "tool"}}, []Platform{{"linux", "amd64"}}); err == nil || !strings.Contains(err.Error(), "no licence file") {
		t.Errorf("without a licence file the error is %v", err)
	}
}

func TestListErrors(t *testing.T) {
	t.Parallel()
	_, err := modules(t.Context(), t.TempDir(), []product{{name: "tool"}}, []Platform{{"linux", "amd64"}})
	if err == nil || !strings.Contains(err.Error(), "listing the packages of tool for linux/amd64") {
		t.Errorf("the error is %v", err)
	}
}

func TestCrates(t *testing.T) {
	t.Parallel()
	one, two := t.TempDir(), t.TempDir()
	const registry = "\x00/root/.cargo/registry/src/index.crates.io-1949/"
	write(t, one, map[string]string{
		"lib.a":  registry + "regex-1.9.1/src/lib.rs" + registry + "winnow-0.7.13/src/a.rs\x00" + registry + "regex-1.9.1/src/b.rs\x00/rustc/abc/library/std/src/io.rs",
		"lib.so": registry + "other-1.0.0/src/lib.rs",
	})
	write(t, two, map[string]string{"lib.a": registry + "a_b-2.0.0-rc.1+x/src/lib.rs"})
	got, err := crates(map[string]bool{one: true, two: true, filepath.Join(two, "missing"): true})
	if err != nil || !slices.Equal(got, []string{"a_b-2.0.0-rc.1+x", "regex-1.9.1", "winnow-0.7.13"}) {
		t.Errorf("the crates are %q (%v)", got, err)
	}
}
