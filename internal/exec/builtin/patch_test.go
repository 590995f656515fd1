package builtin

import (
	"bytes"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bluekeyes/go-gitdiff/gitdiff"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/unified"
	"palyra/internal/exec/workspace"
)

func readOnlyTools(t *testing.T, dir string) map[string]Tool {
	t.Helper()
	set := must.Get(workspace.NewSet([]workspace.Declaration{{Name: "default", Path: dir, ReadOnly: true}}, workspace.Private{Name: "state_dir", Path: filepath.Join(t.TempDir(), "state")}))(t)
	tools := map[string]Tool{}
	for _, tool := range New(Config{Workspaces: set}) {
		tools[tool.Descriptor().Name] = tool
	}
	return tools
}

// randomText returns text of a few different lines, so that edits have repeated lines around
// them.
func randomText(r *rand.Rand) string {
	words := []string{"a", "b", "c", "", "-- x", "++ y", "@@ -1 +1 @@", "\\ No newline", " d", "e\r"}
	var b strings.Builder
	for range r.IntN(30) {
		b.WriteString(words[r.IntN(len(words))] + "\n")
	}
	if r.IntN(3) == 0 {
		b.WriteString("no end")
	}
	return b.String()
}

func edited(r *rand.Rand, text string) string {
	lines := unified.Lines([]byte(text))
	var out []string
	for _, line := range lines {
		switch r.IntN(8) {
		case 0:
		case 1:
			out = append(out, "new\n", line)
		case 2:
			out = append(out, "other\n")
		default:
			out = append(out, line)
		}
	}
	joined := strings.Join(out, "")
	// Only the last line may lack its newline.
	return strings.ReplaceAll(joined, "no endnew", "no end\nnew")
}

// TestPatchAgainstOracle makes edits and encodes them as diffs. Applying a diff must reproduce
// the edit, here and with another implementation.
func TestPatchAgainstOracle(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		old := randomText(r)
		now := edited(r, old)
		if r.IntN(5) == 0 {
			now = randomText(r)
		}
		if old == now || old == "" || now == "" {
			continue
		}
		diff := unified.File{OldPath: "f", NewPath: "f", Old: []byte(old), New: []byte(now)}.Diff()
		patches, err := parsePatch(diff)
		if err != nil {
			t.Fatalf("%v\n%s", err, diff)
		}
		got, err := patches[0].apply([]byte(old))
		if err != nil {
			t.Fatalf("%v\nold %q\nnew %q\n%s", err, old, now, diff)
		}
		if string(got) != now {
			t.Fatalf("got %q\nwant %q\n%s", got, now, diff)
		}
		other, _, err := gitdiff.Parse(strings.NewReader(diff))
		if err != nil {
			t.Fatalf("the other implementation cannot read it: %v\n%s", err, diff)
		}
		var out bytes.Buffer
		if err := gitdiff.Apply(&out, strings.NewReader(old), other[0]); err != nil || out.String() != now {
			t.Fatalf("the other implementation: %v, %q\n%s", err, out.String(), diff)
		}
	}
}

// TestDiffIsShort verifies that a change of one line in a large file is displayed as one line.
func TestDiffIsShort(t *testing.T) {
	t.Parallel()
	old := strings.Repeat("same\n", 5000) + "x\n" + strings.Repeat("same\n", 5000)
	now := strings.Replace(old, "x\n", "y\n", 1)
	diff := unified.File{OldPath: "f", NewPath: "f", Old: []byte(old), New: []byte(now)}.Diff()
	if n := strings.Count(diff, "\n"); n > 13 {
		t.Errorf("%d lines:\n%s", n, diff)
	}
}

func TestPreviewDiffSaysWhenItIsCut(t *testing.T) {
	t.Parallel()
	text, notes := previewDiff([]unified.File{{NewPath: "f", New: []byte(strings.Repeat("line\n", 100_000))}})
	if len(text) > previewBytes || len(notes) != 1 {
		t.Errorf("%d bytes, notes %v", len(text), notes)
	}
}

// FuzzPatch verifies that no patch causes a panic. A patch that applies here must have the same
// result in another implementation that accepts it.
func FuzzPatch(f *testing.F) {
	f.Add("1\n2\n3\n", "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n 1\n-2\n+x\n 3\n")
	f.Add("1", "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-1\n\\ No newline at end of file\n+2\n")
	f.Add("", "diff --git a/f b/f\nnew file mode 100644\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+x\n")
	f.Add("a\nb\n", "--- a/f\n+++ b/f\n@@ -0,0 +1,2 @@\n+x\n+y\n@@ -2,0 +5 @@\n+z\n")
	f.Add("x\n", "diff --git a/f b/g\nrename from f\nrename to g\n--- a/f\n+++ b/g\n@@ -1 +1 @@\n-x\n+y\n")
	f.Add("x\n", "--- \"a/\\146\"\n+++ \"b/f\"\n@@ -1 +0,0 @@\n-x\n")
	f.Fuzz(func(t *testing.T, old, patch string) {
		files, err := parsePatch(patch)
		if err != nil {
			if code := reason.Of(err); code == reason.Internal || len(err.Error()) > 1000 {
				t.Fatalf("%v", err)
			}
			return
		}
		others, _, otherErr := gitdiff.Parse(strings.NewReader(patch))
		for i, file := range files {
			got, err := file.apply([]byte(old))
			if err != nil {
				if reason.Of(err) != reason.PatchConflict {
					t.Fatalf("%v", err)
				}
				continue
			}
			if len(got) > len(old)+len(patch) {
				t.Fatalf("%d bytes of %d and %d", len(got), len(old), len(patch))
			}
			// The diff of the result equals the applied patch.
			if string(got) != old && file.oldPath != "" && file.newPath != "" && !unified.Binary([]byte(old)) && !unified.Binary(got) {
				diff := unified.File{OldPath: "f", NewPath: "f", Old: []byte(old), New: got}.Diff()
				again, err := parsePatch(diff)
				if err != nil {
					t.Fatalf("our own diff: %v\n%s", err, diff)
				}
				if back, err := again[0].apply([]byte(old)); err != nil || string(back) != string(got) {
					t.Fatalf("our own diff gives %q, %v; want %q", back, err, got)
				}
			}
			if otherErr != nil || len(others) != len(files) || strings.Contains(patch, "\n\n") || !strings.HasSuffix(patch, "\n") {
				continue
			}
			var out bytes.Buffer
			if err := gitdiff.Apply(&out, strings.NewReader(old), others[i]); err == nil && out.String() != string(got) {
				t.Fatalf("got %q, the other implementation %q", got, out.String())
			}
		}
	})
}

// FuzzPatchStaysInside applies patches to a workspace and verifies that no file outside
// changes.
func FuzzPatchStaysInside(f *testing.F) {
	f.Add("--- /dev/null\n+++ b/../canary\n@@ -0,0 +1 @@\n+x\n")
	f.Add("--- a/../canary\n+++ b/../canary\n@@ -1 +1 @@\n-canary\n+x\n")
	f.Add("--- /dev/null\n+++ b/d/new\n@@ -0,0 +1 @@\n+x\n")
	f.Add("diff --git a/f b/l/x\nrename from f\nrename to l/x\n")
	f.Fuzz(func(t *testing.T, patch string) {
		if len(patch) > 1<<16 || !strings.Contains(patch, "+++") && !strings.Contains(patch, "rename") {
			return
		}
		b := newBench(t, nil)
		b.write("../canary", "canary")
		b.write("f", "1\n2\n")
		link(t, "..", filepath.Join(b.dir, "l"))
		p, err := b.propose(fsPatchName, object{"patch": strings.ToValidUTF8(patch, "")})
		if err != nil {
			return
		}
		plan, err := b.tools[fsPatchName].Plan(t.Context(), p)
		if err != nil {
			return
		}
		b.run(t.Context(), toolCall(p, plan))
		if b.read("../canary") != "canary" {
			t.Fatal("the canary was changed")
		}
		if names := siblings(t, b.dir); names != "canary ws" {
			t.Fatalf("beside the workspace: %s", names)
		}
	})
}
