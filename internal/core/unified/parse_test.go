package unified_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"palyra/internal/core/unified"
)

// Parse splits the output of Diff so that both versions can be read from it.
func TestParse(t *testing.T) {
	t.Parallel()
	old := strings.Repeat("same\n", 20) + "gone\n-- not a header\n" + strings.Repeat("more\n", 20) + "end"
	is := "new\n" + strings.Repeat("same\n", 20) + "++ neither\n" + strings.Repeat("more\n", 20) + "end\n"
	files := []unified.File{
		{OldPath: "a b.txt", NewPath: "a b.txt", Old: []byte(old), New: []byte(is)},
		{NewPath: "made.go", New: []byte("package a\n"), NewMode: "100755"},
		{OldPath: "gone", Old: []byte("x\n")},
		{OldPath: "was", NewPath: "is", Old: []byte("x\n"), New: []byte("x\n")},
		{OldPath: "run", NewPath: "run", OldMode: "100644", NewMode: "100755", Old: []byte("x\n"), New: []byte("x\n")},
		{OldPath: "q\"\n", NewPath: "q\"\n", Old: []byte("1\n"), New: []byte("2\n")},
		{OldPath: "bin", NewPath: "bin", Old: []byte{0}, New: []byte{0, 1}},
	}
	var text strings.Builder
	for _, f := range files {
		text.WriteString(f.Diff())
	}
	got := unified.Parse(text.String())
	if len(got) != len(files) {
		t.Fatalf("%d files: %+v", len(got), got)
	}
	for i, f := range files {
		if got[i].OldPath != f.OldPath || got[i].NewPath != f.NewPath {
			t.Errorf("%d: %q, %q", i, got[i].OldPath, got[i].NewPath)
		}
	}
	want := []unified.Change{
		{NewPath: "made.go", NewMode: "100755", Hunks: []unified.Hunk{{OldStart: 0, NewStart: 1, Lines: []unified.Line{{Kind: '+', Text: "package a"}}}}},
		{OldPath: "gone", OldMode: "100644", Hunks: []unified.Hunk{{OldStart: 1, NewStart: 0, Lines: []unified.Line{{Kind: '-', Text: "x"}}}}},
		{OldPath: "was", NewPath: "is"},
		{OldPath: "run", NewPath: "run", OldMode: "100644", NewMode: "100755"},
	}
	if diff := cmp.Diff(want, got[1:5]); diff != "" {
		t.Error(diff)
	}
	if !got[6].Binary {
		t.Errorf("binary: %+v", got[6])
	}
	var kinds string
	for _, h := range got[0].Hunks {
		for _, l := range h.Lines {
			if l.Kind != ' ' {
				kinds += string(l.Kind) + l.Text + "|"
			}
		}
	}
	if kinds != "+new|-gone|--- not a header|+++ neither|-end|+end|" {
		t.Errorf("changed lines: %s", kinds)
	}
	last := got[0].Hunks[len(got[0].Hunks)-1].Lines
	if !last[len(last)-2].NoNewline || last[len(last)-1].NoNewline {
		t.Errorf("ends: %+v", last)
	}
}

// A text in another form gives no file, and a truncated one gives the complete part.
func TestParseForeign(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "*** Begin Patch\n+x\n", "@@ -1 +1 @@\n-a\n+b\n", "--- a\n+++ b\n"} {
		if got := unified.Parse(text); len(got) != 0 {
			t.Errorf("%q gave %+v", text, got)
		}
	}
	whole := unified.File{OldPath: "f", NewPath: "f", Old: []byte("1\n2\n3\n"), New: []byte("1\n4\n3\n")}.Diff()
	for i := range whole {
		unified.Parse(whole[:i])
	}
	cut := unified.Parse(whole[:strings.Index(whole, "+4")])
	if len(cut) != 1 || len(cut[0].Hunks) != 1 || len(cut[0].Hunks[0].Lines) != 2 {
		t.Errorf("cut: %+v", cut)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n\\ No newline at end of file\n")
	f.Fuzz(func(_ *testing.T, text string) { unified.Parse(text) })
}
