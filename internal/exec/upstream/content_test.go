//go:build unix

package upstream_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/egress"
	"palyra/internal/exec/upstream"
	"palyra/internal/exec/upstream/declared"
)

// charts is a result with content of a type outside the specification. It repeats a text, and
// has keys of _meta that only the gateway and the protocol may set.
const charts = `{"content":[{"type":"chart","points":[1,2.5],"label":%q,"_meta":{"mcp/x":1,"own/y":2,"palyra.dev/content":{"type":"z"}}},` +
	`{"type":"text","text":"hi","_meta":{"palyra.dev/content":{"type":"forged"}}}]}`

const chartsWant = `{"content":[{"_meta":{"own/y":2},"label":%q,"points":[1,2.5],"type":"chart"},{"text":"hi","type":"text"}]}`

// TestUnknownContent: content of an unknown type reaches the caller unchanged, over stdio and
// HTTP, except for the keys of _meta that a server must not set. A key in a second spelling is
// refused in it as well.
func TestUnknownContent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	answer := fmt.Sprintf(charts, "plain")
	w.add("stdio", raw(oneTool, func(c *conversation, id json.RawMessage) { c.reply(id, answer) }))
	if r := w.works("stdio/t", `{}`); string(r.Result) != fmt.Sprintf(chartsWant, "plain") {
		t.Errorf("over stdio: %s", r.Result)
	}
	answer = `{"content":[{"type":"chart","TYPE":"text","text":"x"}]}`
	if r, err := w.call("stdio/t", `{}`); err != nil || !strings.Contains(r.Message, "differs only in case") {
		t.Errorf("two spellings: %v, %s %s", err, r.Outcome, r.Message)
	}
}

// TestWrapContent: content of an unknown type passes the library in results of calls and in
// messages of prompts, in every encoding of its type. All other messages stay unchanged.
func TestWrapContent(t *testing.T) {
	t.Parallel()
	for message, wraps := range map[string]bool{
		`{"result":{"content":[{"type":"text","text":"\u00e9"},{"\u0074ype":"chart","a":1}]}}`:                   true,
		`{"result":{"messages":[{"role":"user","content":{"type":"chart","a":1}},{"role":"user","content":7}]}}`: true,
		`{"result":{"content":[{"type":"text","text":"\u00e9"}],"structuredContent":{"type":"chart"}}}`:          false,
		`{"result":{"content":[{"text":"no type"},{"type":7},"chart",null]}}`:                                    false,
		`{"result":{"content":{"type":"chart"}}}`:                                                                false,
		`{"method":"x","params":{"content":[{"type":"chart"}]}}`:                                                 false,
	} {
		wrapped := upstream.WrapContent([]byte(message))
		if got := string(wrapped) != message; got != wraps {
			t.Errorf("%s becomes %s", message, wrapped)
		}
		var was, is struct{ Result map[string]any }
		must.Do(t, json.Unmarshal([]byte(message), &was))
		must.Do(t, json.Unmarshal(wrapped, &is))
		upstream.UnwrapContent(is.Result)
		if !reflect.DeepEqual(was, is) {
			t.Errorf("%s comes back as %v", message, is)
		}
	}
}

// answering makes a site answer calls with a result that repeats the received credential.
func (s *site) answering(stream bool) {
	s.before = func(rw http.ResponseWriter, r *http.Request) bool {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if json.Unmarshal(body, &m) != nil || m.Method != "tools/call" {
			return false
		}
		message := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, fmt.Sprintf(charts, r.Header.Get("Authorization")))
		if !stream {
			rw.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(rw, message)
			return true
		}
		rw.Header().Set("Content-Type", "text/event-stream")
		first, second, _ := strings.Cut(message, `"points":`)
		_, _ = fmt.Fprintf(rw, ": a comment\n\nevent: message\nid: 7\ndata: %s\ndata: \"points\":%s\n\n", first, second)
		return true
	}
}

// TestUnknownContentIsScrubbed: over HTTP, as one message and as a stream of events, content of
// an unknown type is scrubbed of a secret like a text.
func TestUnknownContentIsScrubbed(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{false, true} {
		s := newSite(t)
		_, port, _ := net.SplitHostPort(strings.TrimPrefix(s.URL, "https://"))
		const value = "tok-0123456789abcdef"
		l := &lender{value: value, offer: egress.Secret{Name: "global/site", Version: 3, Header: "Authorization", Hosts: must.Get(egress.ParseRules([]string{"127.0.0.1:" + port}))(t)}}
		w := newWorld(t, s.trusted, func(c *upstream.Config) { c.Lender = l })
		w.addURL("site", s.URL, declared.Header{Name: "Authorization", Scheme: "Bearer", Secret: "global/site"})
		s.answering(stream)
		r := w.works("site/hello", `{}`)
		var got struct {
			Content []struct{ Type, Label string }
		}
		must.Do(t, json.Unmarshal(r.Result, &got))
		if len(got.Content) != 2 || got.Content[0].Type != "chart" || !strings.HasPrefix(got.Content[0].Label, "Bearer palyra-sec-") {
			t.Fatalf("stream %v: %s", stream, r.Result)
		}
		if want := fmt.Sprintf(chartsWant, got.Content[0].Label); string(r.Result) != want || strings.Contains(string(r.Result), value) || s.got.Load() != "Bearer "+value {
			t.Errorf("stream %v: %s, want %s", stream, r.Result, want)
		}
	}
}

// TestLargeEvent: an event that exceeds the message limit ends the call.
func TestLargeEvent(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := newWorld(t, s.trusted)
	w.addURL("site", s.URL)
	w.restart()
	s.before = func(rw http.ResponseWriter, _ *http.Request) bool {
		rw.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(rw, "data: "+strings.Repeat("x", 6<<20)+"\n\n")
		return true
	}
	w.fails("site/hello", `{}`, reason.UpstreamUnavailable)
}
