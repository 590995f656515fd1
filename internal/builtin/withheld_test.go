package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/canonical"
	"palyra/internal/must"
	"palyra/internal/reason"
	"palyra/internal/tool"
)

const inTheFile = "what-is-in-the-file"

// TestConflictsAreWithheld: why a call does not fit what the workspace holds is told to
// nobody by the error itself, and what policy judges of such a call is the same whatever
// is there. The control is Reveal, which has the content.
func TestConflictsAreWithheld(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tool  string
		input object
		// shows is what the details have of the file, "" when it is its content.
		shows string
	}{
		"patch that does not fit":  {"fs.patch", object{"patch": "--- a/secret.txt\n+++ b/secret.txt\n@@ -1 +1 @@\n-x\n+y\n"}, ""},
		"patch beyond the end":     {"fs.patch", object{"patch": "--- a/secret.txt\n+++ b/secret.txt\n@@ -9 +9 @@\n-x\n+y\n"}, "1 lines"},
		"patch that deletes":       {"fs.patch", object{"patch": "--- a/secret.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"}, ""},
		"patch that creates":       {"fs.patch", object{"patch": "--- /dev/null\n+++ b/secret.txt\n@@ -0,0 +1 @@\n+x\n"}, "exists already"},
		"patch of one more":        {"fs.patch", object{"patch": "--- a/secret.txt\n+++ b/secret.txt\n@@ -1 +1 @@\n-x\n+y\n--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+x\n"}, ""},
		"write of what is there":   {"fs.write", object{"path": "secret.txt", "content": "x"}, "exists already"},
		"write over another":       {"fs.write", object{"path": "secret.txt", "content": "x", "mode": "overwrite", "expected_sha256": canonical.Digest([]byte("x"))}, "not the file"},
		"write through a link out": {"fs.write", object{"path": "out/x", "content": "x"}, "leaves the workspace"},
		"read through a link out":  {"fs.read", object{"path": "out"}, "leaves the workspace"},
		"list through a link out":  {"fs.list", object{"path": "out"}, "leaves the workspace"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, nil)
			b.write("secret.txt", inTheFile+"\n")
			must.Do(t, os.Symlink(t.TempDir(), filepath.Join(b.dir, "out")))
			p := must.Get(b.propose(c.tool, c.input))(t)
			_, err := b.tools[c.tool].Plan(t.Context(), p)
			var held *tool.Withheld
			if !errors.As(err, &held) {
				t.Fatalf("the error is %v", err)
			}
			known := reason.Known(err, reason.Internal)
			if told := string(must.Get(json.Marshal(known))(t)) + err.Error(); strings.Contains(told, "secret") || strings.Contains(told, inTheFile) || known.Code != reason.PatchConflict {
				t.Errorf("everybody is told %s", told)
			}
			if shows := tool.Reveal(err, everything).Error(); !strings.Contains(shows, c.shows) || c.shows == "" && !strings.Contains(shows, inTheFile) {
				t.Errorf("who may read it is told %q", shows)
			}
			if len(held.Plan.Seen) == 0 || !errors.As(tool.Reveal(err, func([]tool.FileAccess) bool { return false }), new(*tool.Withheld)) {
				t.Errorf("%+v is revealed to who may not read it", held.Plan.Seen)
			}
			held.Plan.Seen = nil // what is asked about reading, and not about the call
			told := must.Get(json.Marshal(held.Plan))(t)
			if strings.Contains(string(told), inTheFile) {
				t.Errorf("the plan is %s", told)
			}
			must.Do(t, os.Remove(filepath.Join(b.dir, "secret.txt")))
			if _, err = b.tools[c.tool].Plan(t.Context(), p); errors.As(err, &held) { // not all are a conflict without the file
				held.Plan.Seen = nil
				if again := must.Get(json.Marshal(held.Plan))(t); string(again) != string(told) {
					t.Errorf("what policy judges says whether the file is there:\n%s\n%s", told, again)
				}
			}
		})
	}
}

// TestWritesTellNothing: who may write a file and not read it is not told what was in it,
// or whether it was there. The control is the caller who may read it.
func TestWritesTellNothing(t *testing.T) {
	t.Parallel()
	for _, told := range []bool{false, true} {
		b := newBench(t, nil)
		b.write("secret.txt", inTheFile)
		results := map[string]string{}
		for _, path := range []string{"secret.txt", "new.txt"} {
			p := must.Get(b.propose("fs.write", object{"path": path, "content": "x", "mode": "overwrite"}))(t)
			plan := must.Get(b.tools["fs.write"].Plan(t.Context(), p))(t)
			report := b.run(context.Background(), tool.Call{Proposal: p, Plan: plan, MaySee: func([]tool.FileAccess) bool { return told }})
			if report.Outcome != tool.Succeeded {
				t.Fatalf("%+v", report)
			}
			results[path] = strings.ReplaceAll(string(report.Result), path, "")
		}
		if same := results["secret.txt"] == results["new.txt"]; same == told {
			t.Errorf("told %t: %v", told, results)
		}
	}
}
