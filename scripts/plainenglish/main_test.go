package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/must"
)

// TestReport: each kind of text is read, and a rate above the bound is reported for that kind
// only. Tests, generated files and data are ignored.
func TestReport(t *testing.T) {
	t.Parallel()
	odd := strings.Repeat("nobody is told what it is, beside ", 10) // above every permitted rate
	plain := strings.Repeat("the gateway stores the request ", 450) // more than 2,000 words
	files := map[string]string{
		"a/a.go":                  "package a\n\n// " + plain + odd + "\nvar s = \"" + plain + odd + "\"\n",
		"a/a_test.go":             "// " + odd,
		"a/made.go":               "// Code generated. DO NOT EDIT.\n// " + odd,
		"a/testdata/x.md":         odd,
		"README.md":               plain + odd,
		"web/src/a.tsx":           "// " + plain + odd,
		"web/src/a.test.tsx":      "// " + odd,
		"web/node_modules/m/x.md": odd,
	}
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	}
	lines := must.Get(read(dir))(t)
	hits := 0
	for _, l := range lines {
		hits += strings.Count(l.text, "nobody")
	}
	if hits != 10*len(kinds) {
		t.Errorf("%d phrases are read, want 10 of each kind", hits)
	}
	var out strings.Builder
	above := report(&out, lines)
	for _, kind := range kinds {
		if !slices.ContainsFunc(above, func(s string) bool { return strings.HasPrefix(s, `"nobody" in `+kind) }) {
			t.Errorf("%s: not reported: %q", kind, above)
		}
	}
	out.Reset()
	if above := report(&out, []line{{"docs", "x.md", 1, plain}}); len(above) > 0 {
		t.Errorf("control: %q", above)
	}
}

func TestCount(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"it is no address": 1, "it is no longer valid": 0, "it is no more": 0, "there are no mores": 1, "what was there, and what is not": 2,
		"somebody told nobody": 3, "the record of before": 1, "no phrase of the table": 0,
	} {
		n := 0
		for _, p := range phrases {
			n += p.count(text)
		}
		if n != want {
			t.Errorf("%q has %d phrases, want %d", text, n, want)
		}
	}
}
