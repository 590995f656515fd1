package mcp_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/tool"
	"palyra/internal/gateway/gatewaytest"
	"palyra/internal/surface/mcp"
)

const (
	answerEvent   = "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":\"\\\"method\\\":\"}}\n\n"
	progressEvent = "event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{}}\n\n"
)

// TestSingleResponseIsJSON: a single response is sent as JSON, and everything else as the library's
// event stream.
func TestSingleResponseIsJSON(t *testing.T) {
	t.Parallel()
	const stream = "text/event-stream"
	for name, c := range map[string]struct {
		before, after []string // written before and after the response
		kind, body    string
	}{
		"the answer alone":               {nil, []string{answerEvent}, "application/json", strings.TrimSuffix(strings.TrimPrefix(answerEvent, "event: message\ndata: "), "\n\n")},
		"something before it":            {[]string{progressEvent}, []string{answerEvent}, stream, progressEvent + answerEvent},
		"something that came too late":   {nil, []string{progressEvent, answerEvent}, stream, progressEvent + answerEvent},
		"no answer":                      {nil, []string{progressEvent}, stream, progressEvent},
		"an event that is written anew":  {nil, []string{"id: 1\n" + answerEvent}, stream, "id: 1\n" + answerEvent},
		"what is no message":             {nil, []string{"event: message\ndata: {\n\n"}, stream, "event: message\ndata: {\n\n"},
		"an answer that was not awaited": {[]string{answerEvent}, nil, stream, answerEvent},
	} {
		rec := httptest.NewRecorder()
		answered := false
		w, end := mcp.KeepAlive(rec, func() bool { return answered })
		w.Header().Set("Content-Type", stream)
		for _, one := range c.before {
			must.Get(io.WriteString(w, one))(t)
			must.Do(t, http.NewResponseController(w).Flush())
		}
		answered = true
		for _, one := range c.after {
			must.Get(io.WriteString(w, one))(t)
			must.Do(t, http.NewResponseController(w).Flush())
		}
		end()
		if got := rec.Body.String(); rec.Header().Get("Content-Type") != c.kind || got != c.body || rec.Code != http.StatusOK {
			t.Errorf("%s: %d %v %q", name, rec.Code, rec.Header(), got)
		}
	}
}

// TestCallIsAnsweredByJSON: over HTTP, a call gets a JSON response. A client that requests
// progress gets a stream.
func TestCallIsAnsweredByJSON(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.read.Work = func(_ context.Context, c tool.Call) tool.Report {
		c.Peer.Progress(tool.Progress{Done: 1, Message: "half"})
		return gatewaytest.Succeeded(`{"lines":3}`)
	}
	session := w.connect(clientConfig{revision: "2025-11-25"}).ID()
	for meta, want := range map[string][2]string{
		"": {"application/json", `{"jsonrpc":"2.0","id":7,"result":`}, `,"_meta":{"progressToken":"p"}`: {"text/event-stream", "event: message\ndata: {"},
	} {
		r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, w.http.URL+"/mcp", strings.NewReader(
			`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"fs_read","arguments":{"path":"a"}`+meta+`}}`)))(t)
		r.Header = http.Header{
			"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Session-Id": {session}, "Mcp-Protocol-Version": {"2025-11-25"},
		}
		answer := must.Get(http.DefaultClient.Do(r))(t)
		body := string(must.Get(io.ReadAll(answer.Body))(t))
		must.Do(t, answer.Body.Close())
		kind := answer.Header.Get("Content-Type")
		if answer.StatusCode != http.StatusOK || kind != want[0] || !strings.HasPrefix(body, want[1]) ||
			!strings.Contains(body, `{\"lines\":3}`) || strings.Contains(body, "half") != (meta != "") {
			t.Errorf("%q: %d %s %s", meta, answer.StatusCode, kind, body)
		}
	}
}
