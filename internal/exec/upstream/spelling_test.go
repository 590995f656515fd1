//go:build unix

package upstream_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/core/must"
	"palyra/internal/core/tool"
	"palyra/internal/gateway/gatewaytest"
)

// TestAnswersAreReadExactly: an answer of a client to a server's question counts only under the
// exact names. Controls: the first answer, and encoding/json, which reads accept from the
// others.
func TestAnswersAreReadExactly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add("asker", asker(form))
	for answer, want := range map[string]string{
		`{"action":"accept","content":{"name":"ann","NAME":"bob"}}`:            "acceptmap[NAME:bob name:ann]",
		`{"action":"decline","ACTION":"accept","content":{"name":"ann"}}`:      "cancelmap[]",
		`{"action":"decline","\u0041ction":"accept","content":{"name":"ann"}}`: "cancelmap[]",
		`{"action":"decline","action":"accept","content":{"name":"ann"}}`:      "cancelmap[]",
		`{"Action":"accept","content":{"name":"ann"}}`:                         "cancelmap[]",
	} {
		var p person
		peer := p.peer()
		peer.Ask = func(_ context.Context, requests map[string]tool.Request) (map[string]json.RawMessage, error) {
			answers := map[string]json.RawMessage{}
			for name := range requests {
				answers[name] = json.RawMessage(answer)
			}
			return answers, nil
		}
		r, err := w.callAs(gatewaytest.Agent, "asker/ask", `{}`, peer)
		switch got := resultText(t, r); {
		case err != nil:
			t.Errorf("%s: %v", answer, err)
		case got != want && !(strings.HasPrefix(want, "cancel") && strings.HasPrefix(got, "decline")):
			t.Errorf("%s reaches the server as %q, want %q", answer, got, want)
		}
		var loose mcp.ElicitResult
		if err := json.Unmarshal([]byte(answer), &loose); err != nil || loose.Action != "accept" {
			t.Errorf("the control: encoding/json reads %q from %s, %v", loose.Action, answer, err)
		}
	}
}

// TestRemoteAnswersAreReadExactly: an answer over HTTP that contains a second spelling of a key
// fails the call, as a message or in a stream. For a stream, the library reports only that it
// ended. Control: the same answer without the second spelling.
func TestRemoteAnswersAreReadExactly(t *testing.T) {
	t.Parallel()
	for name, streamed := range map[string]bool{"a message": false, "a stream": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			w := newWorld(t, s.trusted)
			w.addURL("site", s.URL)
			second := ""
			s.before = func(rw http.ResponseWriter, r *http.Request) bool {
				body := must.Get(io.ReadAll(r.Body))(t)
				r.Body = io.NopCloser(bytes.NewReader(body))
				var call struct {
					ID     json.RawMessage `json:"id"`
					Method string          `json:"method"`
				}
				if json.Unmarshal(body, &call) != nil || call.Method != "tools/call" {
					return false
				}
				message := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"fine"}],"isError":false%s}}`, call.ID, second)
				if streamed {
					rw.Header().Set("Content-Type", "text/event-stream")
					message = "event: message\ndata: " + message + "\n\n"
				} else {
					rw.Header().Set("Content-Type", "application/json")
				}
				must.Get(io.WriteString(rw, message))(t)
				return true
			}
			if got := resultText(t, w.works("site/hello", `{}`)); got != "fine" {
				t.Errorf("the control: %q", got)
			}
			second = `,"ISERROR":true`
			if r, err := w.call("site/hello", `{}`); err != nil || r.Outcome != tool.Failed || !streamed && !strings.Contains(r.Message, "differs only in case") {
				t.Errorf("%v, %s: %s", err, r.Outcome, r.Message)
			}
		})
	}
}
