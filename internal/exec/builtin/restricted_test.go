package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/canonical"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

const content = "content-of-the-file"

// TestRestrictedErrors: an error about file content contains no detail. Its plan does not
// depend on the content, or on whether the file exists. Control: Disclose, which returns the
// detail.
func TestRestrictedErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tool  string
		input object
		// detail is part of the detailed error; empty means the content of the file.
		detail string
	}{
		"patch that does not fit":  {"fs.patch", object{"patch": "--- a/secret.txt\n+++ b/secret.txt\n@@ -1 +1 @@\n-x\n+y\n"}, ""},
		"patch beyond the end":     {"fs.patch", object{"patch": "--- a/secret.txt\n+++ b/secret.txt\n@@ -9 +9 @@\n-x\n+y\n"}, "1 lines"},
		"patch that deletes":       {"fs.patch", object{"patch": "--- a/secret.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"}, ""},
		"patch that creates":       {"fs.patch", object{"patch": "--- /dev/null\n+++ b/secret.txt\n@@ -0,0 +1 @@\n+x\n"}, "exists already"},
		"patch of one more":        {"fs.patch", object{"patch": "--- a/secret.txt\n+++ b/secret.txt\n@@ -1 +1 @@\n-x\n+y\n--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+x\n"}, ""},
		"write to existing file":   {"fs.write", object{"path": "secret.txt", "content": "x"}, "exists already"},
		"write over another":       {"fs.write", object{"path": "secret.txt", "content": "x", "mode": "overwrite", "expected_sha256": canonical.Digest([]byte("x"))}, "has changed since it was read"},
		"write through a link out": {"fs.write", object{"path": "out/x", "content": "x"}, "leaves the workspace"},
		"read through a link out":  {"fs.read", object{"path": "out"}, "leaves the workspace"},
		"list through a link out":  {"fs.list", object{"path": "out"}, "leaves the workspace"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, nil)
			b.write("secret.txt", content+"\n")
			must.Do(t, os.Symlink(t.TempDir(), filepath.Join(b.dir, "out")))
			p := must.Get(b.propose(c.tool, c.input))(t)
			_, err := b.tools[c.tool].Plan(t.Context(), p)
			var restricted *tool.RestrictedError
			if !errors.As(err, &restricted) {
				t.Fatalf("the error is %v", err)
			}
			known := reason.Known(err, reason.Internal)
			if text := string(must.Get(json.Marshal(known))(t)) + err.Error(); strings.Contains(text, "secret") || strings.Contains(text, content) || known.Code != reason.PatchConflict {
				t.Errorf("the error discloses %s", text)
			}
			if detail := tool.Disclose(err, everything).Error(); !strings.Contains(detail, c.detail) || c.detail == "" && !strings.Contains(detail, content) {
				t.Errorf("the detail is %q", detail)
			}
			if len(restricted.Plan.Contents) == 0 || !errors.As(tool.Disclose(err, func([]tool.FileAccess) bool { return false }), new(*tool.RestrictedError)) {
				t.Errorf("the detail is disclosed without permission to read %+v", restricted.Plan.Contents)
			}
			restricted.Plan.Contents = nil // facts of reading the file, not of the call
			plan := must.Get(json.Marshal(restricted.Plan))(t)
			if strings.Contains(string(plan), content) {
				t.Errorf("the plan contains the content: %s", plan)
			}
			must.Do(t, os.Remove(filepath.Join(b.dir, "secret.txt")))
			if _, err = b.tools[c.tool].Plan(t.Context(), p); errors.As(err, &restricted) { // some calls succeed without the file
				restricted.Plan.Contents = nil
				if again := must.Get(json.Marshal(restricted.Plan))(t); string(again) != string(plan) {
					t.Errorf("the plan depends on whether the file exists:\n%s\n%s", plan, again)
				}
			}
		})
	}
}

// TestWriteResultsAreRestricted: if a caller may write but not read a file, the result does not
// depend on the previous content. Control: a caller that may read it.
func TestWriteResultsAreRestricted(t *testing.T) {
	t.Parallel()
	for _, disclose := range []bool{false, true} {
		b := newBench(t, nil)
		b.write("secret.txt", content)
		results := map[string]string{}
		for _, path := range []string{"secret.txt", "new.txt"} {
			p := must.Get(b.propose("fs.write", object{"path": path, "content": "x", "mode": "overwrite"}))(t)
			plan := must.Get(b.tools["fs.write"].Plan(t.Context(), p))(t)
			report := b.run(context.Background(), tool.Call{Proposal: p, Plan: plan, MayDisclose: func([]tool.FileAccess) bool { return disclose }})
			if report.Outcome != tool.Succeeded {
				t.Fatalf("%+v", report)
			}
			results[path] = strings.ReplaceAll(string(report.Result), path, "")
		}
		if same := results["secret.txt"] == results["new.txt"]; same == disclose {
			t.Errorf("disclose %t: %v", disclose, results)
		}
	}
}
