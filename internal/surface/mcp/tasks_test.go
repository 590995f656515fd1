package mcp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"palyra/internal/call/approval"
	"palyra/internal/core/must"
	"palyra/internal/core/tool"
	"palyra/internal/gateway/gatewaytest"
)

var withTasks = map[string]any{"extensions": map[string]any{"io.modelcontextprotocol/tasks": map[string]any{}}}

func (w *world) task(as, method, id string) map[string]any {
	w.t.Helper()
	_, answer := w.raw(as, method, map[string]any{"taskId": id}, withTasks)
	return answer
}

// ends polls a task until it has ended, and returns it.
func (w *world) ends(id string) map[string]any {
	w.t.Helper()
	var r map[string]any
	must.Eventually(w.t, "the task ends", func() (bool, string) {
		r = resultIn(w.task("", "tasks/get", id))
		return r["status"] != "working", fmt.Sprint(r)
	})
	return r
}

// A call that requires approval becomes a task for a client that supports tasks.
func TestTasks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := gatewaytest.Agent
	other.DeviceID = "01JNA3Q0G0DEV1CE0000000009"
	w.callers["other"] = other
	_, answer := w.raw("", "tools/call", map[string]any{"name": "fs_read", "arguments": map[string]any{"path": "a"}}, withTasks)
	if r := resultIn(answer); r["resultType"] != "complete" {
		t.Errorf("a call that nobody is asked about: %v", answer)
	}
	_, answer = w.raw("", "tools/call", callParams(""), withTasks)
	r := resultIn(answer)
	id, _ := r["taskId"].(string)
	a := w.pending(1)[0]
	if r["resultType"] != "task" || r["status"] != "working" || id == "" || !strings.Contains(r["statusMessage"].(string), a.ID) {
		t.Fatalf("answered %v", answer)
	}
	for _, method := range []string{"tasks/get", "tasks/cancel", "tasks/update"} {
		if got := errorIn(w.task("other", method, id)); !strings.Contains(got, "unknown task") {
			t.Errorf("%s by somebody else: %q", method, got)
		}
	}
	w.vote(a, true)
	done := w.ends(id)
	result, _ := done["result"].(map[string]any)
	meta, _ := result["_meta"].(map[string]any)["palyra.dev/call"].(map[string]any)
	if done["status"] != "completed" || done["resultType"] != "complete" || meta["attestation_id"] == nil || meta["approval_id"] != a.ID {
		t.Errorf("ended %v", done)
	}
	w.run.Ran(t, 1)

	_, answer = w.raw("", "tools/call", callParams(""), withTasks)
	id, _ = resultIn(answer)["taskId"].(string)
	a = w.pending(1)[0]
	if got := resultIn(w.task("", "tasks/cancel", id)); got["resultType"] != "complete" {
		t.Errorf("cancelled: %v", got)
	}
	w.settled(a.ID, approval.Cancelled)
	if got := w.ends(id); got["status"] != "cancelled" {
		t.Errorf("a cancelled task: %v", got)
	}
	if got := errorIn(w.task("", "tasks/get", "01JNA3Q0G0DEV1CE0000000009")); !strings.Contains(got, "unknown task") {
		t.Errorf("of none: %q", got)
	}
	// A client that did not declare tasks gets none.
	if _, answer = w.raw("", "tools/call", callParams(""), urls); resultIn(answer)["resultType"] != "input_required" {
		t.Errorf("without tasks: %v", answer)
	}
}

// TestClientDisconnects: the call of a disconnected client with sessions keeps waiting, and
// does not run until a client resumes it.
func TestClientDisconnects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	began := make(chan struct{}, 1)
	w.run.Work = func(context.Context, tool.Call) tool.Report {
		began <- struct{}{}
		return gatewaytest.Succeeded(`{}`)
	}
	c := w.connect(clientConfig{revision: "2025-11-25"})
	ctx, leave := context.WithCancel(t.Context())
	r := must.Get(http.NewRequestWithContext(ctx, http.MethodPost, w.http.URL+"/mcp", strings.NewReader(
		`{"jsonrpc":"2.0","id":77,"method":"tools/call","params":{"name":"process_run","arguments":{"argv":["make"]}}}`)))(t)
	r.Header = http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		"Mcp-Session-Id": {c.ID()}, "Mcp-Protocol-Version": {"2025-11-25"},
	}
	gone := make(chan error, 1)
	go func() {
		res, err := http.DefaultClient.Do(r)
		if err == nil {
			_, err = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
		}
		gone <- err
	}()
	a := w.pending(1)[0]
	leave()
	<-gone
	// The client detects its disconnection before the gateway does.
	must.Eventually(t, "the call has no client", func() (bool, string) { return w.face.Calls.Detached() == 1, "" })
	if now, err := w.Desk.Records.Get(t.Context(), a.ID); err != nil || now.State != approval.Pending {
		t.Errorf("the approval is %s, %v", now.State, err)
	}
	w.vote(a, true)
	select {
	case <-began:
		t.Fatal("it ran with nobody there")
	case <-time.After(50 * time.Millisecond):
	}
	again := c.call("process_run", make1)
	if again.err != nil || again.IsError || again.call()["approval_id"] != a.ID {
		t.Errorf("again: %s %v", again.text(), again.err)
	}
	w.run.Ran(t, 1)
}
