package mcp_test

import (
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A client sends the requester's reason in the _meta of its call. Without it, or if it is not a
// string, no approval is requested.
func TestReasonOfTheClient(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, revision string) {
		w := newWorld(t, func(w *world) {
			w.options.Policies = `@id("why") @ask_reason("Which ticket?") forbid(principal, action == Action::"tool.execute/process.run", resource) unless { context.approval.granted };`
		})
		c := w.connect(clientConfig{revision: revision})
		for _, meta := range []mcp.Meta{nil, {"palyra.dev/requester-reason": 7}, {"requester-reason": "OPS-1"}} {
			m := <-c.begin(t.Context(), "process_run", make1, meta)
			if m.err != nil || !m.IsError || m.call()["reason"] != "REQUEST_REASON_NEEDED" || !strings.Contains(m.text(), "Which ticket?") || !strings.Contains(m.text(), `"palyra.dev/requester-reason" in its _meta`) {
				t.Errorf("%v: %s %v", meta, m.text(), m.err)
			}
		}
		done := c.begin(t.Context(), "process_run", make1, mcp.Meta{"palyra.dev/requester-reason": "OPS-1"})
		a := w.pending(1)[0]
		if a.Prompt.RequesterReason != "OPS-1" || strings.Contains(string(a.Binding.Arguments), "OPS-1") {
			t.Errorf("people see %q, of the call %s", a.Prompt.RequesterReason, a.Binding.Arguments)
		}
		w.vote(a, true)
		if m := <-done; m.err != nil || m.IsError {
			t.Errorf("with a reason: %s %v", m.text(), m.err)
		}
		w.run.Ran(t, 1)
	})
}
