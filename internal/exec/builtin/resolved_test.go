package builtin

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/tool"
	"palyra/internal/exec/workspace"
)

// resolver is the interface dispatch.Resolver.
type resolver interface {
	Resolve(ctx context.Context, p tool.Proposal, plan tool.Plan) (tool.Resolved, error)
}

// resolvedBench returns a bench whose directory has three names, one of them through a parent.
// It also has a link and directories for detours.
func resolvedBench(t *testing.T) *bench {
	b, _, _ := processBench(t, func(c *Config) {
		ws := must.Get(c.Workspaces.Open("default"))(t)
		defer ws.Close()
		again := filepath.Join(filepath.Dir(ws.Path()), "again")
		must.Do(t, os.Symlink(ws.Path(), again))
		elsewhere := t.TempDir()
		c.Workspaces = must.Get(workspace.NewSet([]workspace.Declaration{
			{Name: "default", Path: ws.Path()}, {Name: "other", Path: again}, {Name: "above", Path: filepath.Dir(ws.Path())},
			{Name: "elsewhere", Path: elsewhere},
		}))(t)
		for _, dir := range []string{ws.Path(), elsewhere} {
			for _, name := range []string{"x", "y"} {
				must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte("one\n"), 0o644))
			}
			must.Do(t, os.Mkdir(filepath.Join(dir, "d"), 0o755))
		}
	})
	link(t, "x", filepath.Join(b.dir, "link"))
	return b
}

// TestResolved: equivalent calls resolve to equal values, and different calls to different
// values.
func TestResolved(t *testing.T) {
	t.Parallel()
	diff := func(path, to string) object {
		return object{"patch": fmt.Sprintf("--- a/%s\n+++ b/%s\n@@ -1 +1 @@\n-one\n+%s\n", path, path, to)}
	}
	b64 := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	// Each list contains spellings of one call, and all lists of a tool differ.
	table := map[string][][]any{
		"fs.read": {
			{
				object{"path": "x"}, `{"path":"./x"}`, object{"path": "d/../x"}, object{"path": "link"}, object{"path": "x", "workspace": "default"},
				object{"path": "x", "workspace": "other"}, object{"path": "ws/x", "workspace": "above"}, `{"workspace":"default","path":"x"}`,
				object{"path": "x", "offset": 0, "limit": 262144}, object{"path": "x", "offset": 1, "limit": 3},
			},
			{object{"path": "y"}},
			{object{"path": "x", "workspace": "elsewhere"}},
		},
		"fs.list": {
			{object{}, object{"path": "."}, object{"path": "d/.."}, object{"depth": 1, "limit": 1000, "hidden": false}, object{"workspace": "other"}, object{"path": "ws", "workspace": "above"}},
			{object{"hidden": true}},
			{object{"path": "d"}, object{"path": "./d"}},
		},
		"fs.search": {
			{object{"pattern": "a"}, object{"pattern": "a", "literal": true}, object{"pattern": "a", "path": ".", "max_matches": 100, "context_lines": 2}, object{"pattern": "a", "workspace": "other"}},
			{object{"pattern": "b"}},
			{object{"pattern": "a", "case_insensitive": true}},
			{object{"pattern": "a", "path": "d"}},
			{object{"pattern": "a", "glob": "*.go"}},
		},
		"fs.write": {
			{
				object{"path": "new", "content": "n"}, object{"path": "./new", "content": "n", "mode": "create"}, object{"path": "d/../new", "content_base64": b64("n")},
				object{"path": "new", "content": "n", "mode": "overwrite"}, object{"path": "new", "content": "n", "executable": false},
				object{"path": "new", "content": "n", "workspace": "other"},
			},
			{object{"path": "new", "content": "m"}},
			{object{"path": "d/new", "content": "n"}},
			{object{"path": "new", "content": "n", "executable": true}},
		},
		"fs.patch": {
			{diff("x", "two"), diff("./x", "two"), diff("d/../x", "two"), object{"patch": "hello\n" + diff("x", "two")["patch"].(string), "workspace": "other"}},
			{diff("x", "three")},
			{diff("y", "two")},
		},
		"http.fetch": {
			{
				object{"url": "https://example.com/a?b=1&c=2"}, object{"url": "https://EXAMPLE.com:443/a?c=2&b=1#part"}, object{"url": "https://example.com/x/../%61?b=1&c=%32"},
				object{"url": "https://example.com/a?b=1&c=2", "method": "GET", "timeout_ms": 5, "max_bytes": 9, "headers": object{"user-agent": "another", "x-request-id": "2"}},
			},
			{object{"url": "http://example.com/a?b=1&c=2"}},
			{object{"url": "https://example.com/a?b=2&c=2"}},
			{object{"url": "https://example.com/a?b=1&c=2", "method": "DELETE"}},
			{object{"url": "https://example.com/a?b=1&c=2", "headers": object{"authorization": "Bearer 1"}}},
			{object{"url": "https://example.com/a", "method": "POST", "body": "x"}, object{"url": "https://example.com/a", "method": "POST", "body_base64": b64("x")}},
		},
		"process.run": {
			{
				object{"argv": []string{"git", "add", "x", "--file=d/f"}}, object{"argv": []string{"git", "add", "./x", "--file=./d/f"}, "cwd": "."}, object{"argv": []string{"git", "add", "d/../x", "--file=d//f"}, "timeout_ms": 5000},
				object{"argv": []string{"git", "add", "/workspace/x", "--file=d/f"}, "workspace": "other", "dry_run": false, "read_only": false, "env": object{}},
			},
			{object{"argv": []string{"git", "add", "y", "--file=d/f"}}},
			{object{"argv": []string{"tool", "add", "x", "--file=d/f"}}},
			{object{"argv": []string{"git", "add", "x", "--file=d/f"}, "cwd": "d"}},
			{object{"argv": []string{"git", "add", "x", "--file=d/f"}, "env": object{"A": "1"}}},
			{object{"argv": []string{"git", "add", "x", "--file=d/f"}, "stdin": "s"}, object{"argv": []string{"git", "add", "x", "--file=d/f"}, "stdin_base64": b64("s")}},
			{object{"argv": []string{"git", "add", "x", "--file=d/f"}, "dry_run": true}},
			{object{"argv": []string{"git", "add", "x", "--file=d/f"}, "read_only": true}},
		},
		"shell.run": {
			{
				object{"command": "git add x | tool"}, object{"command": " git  add x|tool # now\n", "shell": "bash"}, object{"command": "git add x |\ntool", "cwd": "d/..", "timeout_ms": 5000},
				object{"command": "git add x | tool", "workspace": "other", "dry_run": false, "env": object{}},
			},
			{object{"command": "git add x && tool"}},
			{object{"command": "git add x | tool", "shell": "sh"}},
			{object{"command": "git add 'x | tool'"}},
			{object{"command": "git add 'x"}, object{"command": "git add 'x", "timeout_ms": 5000}},
			{object{"command": "git add x | tool", "cwd": "d"}},
			{object{"command": "git add x | tool", "stdin": "s"}},
			{object{"command": "git add x | tool", "read_only": true}},
		},
		"echo":          {{`{"text":"a","data":1}`, `{"data":1,"text":"a"}`}, {`{"text":"b"}`}},
		listSecretsName: {{object{}, `{ }`}},
		"sleep":         {{object{"duration_ms": 1}, `{ "duration_ms": 1 }`}, {object{"duration_ms": 2}}},
	}
	b := resolvedBench(t)
	for name := range b.tools {
		if table[name] == nil {
			t.Errorf("%s is not in the table: say what its calls come to", name)
		}
	}
	for name, things := range table {
		seen := map[string]any{}
		for _, spellings := range things {
			first := b.resolve(name, spellings[0])
			if other, taken := seen[first]; taken {
				t.Errorf("%s: %v is the same as %v", name, spellings[0], other)
			}
			seen[first] = spellings[0]
			for _, s := range spellings[1:] {
				if got := b.resolve(name, s); got != first {
					t.Errorf("%s: %v is not the same as %v", name, s, spellings[0])
				}
			}
		}
	}
}

func (b *bench) resolve(name string, input any) string {
	b.t.Helper()
	p, err := b.propose(name, input)
	if err != nil {
		b.t.Fatalf("%s %v: %v", name, input, err)
	}
	plan, err := b.tools[name].Plan(b.t.Context(), p)
	if err != nil {
		b.t.Fatalf("%s %v: %v", name, input, err)
	}
	r := tool.Resolved{Act: name, What: map[string]any{"arguments": string(p.Input)}} // like package dispatch for others
	if t, ok := b.tools[name].(resolver); ok {
		if r, err = t.Resolve(b.t.Context(), p, plan); err != nil {
			b.t.Fatalf("%s %v: %v", name, input, err)
		}
	}
	digest, err := r.Digest()
	if err != nil || !strings.HasPrefix(digest, "sha256:") {
		b.t.Fatalf("%s %v: %q, %v", name, input, digest, err)
	}
	return digest
}

// TestWriteAndPatchResolveAlike: a change that was refused as a write requests no approval as a
// patch.
func TestWriteAndPatchResolveAlike(t *testing.T) {
	t.Parallel()
	b := resolvedBench(t)
	write := b.resolve("fs.write", object{"path": "new", "content": "n\n"})
	patch := b.resolve("fs.patch", object{"patch": "--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+n\n"})
	if write != patch {
		t.Error("a write and the patch that does the same come to different things")
	}
}
