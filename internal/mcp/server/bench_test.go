package server_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"palyra/internal/gatewaytest"
	"palyra/internal/must"
	"palyra/internal/tool"
)

// BenchmarkList is a list of 200 tools of upstream servers, as a client asks for it.
func BenchmarkList(b *testing.B) {
	w := newWorld(b, func(w *world) {
		for i := range 200 {
			w.more = append(w.more, gatewaytest.NewProbe(tool.Descriptor{
				Name: fmt.Sprintf("server%d/tool_%d", i%5, i), Title: "A tool", Description: "It does something with many words, as they do.",
				Executor: tool.MCPUpstream, Capabilities: []tool.Capability{tool.Network},
				InputSchema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"string","description":"one"},"b":{"type":"integer","description":"two"}},"required":["a"]}`),
			}))
		}
	})
	c := w.connect(clientConfig{revision: "2025-11-25"})
	for b.Loop() {
		if r := must.Get(c.ListTools(b.Context(), nil))(b); len(r.Tools) != 203 {
			b.Fatalf("%d tools", len(r.Tools))
		}
	}
}
