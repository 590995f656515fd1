//go:build palyrainit

package upstream_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/core/must"
	"palyra/internal/core/needs"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/bubblewrap"
	"palyra/internal/exec/upstream"
	"palyra/internal/exec/upstream/declared"
	"palyra/internal/exec/workspace"
	"palyra/internal/exec/workspace/overlay"
	"palyra/internal/vault"
)

// These tests run a server in bubblewrap: this test binary, as a file of the workspace.

const serverMark = "TEST_UPSTREAM_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(serverMark) != "" {
		os.Exit(files())
	}
	os.Exit(m.Run())
}

// files serves tools that read and write files, and one that inspects its environment.
func files() int {
	s := mcp.NewServer(&mcp.Implementation{Name: "files", Version: "1"}, nil)
	type in struct{ Name, Content string }
	handle := func(do func(in) (string, error)) mcp.ToolHandler {
		return func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			var i in
			if err := json.Unmarshal(r.Params.Arguments, &i); err != nil {
				return nil, err
			}
			out, err := do(i)
			if err != nil {
				return nil, err
			}
			return text(out), nil
		}
	}
	count := 0
	add(s, "count", "", handle(func(in) (string, error) { count++; return strings.Repeat("x", count), nil }))
	add(s, "read", "", handle(func(i in) (string, error) { b, err := os.ReadFile(i.Name); return string(b), err }))
	add(s, "value", "", handle(func(i in) (string, error) {
		return fmt.Sprintf("%d %s", len(os.Getenv(i.Name)), os.Getenv(i.Name)), nil
	}))
	add(s, "leave", "", handle(func(i in) (string, error) { return "left", os.WriteFile(i.Content, []byte(os.Getenv(i.Name)), 0o644) }))
	add(s, "keep", "", handle(func(i in) (string, error) {
		return "kept", os.WriteFile(filepath.Join(os.Getenv("STATE_DIRECTORY"), i.Name), []byte(i.Content), 0o600)
	}))
	add(s, "recall", "", handle(func(i in) (string, error) {
		b, err := os.ReadFile(filepath.Join(os.Getenv("STATE_DIRECTORY"), i.Name))
		return string(b), err
	}))
	add(s, "write", "", handle(func(i in) (string, error) { return "written", os.WriteFile(i.Name, []byte("new"), 0o644) }))
	if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil && !errors.Is(err, io.EOF) {
		return 1
	}
	return 0
}

// watched is a real sandbox with a fixed status.
type watched struct {
	sandbox.Runner
	status sandbox.Status
}

func (w watched) Status() sandbox.Status { return w.status }

// sandboxed returns a world with a workspace in which this binary is a server.
func sandboxed(t *testing.T) (w *world, root string) {
	t.Helper()
	bubblewrapped, root := inTierC(t)
	return newWorld(t, bubblewrapped), root
}

// inTierC configures servers to run in bubblewrap, with a workspace in which this binary is a
// server.
func inTierC(t *testing.T) (change func(*upstream.Config), root string) {
	t.Helper()
	needs.Sandbox(t)
	layers, root := dirOf(t), dirOf(t)
	r := must.Get(bubblewrap.New(bubblewrap.Config{Enabled: true, LayerDir: layers, QuarantineDir: dirOf(t)}))(t)
	t.Cleanup(func() { must.Check(t, r.Close()) })
	status := r.Probe(t.Context())
	if !status.Available {
		t.Fatalf("%s: %s", status.Problem, status.Remedy)
	}
	program := must.Get(os.ReadFile("/proc/self/exe"))(t)
	must.Do(t, os.WriteFile(filepath.Join(root, "server"), program, 0o755))
	must.Do(t, os.WriteFile(filepath.Join(root, "notes.txt"), []byte("old"), 0o644))
	return func(c *upstream.Config) {
		c.Runner, c.History = watched{r, status}, overlay.History{Dir: dirOf(t)}
		c.Workspaces = must.Get(workspace.NewSet([]workspace.Declaration{{Name: "default", Path: root}}))(t)
	}, root
}

func dirOf(t *testing.T) string {
	t.Helper()
	dir := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	must.Do(t, os.Chmod(dir, 0o755))
	return dir
}

func (w *world) addFiles(name, root string, write bool) declared.State {
	w.t.Helper()
	return must.Get(w.Add(w.t.Context(), operator, declared.Server{
		Name: name, Command: []string{filepath.Join(root, "server")}, Env: map[string]string{serverMark: "1"}, Workspace: "default", Write: write,
	}))(w.t)
}

// TestSandboxed: a server is a process in Tier C that stays between calls. Every report
// contains the isolation that was verified at its start.
func TestSandboxed(t *testing.T) {
	t.Parallel()
	w, root := sandboxed(t)
	if s := w.addFiles("files", root, false); s.Problem != "" {
		t.Fatal(s.Problem)
	}
	first, second := w.works("files/count", `{}`), w.works("files/count", `{}`)
	if resultText(t, second) != "xx" || first.Executor.Instance != second.Executor.Instance {
		t.Errorf("%s then %s", first.Result, second.Result)
	}
	if i := second.Isolation; i == nil || i.UID == 0 || len(i.Namespaces) < 6 || second.Enforcement.Level != sandbox.LevelStrict || second.Executor.Tier != "c" || second.Executor.Backend == "" {
		t.Errorf("report %+v", second)
	}
	if got := resultText(t, w.works("files/read", `{"name":"/workspace/notes.txt"}`)); got != "old" {
		t.Errorf("the workspace has %q", got)
	}
	canary := filepath.Join(dirOf(t), "canary")
	must.Do(t, os.WriteFile(canary, []byte("secret"), 0o644))
	w.fails("files/read", `{"name":"`+canary+`"}`, reason.ToolFailed)
	// Read-only is the default.
	w.fails("files/write", `{"name":"/workspace/notes.txt"}`, reason.ToolFailed)
	if b := must.Get(os.ReadFile(filepath.Join(root, "notes.txt")))(t); string(b) != "old" {
		t.Errorf("it wrote %q", b)
	}
}

// TestCommits: the writes of a call pass the commit gate at its end; after a refusal the
// workspace is unchanged. A call without writes does not end the process.
func TestCommits(t *testing.T) {
	t.Parallel()
	w, root := sandboxed(t)
	w.addFiles("files", root, true)
	notes := filepath.Join(root, "notes.txt")
	r := w.works("files/write", `{"name":"/workspace/notes.txt"}`)
	if b := must.Get(os.ReadFile(notes))(t); string(b) != "new" || r.Changes == nil || r.Changes.State != tool.Committed || len(r.Files) != 1 {
		t.Errorf("%q, %+v", b, r.Changes)
	}
	if got := resultText(t, w.works("files/read", `{"name":"/workspace/notes.txt"}`)); got != "new" {
		t.Errorf("the next call reads %q", got)
	}
	first, second := w.works("files/count", `{}`), w.works("files/count", `{}`)
	if resultText(t, second) != "xx" || second.Executor.Instance != first.Executor.Instance || second.Changes != nil {
		t.Errorf("%s", second.Result)
	}
	w.source = letsAll + `@id("test.no") @reason("no") forbid(principal, action == Action::"workspace.commit", resource);`
	must.Do(t, w.Rebuild(t.Context(), ""))
	must.Do(t, os.WriteFile(notes, []byte("mine"), 0o644))
	// The process started before the file was changed, and may have read the old content.
	w.fails("files/write", `{"name":"/workspace/notes.txt"}`, reason.CommitConflict)
	refused := w.fails("files/write", `{"name":"/workspace/notes.txt"}`, reason.CommitRefused)
	if b := must.Get(os.ReadFile(notes))(t); string(b) != "mine" || refused.Changes == nil || refused.Changes.State != tool.Discarded {
		t.Errorf("%q, %+v", b, refused.Changes)
	}
	if got := resultText(t, w.works("files/read", `{"name":"/workspace/notes.txt"}`)); got != "mine" {
		t.Errorf("after a no the next call reads %q", got)
	}
}

// TestStartSecretsSandboxed: in Tier C the program has the value in its variable or its file,
// and its output and its files do not contain it. A server without an approval has no value.
// Control: a server without secrets.
func TestStartSecretsSandboxed(t *testing.T) {
	t.Parallel()
	bubblewrapped, root := inTierC(t)
	w := newVaulted(t, bubblewrapped)
	env, file := "KEY_FILE", "key.txt"
	must.Get(w.vault.Put(t.Context(), alice, vault.Ref{Scope: "global", Key: "file"}, []byte("another-"+rawValue[4:]), vault.Metadata{Env: &env, File: &file}))(t)
	w.source = letsAll + `@id("signing") @waives("approval: a test") permit(principal, action == Action::"secret.inject", resource);`
	must.Do(t, w.Rebuild(t.Context(), ""))
	declare := func(name string, write bool, refs ...string) {
		must.Get(w.Add(t.Context(), operator, declared.Server{
			Name: name, Command: []string{filepath.Join(root, "server")}, Env: map[string]string{serverMark: "1"}, Workspace: "default", Write: write, Inject: refs,
		}))(t)
		if len(refs) == 0 {
			return
		}
		if r, err := w.callAs(operator, name+"/mcp.start", `{}`, tool.Peer{}); err != nil || r.Outcome != tool.Succeeded {
			t.Fatalf("%v, %s %s", err, r.Reason, r.Message)
		}
		must.Get(w.Refresh(t.Context(), operator, name))(t)
	}
	declare("signer", true, "global/signing", "global/file")
	declare("other", false)
	if got := resultText(t, w.works("other/value", `{"name":"SIGNING_KEY"}`)); got != "0 " {
		t.Errorf("the control has %q", got)
	}
	r := w.works("signer/value", `{"name":"SIGNING_KEY"}`)
	if got := resultText(t, r); got != fmt.Sprintf("%d [secret global/signing]", len(rawValue)) || r.Isolation == nil {
		t.Errorf("it has %q", got)
	}
	if got := resultText(t, w.works("signer/value", `{"name":"KEY_FILE"}`)); !strings.HasSuffix(got, " /home/tool/.secrets/key.txt") {
		t.Errorf("the variable of the file has %q", got)
	}
	if got := resultText(t, w.works("signer/read", `{"name":"/home/tool/.secrets/key.txt"}`)); !strings.HasPrefix(got, "[secret global/file]") {
		t.Errorf("the file has %q", got)
	}
	w.fails("signer/leave", `{"name":"SIGNING_KEY","content":"/workspace/key"}`, reason.CommitRefused)
	if _, err := os.Stat(filepath.Join(root, "key")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it left the secret in the workspace: %v", err)
	}
	// Changes without a secret are committed, and the lease ends with the process.
	w.works("signer/write", `{"name":"/workspace/notes.txt"}`)
	if b := must.Get(os.ReadFile(filepath.Join(root, "notes.txt")))(t); string(b) != "new" {
		t.Errorf("it wrote %q", b)
	}
	w.Pool.EndIdle()
	until(t, func() bool { return w.leases() == 0 })
}
