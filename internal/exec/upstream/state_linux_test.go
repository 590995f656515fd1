//go:build palyrainit

package upstream_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/upstream"
	"palyra/internal/exec/upstream/declared"
)

// stateful returns a world whose servers store their state below a directory.
func stateful(t *testing.T, limit int64) (w *world, root, state string) {
	t.Helper()
	bubblewrapped, root := inTierC(t)
	state = filepath.Join(dirOf(t), "upstreams")
	return newWorld(t, bubblewrapped, func(c *upstream.Config) { c.State, c.StateLimit = state, limit }), root, state
}

// TestState: the program of a server writes to its own state directory. The directory survives
// its process and the gateway, and is removed with the server. It is not part of the workspace,
// and not visible to other servers and principals.
func TestState(t *testing.T) {
	t.Parallel()
	w, root, state := stateful(t, 0)
	for _, name := range []string{"memory", "other"} {
		if s := w.addFiles(name, root, false); s.Problem != "" {
			t.Fatal(s.Problem)
		}
	}
	w.works("memory/keep", `{"name":"a.txt","content":"remembered"}`)
	for _, again := range []func(){w.Pool.EndIdle, w.restart} {
		again()
		if got := resultText(t, w.works("memory/recall", `{"name":"a.txt"}`)); got != "remembered" {
			t.Errorf("after its end it has %q", got)
		}
	}
	for variable, want := range map[string]string{"STATE_DIRECTORY": "/cache/state", "XDG_DATA_HOME": "/cache/state/.local/share", "MEMORY_FILE_PATH": "/cache/state/memory.jsonl", "HOME": "/home/tool"} {
		if got := resultText(t, w.works("memory/value", `{"name":"`+variable+`"}`)); !strings.HasSuffix(got, " "+want) {
			t.Errorf("%s is %q", variable, got)
		}
	}
	w.fails("other/recall", `{"name":"a.txt"}`, reason.ToolFailed)
	if r := must.Get(w.callAs(operator, "memory/recall", `{"name":"a.txt"}`, tool.Peer{}))(t); r.Outcome == tool.Succeeded {
		t.Errorf("another principal sees %s", r.Result)
	}
	if _, err := os.Stat(filepath.Join(root, "a.txt")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the workspace has it: %v", err)
	}
	if info := must.Get(os.Stat(filepath.Join(state, "memory")))(t); info.Mode().Perm() != 0o700 {
		t.Errorf("the directory has the mode %s", info.Mode())
	}
	must.Do(t, w.Remove(t.Context(), operator, "memory"))
	if _, err := os.Stat(filepath.Join(state, "memory")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the state of the removed server: %v", err)
	}
	w.addFiles("memory", root, false)
	w.fails("memory/recall", `{"name":"a.txt"}`, reason.ToolFailed)
	// The next start completes an interrupted removal; used directories stay.
	must.Do(t, os.MkdirAll(filepath.Join(state, "gone", "agent:x", "deep"), 0o700))
	w.restart()
	if _, err := os.Stat(filepath.Join(state, "gone")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what is left of a removed server: %v", err)
	}
	if _, err := os.Stat(filepath.Join(state, "memory")); err != nil {
		t.Error(err)
	}
}

// TestStateIsDeclaredFirst: a variable that the server declares takes precedence over its state
// directory's, and a server that receives secrets as plain values has no such directory.
func TestStateIsDeclaredFirst(t *testing.T) {
	t.Parallel()
	w, root, state := stateful(t, 0)
	must.Get(w.Add(t.Context(), operator, declared.Server{
		Name: "own", Command: []string{filepath.Join(root, "server")}, Workspace: "default", Env: map[string]string{serverMark: "1", "MEMORY_FILE_PATH": "/tmp/mine.jsonl"},
	}))(t)
	if got := resultText(t, w.works("own/value", `{"name":"MEMORY_FILE_PATH"}`)); !strings.HasSuffix(got, " /tmp/mine.jsonl") {
		t.Errorf("the declared variable is %q", got)
	}
	must.Get(w.Add(t.Context(), operator, declared.Server{
		Name: "signer", Command: []string{filepath.Join(root, "server")}, Workspace: "default", Env: map[string]string{serverMark: "1"}, Inject: []string{"global/signing"},
	}))(t)
	if _, err := os.Stat(filepath.Join(state, "signer")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a server with a secret has a state directory: %v", err)
	}
}

// TestStateLimit: a server whose state exceeds the limit does not start, and the error contains
// the next step. Control: the server before its state grows.
func TestStateLimit(t *testing.T) {
	t.Parallel()
	w, root, state := stateful(t, 1000)
	w.addFiles("memory", root, false)
	w.works("memory/keep", `{"name":"a.txt","content":"small"}`)
	owners := must.Get(os.ReadDir(filepath.Join(state, "memory")))(t)
	for _, owner := range owners {
		must.Do(t, os.WriteFile(filepath.Join(state, "memory", owner.Name(), "large"), make([]byte, 2000), 0o600))
	}
	w.restart()
	if r := w.fails("memory/recall", `{"name":"a.txt"}`, reason.QuotaExceeded); !strings.Contains(r.Message, "cache_limit_bytes") {
		t.Errorf("it says %q", r.Message)
	}
}

// TestProgramsBelowTheWorkspace: the program of a server is found below /workspace by the names
// that process.run accepts. Controls: names of files that do not exist, and a server without a
// workspace.
func TestProgramsBelowTheWorkspace(t *testing.T) {
	t.Parallel()
	installed, hidden := dirOf(t), dirOf(t)
	bubblewrapped, root := inTierC(t)
	w := newWorld(t, bubblewrapped, func(c *upstream.Config) {
		c.Toolchains = func() []command.Toolchain { return []command.Toolchain{{Name: "installed", Dirs: []string{installed}}} }
	})
	must.Do(t, os.MkdirAll(filepath.Join(root, "bin"), 0o755))
	must.Do(t, os.Link(filepath.Join(root, "server"), filepath.Join(root, "bin", "server")))
	must.Do(t, os.WriteFile(filepath.Join(root, "script"), []byte("#!"+filepath.Join(root, "bin", "server")+"\n"), 0o755))
	must.Do(t, os.Symlink("bin/server", filepath.Join(root, "link")))
	for name, dir := range map[string]string{"outside": installed, "hidden": hidden} {
		must.Do(t, os.Link(filepath.Join(root, "server"), filepath.Join(dir, "server")))
		must.Do(t, os.Symlink(filepath.Join(dir, "server"), filepath.Join(root, name)))
	}
	for name, command := range map[string][]string{
		"mount": {"/workspace/server"}, "dot": {"./bin/server"}, "relative": {"bin/server"}, "host": {filepath.Join(root, "server")}, "script": {"/workspace/script"}, "link": {"./link"}, "outside": {"/workspace/outside"},
	} {
		state := must.Get(w.Add(t.Context(), operator, declared.Server{Name: name, Command: command, Env: map[string]string{serverMark: "1"}, Workspace: "default"}))(t)
		if state.Problem != "" {
			t.Errorf("%s: %s", name, state.Problem)
			continue
		}
		w.works(name+"/count", `{}`)
	}
	for name, row := range map[string]struct {
		server declared.Server
		want   string
	}{
		"missing": {declared.Server{Command: []string{"/workspace/nothing"}, Workspace: "default"}, "nothing"},
		"hidden":  {declared.Server{Command: []string{"/workspace/hidden"}, Workspace: "default"}, "is outside of"},
		"leading": {declared.Server{Command: []string{"../server"}, Workspace: "default"}, ""},
		"bare":    {declared.Server{Command: []string{"/workspace/server"}}, "inside a workspace"},
	} {
		row.server.Name = name
		if s, err := w.Add(t.Context(), operator, row.server); err != nil || s.Problem == "" || !strings.Contains(s.Problem, row.want) {
			t.Errorf("%s: %v, %q", name, err, s.Problem)
		}
	}
}
