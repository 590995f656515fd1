package builtin

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/canonical"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

type object = map[string]any

func TestFSRead(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.write("docs/a.md", "hello\n")
	b.write("bin", "\x00\xff")
	r := b.ok("fs.read", object{"path": "docs/a.md"})
	if r["content"] != "hello\n" || r["encoding"] != "utf-8" || r["sha256"] != canonical.Digest([]byte("hello\n")) || r["truncated"] != false || r["size"] != 6.0 {
		t.Errorf("got %v", r)
	}
	r = b.ok("fs.read", object{"path": "docs/a.md", "offset": 1, "limit": 3})
	if r["content"] != "ell" || r["truncated"] != true || r["bytes"] != 3.0 || r["sha256"] != canonical.Digest([]byte("hello\n")) {
		t.Errorf("part: %v", r)
	}
	r = b.ok("fs.read", object{"path": "bin"})
	if r["content"] != "AP8=" || r["encoding"] != "base64" {
		t.Errorf("binary: %v", r)
	}
	report, r := b.call(context.Background(), "fs.read", object{"path": "none"})
	if report.Outcome != tool.Failed || report.Reason != string(reason.FileNotFound) || r["error"].(object)["reason"] != "FILE_NOT_FOUND" {
		t.Errorf("missing: %+v %v", report, r)
	}
	b.refused("fs.read", object{"path": "../x"}, reason.WorkspaceScope)
	b.refused("fs.read", object{"path": "/etc/passwd"}, reason.WorkspaceScope)
	b.refused("fs.read", object{"path": "x", "workspace": "other"}, reason.UnknownWorkspace)
	b.refused("fs.read", object{"path": "x", "pth": "y"}, reason.InvalidInput)
	b.refused("fs.read", `{"path":"a\u0000"}`, reason.InvalidUTF8)
	b.write(".git/config", "")
	plan, err := b.plan("fs.read", object{"path": "docs/../.git/config"})
	if err != nil || plan.Facts.Path != ".git/config" || !plan.Facts.Protected || plan.Subject != "fs.read:default:.git/config" || plan.Facts.Risk != 25 {
		t.Errorf("plan %+v, %v", plan, err)
	}
}

func TestFSList(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	for _, name := range []string{"b/2", "b/1", "a", "c/d/e", ".x/y"} {
		b.write(name, "12345")
	}
	paths := func(r object) string {
		var list []string
		for _, e := range r["entries"].([]any) {
			list = append(list, e.(object)["path"].(string))
		}
		return strings.Join(list, " ")
	}
	tests := []struct {
		in   object
		want string
	}{
		{object{}, "a b c"},
		{object{"depth": 2}, "a b b/1 b/2 c c/d"},
		{object{"depth": 9, "hidden": true}, ".x .x/y a b b/1 b/2 c c/d c/d/e"},
		{object{"path": "c", "depth": 1}, "c/d"},
		{object{"path": "c", "depth": 2}, "c/d c/d/e"},
	}
	for _, test := range tests {
		if got := paths(b.ok("fs.list", test.in)); got != test.want {
			t.Errorf("%v: got %q, want %q", test.in, got, test.want)
		}
	}
	r := b.ok("fs.list", object{"limit": 2, "depth": 3})
	if r["truncated"] != true || len(r["entries"].([]any)) != 2 {
		t.Errorf("limit: %v", r)
	}
	if err := os.WriteFile(filepath.Join(b.dir, "z\xff"), nil, 0o644); err == nil {
		entries := b.ok("fs.list", object{})["entries"].([]any)
		last := entries[len(entries)-1].(object)
		if last["path"] != "z\ufffd" || last["path_base64"] != base64.StdEncoding.EncodeToString([]byte("z\xff")) {
			t.Errorf("odd name: %v", last)
		}
	}
}

func TestFSSearch(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.write("a.go", "package a\n\nfunc Foo() {}\n// end\n")
	b.write("sub/b.go", "package b\r\nfunc foo() {}\r\n")
	b.write("sub/c.txt", "func x\n")
	b.write(".git/config", "func hidden\n")
	b.write(".hidden", "func hidden\n")
	b.write("bin", "func\x00")
	at := func(r object) string {
		var list []string
		for _, m := range r["matches"].([]any) {
			m := m.(object)
			list = append(list, fmt.Sprintf("%v:%v:%v", m["path"], m["line"], m["column"]))
		}
		return strings.Join(list, " ")
	}
	tests := []struct {
		in   object
		want string
	}{
		{object{"pattern": "func"}, "a.go:3:1 sub/b.go:2:1 sub/c.txt:1:1"},
		{object{"pattern": "func", "glob": "*.go"}, "a.go:3:1 sub/b.go:2:1"},
		{object{"pattern": "func", "glob": "sub/*.go"}, "sub/b.go:2:1"},
		{object{"pattern": "foo"}, "sub/b.go:2:6"},
		{object{"pattern": "foo", "case_insensitive": true}, "a.go:3:6 sub/b.go:2:6"},
		{object{"pattern": "Foo()", "literal": true}, "a.go:3:6"},
		{object{"pattern": `\{\}$`}, "a.go:3:12 sub/b.go:2:12"},
		{object{"pattern": "func", "hidden": true}, ".hidden:1:1 a.go:3:1 sub/b.go:2:1 sub/c.txt:1:1"},
		{object{"pattern": "func", "path": "sub/c.txt"}, "sub/c.txt:1:1"},
		{object{"pattern": "nothing"}, ""},
	}
	for _, test := range tests {
		if got := at(b.ok("fs.search", test.in)); got != test.want {
			t.Errorf("%v: got %q, want %q", test.in, got, test.want)
		}
	}
	r := b.ok("fs.search", object{"pattern": "func Foo", "context_lines": 1})
	m := r["matches"].([]any)[0].(object)
	if m["text"] != "func Foo() {}" || fmt.Sprint(m["before"]) != "[]" || fmt.Sprint(m["after"]) != "[// end]" {
		t.Errorf("context: %v", m)
	}
	if r["files_skipped"] != 1.0 {
		t.Errorf("skipped: %v", r)
	}
	if r := b.ok("fs.search", object{"pattern": "func", "max_matches": 2}); r["truncated"] != true || len(r["matches"].([]any)) != 2 {
		t.Errorf("limit: %v", r)
	}
	b.refused("fs.search", object{"pattern": "("}, reason.InvalidInput)
	b.refused("fs.search", object{"pattern": "(?=x)"}, reason.InvalidInput)
	b.refused("fs.search", object{"pattern": "x", "glob": "["}, reason.InvalidInput)
	b.refused("fs.search", object{"pattern": "x", "path": "../.."}, reason.WorkspaceScope)
}

func TestFSWrite(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	in := object{"path": "docs/a.md", "content": "one\n"}
	plan := must.Get(b.plan("fs.write", in))(t)
	if fmt.Sprint(plan.Binding.Operands) != "[{docs/a.md }]" || plan.Subject != "fs.write:default:docs/a.md" || plan.Facts.Risk != riskCreate ||
		!strings.Contains(plan.Preview.Diff, "new file mode 100644\n--- /dev/null\n+++ b/docs/a.md\n@@ -0,0 +1 @@\n+one\n") {
		t.Errorf("plan %+v", plan)
	}
	if _, err := os.Stat(filepath.Join(b.dir, "docs")); err == nil {
		t.Error("planning had an effect")
	}
	report, r := b.call(context.Background(), "fs.write", in)
	if report.Outcome != tool.Succeeded || b.read("docs/a.md") != "one\n" || len(report.Files) != 1 || report.Files[0].Is != canonical.Digest([]byte("one\n")) {
		t.Errorf("%+v %v", report, r)
	}
	b.refused("fs.write", in, reason.PatchConflict)
	b.refused("fs.write", object{"path": "docs/a.md", "content": "x", "mode": "overwrite", "expected_sha256": canonical.Digest([]byte("other"))}, reason.PatchConflict)
	b.ok("fs.write", object{"path": "docs/a.md", "content_base64": "AP8=", "mode": "overwrite", "expected_sha256": canonical.Digest([]byte("one\n"))})
	if b.read("docs/a.md") != "\x00\xff" {
		t.Error("base64 content is not there")
	}
	b.refused("fs.write", object{"path": "x"}, reason.InvalidInput)
	b.refused("fs.write", object{"path": "x", "content": "a", "content_base64": "YQ=="}, reason.InvalidInput)
	b.refused("fs.write", object{"path": "x", "content_base64": "Y"}, reason.InvalidInput)
	b.refused("fs.write", object{"path": "x", "content": "a", "mode": "append"}, reason.InvalidInput)
	b.refused("fs.write", object{"path": ".git/hooks/pre-commit", "content": "a"}, reason.ProtectedPath)
	b.refused("fs.write", object{"path": ".Mcp.json", "content": "a"}, reason.ProtectedPath)
	b.refused("fs.write", object{"path": "../x", "content": "a"}, reason.WorkspaceScope)
	b.refused("fs.write", object{"path": "a\nb", "content": "a"}, reason.InvalidInput)
}

func TestFSWriteRunsOnlyWhatWasPlanned(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.write("f", "approved state")
	p := must.Get(b.propose("fs.write", object{"path": "f", "content": "new", "mode": "overwrite"}))(t)
	write := b.tools["fs.write"]
	plan := must.Get(write.Plan(context.Background(), p))(t)
	b.write("f", "somebody's edit")
	again := must.Get(write.Plan(context.Background(), p))(t)
	one, _ := plan.Binding.Digest()
	two, _ := again.Binding.Digest()
	if one == two {
		t.Error("the call digest does not depend on the file")
	}
	report := b.run(context.Background(), tool.Call{Proposal: p, Plan: plan})
	if report.Reason != string(reason.BindingMismatch) || b.read("f") != "somebody's edit" {
		t.Errorf("%+v", report)
	}
	// Negative control: with an unchanged file the call runs.
	if report := b.run(context.Background(), tool.Call{Proposal: p, Plan: again}); report.Outcome != tool.Succeeded {
		t.Errorf("%+v", report)
	}
}

func TestFSPatch(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.write("a.txt", "1\n2\n3\n4\n5\n")
	b.write("gone.txt", "bye\n")
	b.write("old/name.sh", "x\n")
	must.Do(t, os.Chmod(filepath.Join(b.dir, "old/name.sh"), 0o755))
	patch := "diff --git a/a.txt b/a.txt\nindex 1..2 100644\n--- a/a.txt\n+++ b/a.txt\n@@ -2,3 +2,3 @@ section\n 2\n-3\n+three\n 4\n" +
		"diff --git a/new.txt b/new.txt\nnew file mode 100644\n--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1,2 @@\n+n\n+m\n\\ No newline at end of file\n" +
		"diff --git a/gone.txt b/gone.txt\ndeleted file mode 100644\n--- a/gone.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-bye\n" +
		"diff --git a/old/name.sh b/new/name.sh\nsimilarity index 100%\nrename from old/name.sh\nrename to new/name.sh\n"
	plan := must.Get(b.plan("fs.patch", object{"patch": patch}))(t)
	if plan.Subject != "fs.patch:default:a.txt,gone.txt,new.txt,new/name.sh,old/name.sh" || plan.Facts.Path != "." || len(plan.Facts.Paths) != 5 ||
		len(plan.Binding.Operands) != 5 || plan.Facts.Risk != riskDelete {
		t.Errorf("plan %+v", plan)
	}
	report, r := b.call(context.Background(), "fs.patch", object{"patch": patch})
	if report.Outcome != tool.Succeeded {
		t.Fatalf("%+v %v", report, r)
	}
	if b.read("a.txt") != "1\n2\nthree\n4\n5\n" || b.read("new.txt") != "n\nm" || b.read("new/name.sh") != "x\n" {
		t.Error("the content is not as patched")
	}
	if info, err := os.Stat(filepath.Join(b.dir, "new/name.sh")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	for _, name := range []string{"gone.txt", "old/name.sh"} {
		if _, err := os.Stat(filepath.Join(b.dir, name)); err == nil {
			t.Errorf("%s is still there", name)
		}
	}
	if len(report.Files) != 5 || len(r["files"].([]any)) != 5 {
		t.Errorf("files %+v", report.Files)
	}
}

func TestFSPatchRefuses(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.write("a.txt", "1\n2\n3\n")
	b.write("b.txt", "1\n2\n3")
	head := "--- a/a.txt\n+++ b/a.txt\n"
	tests := []struct {
		name, patch string
		want        reason.Code
	}{
		{"no patch", "hello\n", reason.InvalidInput},
		{"no hunks", head, reason.InvalidInput},
		{"context differs", head + "@@ -1,2 +1,2 @@\n 1\n-x\n+y\n", reason.PatchConflict},
		{"one line off", head + "@@ -2,2 +2,2 @@\n 1\n-2\n+y\n", reason.PatchConflict},
		{"beyond the end", head + "@@ -9,1 +9,1 @@\n-9\n+8\n", reason.PatchConflict},
		{"hunks out of order", head + "@@ -3 +3 @@\n-3\n+x\n@@ -1 +1 @@\n-1\n+y\n", reason.PatchConflict},
		{"hunks overlap", head + "@@ -1,2 +1,2 @@\n 1\n-2\n+x\n@@ -2 +2 @@\n-2\n+y\n", reason.PatchConflict},
		{"too few lines", head + "@@ -1,3 +1,3 @@\n 1\n-2\n+x\n", reason.InvalidInput},
		{"too many lines", head + "@@ -1,1 +1,1 @@\n-1\n+x\n 2\n", reason.InvalidInput},
		{"garbage in a hunk", head + "@@ -1,2 +1,2 @@\n 1\n*2\n", reason.InvalidInput},
		{"garbage between files", head + "@@ -1 +1 @@\n-1\n+x\nrm -rf\n", reason.InvalidInput},
		{"line end is missing in the file", "--- a/b.txt\n+++ b/b.txt\n@@ -3 +3 @@\n-3\n+x\n", reason.PatchConflict},
		{"line end is missing in the patch", head + "@@ -3 +3 @@\n-3\n\\ No newline at end of file\n+x\n", reason.PatchConflict},
		{"a line without end in the middle", head + "@@ -1 +1 @@\n-1\n+x\n\\ No newline at end of file\n", reason.PatchConflict},
		{"create what exists", "--- /dev/null\n+++ b/a.txt\n@@ -0,0 +1 @@\n+x\n", reason.PatchConflict},
		{"create with old lines", "--- /dev/null\n+++ b/n.txt\n@@ -1 +1 @@\n-x\n+y\n", reason.InvalidInput},
		{"delete not all", "--- a/a.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-1\n", reason.PatchConflict},
		{"delete with new lines", "--- a/a.txt\n+++ /dev/null\n@@ -1 +1 @@\n-1\n+x\n", reason.InvalidInput},
		{"both null", "--- /dev/null\n+++ /dev/null\n@@ -0,0 +1 @@\n+x\n", reason.InvalidInput},
		{"missing file", "--- a/none\n+++ b/none\n@@ -1 +1 @@\n-1\n+x\n", reason.FileNotFound},
		{"names differ", "--- a/a.txt\n+++ b/b.txt\n@@ -1 +1 @@\n-1\n+x\n", reason.InvalidInput},
		{"the same file twice", head + "@@ -1 +1 @@\n-1\n+x\n" + head + "@@ -2 +2 @@\n-2\n+x\n", reason.InvalidInput},
		{"outside", "--- a/../x\n+++ b/../x\n@@ -0,0 +1 @@\n+x\n", reason.WorkspaceScope},
		{"create outside", "--- /dev/null\n+++ b/../x\n@@ -0,0 +1 @@\n+x\n", reason.WorkspaceScope},
		{"absolute", "--- /dev/null\n+++ /tmp/x\n@@ -0,0 +1 @@\n+x\n", reason.WorkspaceScope},
		{"null by another name", "--- /dev/null\n+++ /dev/../dev/null\n@@ -0,0 +1 @@\n+x\n", reason.WorkspaceScope},
		{"quoted outside", "--- /dev/null\n+++ \"b/\\056\\056/x\"\n@@ -0,0 +1 @@\n+x\n", reason.WorkspaceScope},
		{"quoted newline", "--- /dev/null\n+++ \"b/a\\nb\"\n@@ -0,0 +1 @@\n+x\n", reason.InvalidInput},
		{"quoted NUL", "--- /dev/null\n+++ \"b/a\\000b\"\n@@ -0,0 +1 @@\n+x\n", reason.InvalidUTF8},
		{"protected", "--- /dev/null\n+++ b/.git/hooks/x\n@@ -0,0 +1 @@\n+x\n", reason.ProtectedPath},
		{"rename to protected", "diff --git a/a.txt b/.mcp.json\nrename from a.txt\nrename to .mcp.json\n", reason.ProtectedPath},
		{"rename onto a file", "diff --git a/a.txt b/b.txt\nrename from a.txt\nrename to b.txt\n", reason.PatchConflict},
		{"rename that lies", "diff --git a/a.txt b/n.txt\nrename from a.txt\nrename to n.txt\n--- a/b.txt\n+++ b/n.txt\n@@ -1 +1 @@\n-1\n+x\n", reason.InvalidInput},
		{"copy", "diff --git a/a.txt b/n.txt\ncopy from a.txt\ncopy to n.txt\n", reason.InvalidInput},
		{"symbolic link", "diff --git a/n b/n\nnew file mode 120000\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+../outside\n", reason.InvalidInput},
		{"submodule", "diff --git a/n b/n\nnew file mode 160000\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+Subproject commit 1\n", reason.InvalidInput},
		{"setuid", "diff --git a/a.txt b/a.txt\nold mode 100644\nnew mode 104755\n", reason.InvalidInput},
		{"binary", "diff --git a/n b/n\nGIT binary patch\nliteral 1\nIcmZPo000310RR91\n", reason.InvalidInput},
		{"mode lies", "diff --git a/a.txt b/a.txt\nnew file mode 100644\n--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-1\n+x\n", reason.InvalidInput},
		{"absurd numbers", head + "@@ -999999999,999999999 +1 @@\n-1\n", reason.InvalidInput},
		{"number overflow", head + "@@ -99999999999999999999 +1 @@\n-1\n", reason.InvalidInput},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b.t = t
			b.refused("fs.patch", object{"patch": test.patch}, test.want)
		})
	}
	if b.read("a.txt") != "1\n2\n3\n" || b.read("b.txt") != "1\n2\n3" {
		t.Error("a file was changed")
	}
}

func TestReadOnlyWorkspaceIsRefusedBeforeAsking(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	readOnly := newBench(t, nil)
	readOnly.write("f", "1\n")
	b.tools = readOnlyTools(t, readOnly.dir)
	b.refused("fs.write", object{"path": "x", "content": "a"}, reason.WorkspaceScope)
	b.refused("fs.patch", object{"patch": "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-1\n+x\n"}, reason.WorkspaceScope)
}

// TestNoRepositoryIsMade covers attempts to create a bare repository, for each tool.
func TestNoRepositoryIsMade(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	create := func(name string) string {
		return "--- /dev/null\n+++ b/" + name + "\n@@ -0,0 +1 @@\n+x\n"
	}
	for _, name := range []string{"HEAD", ".git/HEAD", "d/head", "policies/10.cedar", "palyra.toml", "lib/x.pth"} {
		b.refused("fs.write", object{"path": name, "content": "x"}, reason.ProtectedPath)
		b.refused("fs.patch", object{"patch": create(name)}, reason.ProtectedPath)
	}
	// The whole set is checked before an approval.
	b.write("bare/HEAD", "x")
	b.refused("fs.patch", object{"patch": create("bare/config") + create("bare/refs/k")}, reason.ProtectedPath)
	b.refused("fs.write", object{"path": "bare/objects/k", "content": "x"}, reason.ProtectedPath)
	b.write("bare/refs/k", "x")
	b.refused("fs.write", object{"path": "bare/hooks/pre-commit", "content": "x"}, reason.ProtectedPath)
	// Negative control: the same changes in a directory without HEAD.
	for _, in := range []object{{"patch": create("plain/config") + create("plain/refs/k")}, {"patch": create("bare/notes")}} {
		if _, err := b.plan("fs.patch", in); err != nil {
			t.Errorf("%v: %v", in, err)
		}
	}
}

// TestEditsPassTheGate: changes of fs.write and fs.patch pass the commit gate, with their paths
// and sizes, and a refusal leaves the files unchanged.
func TestEditsPassTheGate(t *testing.T) {
	t.Parallel()
	for name, input := range map[string]any{
		"fs.write": map[string]any{"path": "Docs/a.txt", "content": "new", "mode": "overwrite"},
		"fs.patch": map[string]any{"patch": "--- a/Docs/a.txt\n+++ b/Docs/a.txt\n@@ -1 +1 @@\n-old\n+new\n"},
	} {
		for _, allow := range []bool{false, true} {
			b := newBench(t, nil)
			b.write("Docs/a.txt", "old\n")
			p := must.Get(b.propose(name, input))(t)
			plan := must.Get(b.tools[name].Plan(t.Context(), p))(t)
			var asked []tool.CommitRequest
			report := b.run(t.Context(), tool.Call{Proposal: p, Plan: plan, Commit: func(_ context.Context, r tool.CommitRequest) (tool.CommitRuling, error) {
				asked = append(asked, r)
				return tool.CommitRuling{Allowed: allow}, nil
			}})
			if len(asked) != 1 {
				t.Fatalf("%s asked %d times", name, len(asked))
			}
			f := asked[0].Facts
			if f.Workspace != "default" || f.Modified != 1 || f.Added+f.Deleted != 0 || f.ExitCode != 0 || len(f.Protected) != 0 || !slices.Equal(f.Top, []string{"Docs", "docs"}) || !strings.Contains(asked[0].Preview.Diff, "+new") {
				t.Errorf("%s asked %+v", name, asked[0])
			}
			content := b.read("Docs/a.txt")
			if allow != strings.HasPrefix(content, "new") || !allow && (report.Reason != string(reason.CommitRefused) || len(report.Files) != 0) {
				t.Errorf("%s, allowed %v: %q, %+v", name, allow, content, report)
			}
		}
	}
}
