package mcp_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/tool"
	"palyra/internal/gateway/gatewaytest"
)

// manyTools are 200 tools of upstream servers.
func manyTools(w *world) {
	for i := range 200 {
		w.more = append(w.more, gatewaytest.NewProbe(tool.Descriptor{
			Name: fmt.Sprintf("server%d/tool_%d", i%5, i), Title: "A tool", Description: "It does something with many words, as they do.",
			Executor: tool.MCPUpstream, Capabilities: []tool.Capability{tool.Network},
			InputSchema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"string","description":"one"},"b":{"type":"integer","description":"two"}},"required":["a"]}`),
		}))
	}
}

// BenchmarkList lists 200 tools of upstream servers with the official client. The client parses
// each schema again, which takes longer than the gateway's part.
func BenchmarkList(b *testing.B) {
	w := newWorld(b, manyTools)
	c := w.connect(clientConfig{revision: "2025-11-25"})
	for b.Loop() {
		if r := must.Get(c.ListTools(b.Context(), nil))(b); len(r.Tools) != 203 {
			b.Fatalf("%d tools", len(r.Tools))
		}
	}
}

// BenchmarkListServed is the gateway's part of BenchmarkList: the client only reads the bytes.
func BenchmarkListServed(b *testing.B) {
	w := newWorld(b, manyTools)
	session := w.connect(clientConfig{revision: "2025-11-25"}).ID()
	for b.Loop() {
		if text := w.listed(b, session); bytes.Count(text, []byte(`"inputSchema"`)) != 203 {
			b.Fatalf("%.300s", text)
		}
	}
}

// listed requests the list of tools and returns the bytes of the response.
func (w *world) listed(t testing.TB, session string) []byte {
	t.Helper()
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, w.http.URL+"/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{}}`)))(t)
	for name, value := range map[string]string{
		"Accept": "application/json, text/event-stream", "Content-Type": "application/json", "Mcp-Session-Id": session, "Mcp-Protocol-Version": "2025-11-25",
	} {
		r.Header.Set(name, value)
	}
	answer := must.Get(http.DefaultClient.Do(r))(t)
	defer answer.Body.Close()
	return must.Get(io.ReadAll(answer.Body))(t)
}
