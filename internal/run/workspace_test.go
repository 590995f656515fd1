package run_test

import (
	"encoding/json"
	"testing"
	"testing/synctest"

	"palyra/internal/core/access"
	"palyra/internal/core/tool"
	"palyra/internal/run"
)

// TestCallsAreInTheWorkspaceOfTheRun: a model's call without a workspace gets the run's
// workspace. A call that names a workspace, a tool without one, and invalid JSON stay
// unchanged.
func TestCallsAreInTheWorkspaceOfTheRun(t *testing.T) {
	t.Parallel()
	takes := json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"},"workspace":{"type":"string"}}}`)
	catalog := []tool.Descriptor{
		{Name: "echo", InputSchema: json.RawMessage(`{"type":"object"}`)}, {Name: "fs.read", InputSchema: takes, Executor: tool.Builtin},
		{Name: "chat/read", InputSchema: takes, Executor: tool.MCPUpstream},
	}
	for _, c := range []struct{ tool, input, want string }{
		{"fs.read", `{"path":"a<b"}`, `{"path":"a<b","workspace":"docs"}`},
		{"fs.read", `{}`, `{"workspace":"docs"}`},
		{"fs.read", `{"path":"a","workspace":""}`, `{"path":"a","workspace":"docs"}`},
		{"fs.read", `{"workspace": "default"}`, `{"workspace": "default"}`},
		{"fs.read", `{"workspace":null}`, `{"workspace":null}`},
		{"fs.read", `{"path":"a","path":"b"}`, `{"path":"a","path":"b"}`},
		{"fs.read", `{"path":`, `{"path":`},
		{"fs.read", `["a"]`, `["a"]`},
		{"fs.read", `null`, `null`},
		{"echo", `{"text":"a"}`, `{"text":"a"}`},
		{"chat/read", `{"path":"a"}`, `{"path":"a"}`},
		{"unknown", `{"path":"a"}`, `{"path":"a"}`},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, calls(modelCall("c1", c.tool, c.input)), says("done"))
			w.stop()
			w.pipeline.tools[c.tool] = returns(`{"ok":true}`)
			w.config.Catalog = func(access.Caller) []tool.Descriptor { return catalog }
			w.open()
			defer w.stop()
			r, _ := w.start(run.Start{Workspace: "docs"})
			w.finish(r.ID)
			if n := len(w.pipeline.submitted); n != 1 || string(w.pipeline.submitted[0].Input) != c.want {
				t.Errorf("%s %s was submitted as %+v, want %s", c.tool, c.input, w.pipeline.submitted, c.want)
			}
		})
	}
}
