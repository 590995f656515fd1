package calls_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/clitest"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

// placeWorld returns a world with two workspaces on this machine, one inside the other, and the
// tools of files and programs. It returns their directories with links resolved.
func placeWorld(t *testing.T) (w *clitest.World, outer, inner string) {
	t.Helper()
	w = clitest.NewWorld(t)
	top := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	outer, inner = filepath.Join(top, "project"), filepath.Join(top, "project", "vendored")
	for _, dir := range []string{filepath.Join(outer, "sub", "deep"), inner, filepath.Join(top, "elsewhere")} {
		must.Do(t, os.MkdirAll(dir, 0o700))
	}
	w.Gateway.Workspaces = []*palyrav1.WorkspaceStatus{{Name: "project", Path: outer}, {Name: "vendored", Path: inner}}
	w.Gateway.Tools = []*palyrav1.Tool{
		{Name: "fs.read", InputSchemaJson: []byte(`{"required":["path"],"properties":{"path":{"type":"string"},"workspace":{"type":"string"}}}`)},
		{Name: "fs.list", InputSchemaJson: []byte(`{"properties":{"path":{"type":"string"},"workspace":{"type":"string"}}}`)},
		{Name: "process.run", InputSchemaJson: []byte(`{"required":["argv"],"properties":{"argv":{"type":"array"},"cwd":{"type":"string"},"workspace":{"type":"string"}}}`)},
		{Name: "chat/read", Executor: "mcp_upstream", InputSchemaJson: []byte(`{"properties":{"path":{"type":"string"},"workspace":{"type":"string"}}}`)},
		{Name: "mail.read", InputSchemaJson: []byte(`{"properties":{"path":{"type":"string"}}}`)},
	}
	return w, outer, inner
}

// sent runs a call and returns the input that was sent.
func sent(t *testing.T, w *clitest.World, args ...string) string {
	t.Helper()
	w.Gateway.Calls = nil
	w.Want(w.Run(append([]string{"call"}, args...)...), 0)
	return string(w.Gateway.Calls[0].GetInputJson())
}

// TestCallInTheCurrentDirectory: a call without a workspace uses the innermost workspace of the
// current directory, and its file names are relative to that directory.
//
// Not parallel: it changes the current directory of the process.
func TestCallInTheCurrentDirectory(t *testing.T) {
	w, outer, inner := placeWorld(t)
	sub := filepath.Join(outer, "sub")
	for _, c := range []struct {
		dir, want string
		args      []string
	}{
		{sub, `{"path":"sub/main.go","workspace":"project"}`, []string{"fs.read", "path=main.go"}},
		{sub, `{"path":"sub/main.go","workspace":"project"}`, []string{"fs.read", "path=./main.go"}},
		{sub, `{"path":"main.go","workspace":"project"}`, []string{"fs.read", "path=../main.go"}},
		{filepath.Join(sub, "deep"), `{"path":"sub/x/../main.go","workspace":"project"}`, []string{"fs.read", "path=../x/../main.go"}},
		{sub, `{"path":"../out","workspace":"project"}`, []string{"fs.read", "path=../../out"}},
		{sub, `{"path":"sub/main.go","workspace":"project"}`, []string{"fs.read", "path=" + filepath.Join(sub, "main.go")}},
		{sub, `{"path":"` + filepath.Join(filepath.Dir(outer), "elsewhere") + `","workspace":"project"}`, []string{"fs.read", "path=" + filepath.Join(filepath.Dir(outer), "elsewhere")}},
		{sub, `{"path":"main.go","workspace":"project"}`, []string{"fs.read", `path:="main.go"`}},
		{outer, `{"path":"main.go","workspace":"project"}`, []string{"fs.read", "path=main.go"}},
		{inner, `{"path":"main.go","workspace":"vendored"}`, []string{"fs.read", "path=main.go"}},
		{outer, `{"workspace":"project"}`, []string{"fs.list"}},
		{sub, `{"workspace":"project","path":"sub"}`, []string{"fs.list"}},
		{sub, `{"path":".","workspace":"project"}`, []string{"fs.list", "path=.."}},
		{sub, `{"path":".","workspace":"project"}`, []string{"fs.list", "path=" + outer}},
		{sub, `{"argv":["make","path=x"],"workspace":"project","cwd":"sub"}`, []string{"process.run", "argv=make", "argv=path=x"}},
		{sub, `{"argv":["make"],"cwd":"sub/deep","workspace":"project"}`, []string{"process.run", "argv=make", "cwd=deep"}},
	} {
		t.Chdir(c.dir)
		if got := sent(t, w, c.args...); got != c.want {
			t.Errorf("%v in %s: %s, want %s", c.args, c.dir, got, c.want)
		}
	}
}

// TestCallElsewhere: arguments stay unchanged if they name a workspace, if the tool has no
// workspace, if the input is JSON, or if the current directory is in no workspace. Only the
// last case requests the list of workspaces.
//
// Not parallel: it changes the current directory of the process.
func TestCallElsewhere(t *testing.T) {
	w, outer, _ := placeWorld(t)
	t.Chdir(filepath.Join(outer, "sub"))
	for want, args := range map[string][]string{
		`{"workspace":"vendored","path":"main.go"}`: {"fs.read", "workspace=vendored", "path=main.go"},
		`{"workspace":"a","path":"main.go"}`:        {"fs.read", `workspace:="a"`, "path=main.go"},
		`{"path":"inbox"}`:                          {"mail.read", "path=inbox"},
		`{"path":"general"}`:                        {"chat/read", "path=general"},
		`{"path":"b.go"}`:                           {"fs.read", "--input", `{"path":"b.go"}`},
	} {
		if got := sent(t, w, args...); got != want || len(clitest.Requests[*palyrav1.ListWorkspacesRequest](w)) != 0 {
			t.Errorf("%v: %s after %d questions, want %s", args, got, len(clitest.Requests[*palyrav1.ListWorkspacesRequest](w)), want)
		}
	}
	t.Chdir(filepath.Join(filepath.Dir(outer), "elsewhere"))
	if got := sent(t, w, "fs.read", "path="+filepath.Join(outer, "a")); got != `{"path":"`+filepath.Join(outer, "a")+`"}` {
		t.Errorf("in no workspace of several: %s", got)
	}
	w.Gateway.Workspaces = w.Gateway.Workspaces[:1]
	for name, want := range map[string]string{"main.go": "main.go", filepath.Join(outer, "sub", "main.go"): "sub/main.go"} {
		if got := sent(t, w, "fs.read", "path="+name); got != `{"path":"`+want+`"}` {
			t.Errorf("%s in no workspace of one: %s", name, got)
		}
	}
}

// TestCallThroughLinks: a workspace is found through any link to its directory. A directory
// with two workspaces is ambiguous, and a link in a file name is not resolved.
//
// Not parallel: it changes the current directory of the process.
func TestCallThroughLinks(t *testing.T) {
	w, outer, inner := placeWorld(t)
	other := filepath.Join(filepath.Dir(outer), "other")
	must.Do(t, os.Symlink(outer, other))
	must.Do(t, os.Symlink("sub", filepath.Join(outer, "link")))
	t.Chdir(filepath.Join(other, "sub"))
	want := `{"path":"sub/main.go","workspace":"project"}`
	if got := sent(t, w, "fs.read", "path=main.go"); got != want {
		t.Errorf("through a link to the workspace: %s", got)
	}
	if got := sent(t, w, "fs.read", "path="+filepath.Join(other, "sub", "main.go")); got != want {
		t.Errorf("an absolute name through a link: %s", got)
	}
	if got := sent(t, w, "fs.read", "path="+filepath.Join(other, "link")); got != `{"path":"link","workspace":"project"}` {
		t.Errorf("a link by its absolute name: %s", got)
	}
	w.Gateway.Workspaces[0].Path = other
	if got := sent(t, w, "fs.read", "path=main.go"); got != want {
		t.Errorf("a workspace declared through a link: %s", got)
	}
	w.Gateway.Workspaces = append(w.Gateway.Workspaces, &palyrav1.WorkspaceStatus{Name: "again", Path: outer})
	if got := sent(t, w, "fs.read", "path=main.go"); got != `{"path":"main.go"}` {
		t.Errorf("one directory under two names: %s", got)
	}
	t.Chdir(inner)
	if got := sent(t, w, "fs.read", "path=main.go"); got != `{"path":"main.go","workspace":"vendored"}` {
		t.Errorf("within a directory under two names: %s", got)
	}
}

// TestCallThatCannotListWorkspaces: if the caller may not list workspaces, the gateway chooses
// one. Any other error of the list fails the call.
//
// Not parallel: it changes the current directory of the process.
func TestCallThatCannotListWorkspaces(t *testing.T) {
	w, outer, _ := placeWorld(t)
	t.Chdir(outer)
	w.Gateway.WorkspacesFail = clitest.GatewayError(connect.CodePermissionDenied, reason.PermissionDenied, "workspace.read is not yours", nil)
	if got := sent(t, w, "fs.read", "path=main.go"); got != `{"path":"main.go"}` {
		t.Error(got)
	}
	w.Gateway.Calls = nil
	w.Gateway.WorkspacesFail = clitest.GatewayError(connect.CodeInternal, reason.Internal, "broken", nil)
	if r := w.Run("call", "fs.read", "path=main.go"); r.Code == 0 || len(w.Gateway.Calls) != 0 || !strings.Contains(r.Err, "broken") {
		t.Errorf("%+v, %d calls", r, len(w.Gateway.Calls))
	}
}
