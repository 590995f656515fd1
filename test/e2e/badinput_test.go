//go:build linux

package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/must"
	"palyra/internal/identity"
)

// http returns a client with the local operator's credential, and the API's
// base URL.
func (g *gateway) http() (*http.Client, string) {
	g.T.Helper()
	b := must.Get(identity.ReadBundle(g.bundle()))(g.T)
	transport := &http.Transport{TLSClientConfig: b.ClientTLS(), ForceAttemptHTTP2: true}
	g.T.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}, "https://" + g.address()
}

// callTool sends one request unchanged, without the checks of palyra, and returns the reason
// for which the API refuses it.
func (g *gateway) callTool(req *palyrav1.CallToolRequest) (reason, message string) {
	g.T.Helper()
	client, base := g.http()
	stream, err := palyrav1connect.NewGatewayServiceClient(client, base).CallTool(g.T.Context(), req)
	if err != nil {
		return reasonOf(g.T, err)
	}
	defer func() { _ = stream.Close() }()
	for stream.Receive() {
		if d := stream.Msg().GetDecision(); d != nil {
			if d.GetAllowed() {
				return "", "it was allowed"
			}
			return d.GetReason(), d.GetMessage()
		}
	}
	return reasonOf(g.T, stream.Err())
}

func reasonOf(t *testing.T, err error) (string, string) {
	t.Helper()
	var remote *connect.Error
	if !errors.As(err, &remote) {
		t.Fatalf("not an error of the API: %v", err)
	}
	for _, d := range remote.Details() {
		if v, err := d.Value(); err == nil {
			if info, ok := v.(*errdetails.ErrorInfo); ok {
				if info.GetMetadata()["remedy"] == "" {
					t.Errorf("%s comes without a remedy", info.GetReason())
				}
				return info.GetReason(), remote.Message()
			}
		}
	}
	return "(none) " + remote.Code().String(), remote.Message()
}

// TestBadInput sends invalid input. Each request is refused with its reason, and each refused
// proposal is in the journal.
func TestBadInput(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "[process_runner]", "allow_interpreters = true")
	c := g.local()
	deep := func(n int) string { return `{"data":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}` }
	for _, one := range []struct {
		name, tool, input, reason, says string
	}{
		{"unknown property", "fs.read", `{"path":"a.txt","nope":1}`, "INVALID_INPUT", `"nope"`},
		{"near miss", "fs.read", `{"pth":"a.txt"}`, "INVALID_INPUT", `"pth"`},
		{"wrong type", "fs.read", `{"path":7}`, "INVALID_INPUT", "/path"},
		{"missing property", "fs.read", `{}`, "INVALID_INPUT", "path"},
		{"out of range", "fs.list", `{"depth":0}`, "INVALID_INPUT", "/depth"},
		{"no object", "echo", `[]`, "INVALID_INPUT", ""},
		{"no JSON", "echo", `{"text":`, "INVALID_INPUT", ""},
		{"two documents", "echo", `{} {}`, "INVALID_INPUT", ""},
		{"duplicate key", "echo", `{"text":"a","text":"b"}`, "DUPLICATE_KEY", "text"},
		{"duplicate key, escaped", "echo", `{"text":"a","t\u0065xt":"b"}`, "DUPLICATE_KEY", "text"},
		{"duplicate key, deep", "echo", `{"data":[{"a":1,"a":2}]}`, "DUPLICATE_KEY", ""},
		{"integer beyond a double", "echo", `{"data":9007199254740993}`, "NUMBER_NOT_EXACT", ""},
		{"fraction beyond a double", "echo", `{"data":0.10000000000000000001}`, "NUMBER_NOT_EXACT", ""},
		{"infinite", "echo", `{"data":1e999}`, "NUMBER_NOT_EXACT", ""},
		{"deep", "echo", deep(70), "INPUT_TOO_DEEP", ""},
		{"very deep", "echo", deep(100_000), "INPUT_TOO_DEEP", ""},
		{"invalid UTF-8", "echo", "{\"text\":\"\xff\xfe\"}", "INVALID_UTF8", ""},
		{"overlong UTF-8", "echo", "{\"text\":\"\xc0\xaf\"}", "INVALID_UTF8", ""},
		{"half a surrogate pair", "echo", `{"text":"\ud800"}`, "INVALID_UTF8", ""},
		{"NUL", "fs.read", `{"path":"a.txt\u0000.png"}`, "INVALID_UTF8", ""},
		{"raw NUL", "echo", "{\"text\":\"\x00\"}", "INVALID_INPUT", ""},
		{"more than 1 MiB", "echo", `{"text":"` + strings.Repeat("a", 1<<20) + `"}`, "INPUT_TOO_LARGE", ""},
		{"unknown tool", "fs.raed", `{}`, "UNKNOWN_TOOL", "fs.raed"},
		{"undeclared workspace", "fs.read", `{"path":"a.txt","workspace":"elsewhere"}`, "UNKNOWN_WORKSPACE", "elsewhere"},
		{"outside the workspace", "fs.read", `{"path":"../palyra.toml"}`, "WORKSPACE_SCOPE", ""},
		{"absolute path", "fs.read", `{"path":"/etc/hostname"}`, "WORKSPACE_SCOPE", ""},
		{"protected path", "fs.write", `{"path":".git/config","content":""}`, "PROTECTED_PATH", ""},
		{"odd host", "http.fetch", `{"url":"http://0x7f000001/"}`, "HOST_INVALID", ""},
		{"metadata address", "http.fetch", `{"url":"http://169.254.169.254/"}`, "EGRESS_DENIED", ""},
		{"inline code", "process.run", `{"argv":["python3","-c","1"]}`, "INTERPRETER_INLINE_CODE", ""},
		{"shell", "process.run", `{"argv":["sh","-c","id"]}`, "EXECUTABLE_DENIED", ""},
	} {
		g.sub(one.name, func(t *testing.T) {
			before := len(c.events("PAL-D101"))
			got, message := g.callTool(&palyrav1.CallToolRequest{Tool: one.tool, InputJson: []byte(one.input)})
			if got != one.reason || !strings.Contains(message, one.says) {
				t.Errorf("%s: %q, want %s and %q", got, message, one.reason, one.says)
			}
			refused := c.events("PAL-D101")
			if len(refused) != before+1 {
				t.Fatalf("%d refusals were journaled, want 1", len(refused)-before)
			}
			if last := string(refused[len(refused)-1].Payload); !strings.Contains(last, `"`+one.reason+`"`) {
				t.Errorf("the journal says %s", last)
			}
		})
	}
	// Controls: input just within the limits runs.
	for name, input := range map[string]string{
		"deep":   deep(60),
		"number": `{"data":[9007199254740992,0.1,1e300]}`,
		"large":  `{"text":"` + strings.Repeat("a", 1<<20-20) + `"}`,
	} {
		if reason, message := g.callTool(&palyrav1.CallToolRequest{Tool: "echo", InputJson: []byte(input)}); message != "it was allowed" {
			t.Errorf("%s: %s: %s", name, reason, message)
		}
	}
	c.ok("journal", "verify")
}

// TestBadMessages sends messages that are not valid requests of the API, as JSON over HTTP.
func TestBadMessages(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	input := func(n int) string {
		return base64.StdEncoding.EncodeToString([]byte(`{"text":"` + strings.Repeat("a", n) + `"}`))
	}
	for _, one := range []struct{ name, body, reason string }{
		{"as it should be", `{"tool":"echo","inputJson":"` + input(1) + `"}`, ""},
		{"oversized message", `{"tool":"echo","inputJson":"` + input(4<<20) + `"}`, "INPUT_TOO_LARGE"},
		{"unknown field", `{"tool":"echo","principal":"user:root"}`, "INVALID_INPUT"},
		{"wrong type", `{"tool":["echo"]}`, "INVALID_INPUT"},
		{"no JSON", `{"tool":`, "INVALID_INPUT"},
		{"duplicate field", `{"tool":"echo","tool":"sleep"}`, "INVALID_INPUT"},
		{"invalid UTF-8", "{\"tool\":\"\xff\"}", "INVALID_INPUT"},
		{"field rule", `{"tool":"echo","session":"no/slashes"}`, "INVALID_INPUT"},
		{"no tool", `{}`, "INVALID_INPUT"},
	} {
		g.sub(one.name, func(t *testing.T) {
			if got, said := g.post(one.body); got != one.reason {
				t.Errorf("%q, want reason %q: %s", got, one.reason, said)
			}
		})
	}
	g.local().ok("call", "echo", "text=still here")
}

// post sends the JSON form of a CallToolRequest as one message of a stream. It returns the
// reason at the end of the answer, and the whole answer.
func (g *gateway) post(message string) (reason, said string) {
	g.T.Helper()
	client, base := g.http()
	body := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
	req := must.Get(http.NewRequestWithContext(g.T.Context(), http.MethodPost, base+palyrav1connect.GatewayServiceCallToolProcedure, bytes.NewReader(body)))(g.T)
	req.Header.Set("Content-Type", "application/connect+json")
	res := must.Get(client.Do(req))(g.T)
	defer func() { _ = res.Body.Close() }()
	answer := must.Get(io.ReadAll(res.Body))(g.T)
	return endReason(g.T, answer), string(answer)
}

// endReason reads the messages of an answer up to the last one, which contains the error of the
// stream; "" means success.
func endReason(t *testing.T, answer []byte) string {
	t.Helper()
	const head, last = 5, 2
	for len(answer) >= head {
		flags, size := answer[0], int(binary.BigEndian.Uint32(answer[1:head]))
		message := answer[head : head+size]
		answer = answer[head+size:]
		if flags&last == 0 {
			continue
		}
		end := decode[struct {
			Error *struct {
				Code    string
				Details []struct{ Debug struct{ Reason string } }
			}
		}](t, string(message))
		switch {
		case end.Error == nil:
			return ""
		case len(end.Error.Details) == 0:
			return "(none) " + end.Error.Code
		}
		return end.Error.Details[0].Debug.Reason
	}
	t.Fatal("the answer has no end")
	return ""
}
