package upstream_test

import (
	"encoding/json"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/core/canonical"
	"palyra/internal/core/must"
	"palyra/internal/exec/upstream"
)

// results are answers of servers, as the library reads them.
var results = []string{
	`{"content":[]}`,
	`{"content":[{"type":"text","text":"hello"}]}`,
	`{"content":[{"type":"text","text":"<a href=\"x\">&amp;</a>\u2028\u0000\u001f\ud83d\ude00 é"}],"isError":true}`,
	`{"content":[{"type":"resource_link","uri":"file:///a","name":"a","size":9007199254740993}]}`,
	`{"content":[{"type":"image","data":"aGVsbG8=","mimeType":"image/png"},{"type":"resource","resource":{"uri":"a","text":"b","_meta":{"mcp/x":1,"own/y":2}}}]}`,
	`{"content":[],"structuredContent":{"b":[1,1.50,-0,1e21,1e-7,12345678901234567890,0.1],"a":{"\u0000":null,"_meta":{"mcp/x":1}},"\u00e9":true,"":{}}}`,
	`{"content":[{"type":"text","text":"_meta"}],"_meta":{"progressToken":"x","own/z":[1]}}`,
	`{"content":[{"type":"text","text":"a"}],"_meta":{"modelcontextprotocol.io/x":1}}`,
	`{"content":[],"structuredContent":[1,"two",null],"resultType":"complete"}`,
}

// TestResultIsExact: a result without reserved keys has the same form as after stripping.
func TestResultIsExact(t *testing.T) {
	t.Parallel()
	for _, text := range results {
		var r mcp.CallToolResult
		must.Do(t, json.Unmarshal([]byte(text), &r))
		got := must.Get(upstream.ResultOf(&r))(t)
		var apart map[string]any
		must.Do(t, json.Unmarshal(must.Get(json.Marshal(&r))(t), &apart))
		upstream.Strip(apart)
		if want := must.Get(canonical.Marshal(apart))(t); string(got) != string(want) {
			t.Errorf("%s:\n%s\nwant\n%s", text, got, want)
		}
	}
}

// TestMayNotify: every notification is recognized, in every encoding of its members.
func TestMayNotify(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]bool{
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`:       true,
		`{"jsonrpc":"2.0","\u006dethod":"notifications/progress","params":{}}`:  true,
		`{"jsonrpc":"2.0","id":1,"result":{"content":[{"text":"the method"}]}}`: false,
		`{"jsonrpc":"2.0","id":1,"result":{"method":"may be anything"}}`:        true,
	} {
		if got := upstream.MayNotify([]byte(message)); got != want {
			t.Errorf("%s: %v", message, got)
		}
	}
}
