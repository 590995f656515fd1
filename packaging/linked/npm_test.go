package linked

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// webProject has a console of three packages and the functions of a bundler.
func webProject(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"LICENSE": "the Apache License",
		"bin/web-modules/console.json": `["index.html", "src/main.tsx", "node_modules/a/index.js", "node_modules/a/more.js",
			"node_modules/@scope/b/index.js", "node_modules/a/node_modules/@scope/b/index.js", "virtual:bundler/runtime.js"]`,
		"bin/web-modules/verifier.json":        `["src/main.ts", "node_modules/a/index.js"]`,
		"bin/web-modules/worker.json":          `[]`,
		"bin/web-modules/verifier-worker.json": `[]`,
		"web/package-lock.json": `{"packages": {"": {"version": "9"}, "node_modules/a": {"version": "1.0.0", "integrity": "sha512-a"},
			"node_modules/@scope/b": {"version": "2.0.0"}, "node_modules/a/node_modules/@scope/b": {"version": "1.5.0"}, "node_modules/bundler": {"version": "3.0.0"},
			"node_modules/unused": {"version": "4.0.0"}}}`,
		"web/node_modules/a/LICENSE":                            isc,
		"web/node_modules/@scope/b/package.json":                `{"license": "(MIT AND Apache-2.0)", "author": {"name": "Ada"}}`,
		"web/node_modules/@scope/b/index.js":                    "/* Copyright Bob */\n",
		"web/node_modules/a/node_modules/@scope/b/package.json": `{"license": "MIT", "author": "Eve"}`,
		"web/node_modules/a/node_modules/@scope/b/index.js":     "// Copyright Carol\n// and others\nexport {};\n",
		"web/node_modules/bundler/LICENSE.md":                   "# Core\n" + mit + "# Licenses of bundled dependencies\nAll rights reserved.\n",
	})
	return dir
}

func TestPackages(t *testing.T) {
	t.Parallel()
	packages, err := Packages(webProject(t))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range packages {
		got = append(got, p.Name+"@"+p.Version+" "+p.Licence+" in "+strings.Join(p.Bundles, ","))
	}
	want := []string{
		"@scope/b@1.5.0 MIT in console", "@scope/b@2.0.0 Apache-2.0 AND MIT in console", "a@1.0.0 ISC in console,verifier", "bundler@3.0.0 MIT in console",
	}
	if !slices.Equal(got, want) {
		t.Errorf("packages\n got %q\nwant %q", got, want)
	}
	var texts []string
	for _, text := range packages[0].Texts {
		texts = append(texts, text.Body)
	}
	if all := strings.Join(texts, "\n"); !strings.Contains(all, "Copyright Carol") || !strings.Contains(all, "Copyright (c) Eve") {
		t.Errorf("the copyright statements of a package without a licence file are %q", all)
	}
	if packages[2].Integrity != "sha512-a" {
		t.Errorf("the digest is %q", packages[2].Integrity)
	}
}

func TestPackagesErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, file, body, want string
	}{
		{"module elsewhere", "bin/web-modules/worker.json", `["../secret.ts"]`, "belongs neither to a package nor to the console"},
		{"package that is not locked", "bin/web-modules/worker.json", `["node_modules/new/index.js"]`, "package-lock.json does not have"},
		{"malformed list", "bin/web-modules/worker.json", `{`, "worker.json"},
		{"unknown licence", "web/node_modules/a/LICENSE", "All rights reserved.", "not identified"},
		{"declared licence without a text", "web/node_modules/@scope/b/package.json", `{"license": "GPL-3.0"}`, `"GPL-3.0"`},
		{"no declared licence", "web/node_modules/@scope/b/package.json", `{}`, "no licence file"},
		{"choice of licences", "web/node_modules/@scope/b/package.json", `{"license": "(MIT OR GPL-3.0)"}`, "MIT OR GPL-3.0"},
	} {
		dir := webProject(t)
		write(t, dir, map[string]string{test.file: test.body})
		if _, err := Packages(dir); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: the error is %v", test.name, err)
		}
	}
	dir := webProject(t)
	if err := os.Remove(filepath.Join(dir, "bin", "web-modules", "verifier.json")); err != nil {
		t.Fatal(err)
	}
	if _, err := Packages(dir); err == nil || !strings.Contains(err.Error(), "make web") {
		t.Errorf("without the list of a bundle the error is %v", err)
	}
}
