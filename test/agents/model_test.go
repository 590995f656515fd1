//go:build unix

package agents

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// call is a tool call that the model requests.
type call struct {
	// tool is its name; "NAMESPACE/NAME" where the agent offers it in a namespace.
	tool  string
	input map[string]any
}

// model plays the model of both agents: it speaks Anthropic's Messages and OpenAI's
// Responses, as far as the agents read them. It asks for the calls of its plan, one after
// the other, and then ends the turn.
type model struct {
	url string

	mu   sync.Mutex
	plan []call
	// said holds the tool results that the agent returned last.
	said []string
	// tools holds the names of the tools that the agents offered.
	tools map[string]bool
}

func newModel(t *testing.T) *model {
	m := &model{tools: map[string]bool{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/messages", m.messages)
	mux.HandleFunc("POST /v1/responses", m.responses)
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	m.url = s.URL
	return m
}

// wants sets the plan of the next run.
func (m *model) wants(plan ...call) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.plan, m.said = plan, nil
}

// results returns the tool results that the model received in the last run.
func (m *model) results() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Join(m.said, "\n")
}

// offered returns the names of the tools in all requests so far.
func (m *model) offered() map[string]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	names := make(map[string]bool, len(m.tools))
	for name := range m.tools {
		names[name] = true
	}
	return names
}

// next returns the first planned call that is not yet in the conversation.
func (m *model) next(made int, said, tools []string) (call, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range tools {
		m.tools[name] = true
	}
	if len(tools) == 0 {
		return call{}, false
	}
	m.said = said
	if made >= len(m.plan) {
		return call{}, false
	}
	return m.plan[made], true
}

// definition is a tool definition in a request of either protocol.
type definition struct {
	Type, Name string
	Tools      []definition
}

func names(tools []definition) (all []string) {
	for _, d := range tools {
		switch {
		case len(d.Tools) > 0:
			all = append(all, names(d.Tools)...)
		case d.Name != "":
			all = append(all, d.Name)
		default:
			all = append(all, d.Type)
		}
	}
	return all
}

// messages is Anthropic's API.
func (m *model) messages(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Tools    []definition
		Messages []struct{ Content json.RawMessage }
	}
	if !read(w, r, &req) {
		return
	}
	made, said, tools := 0, []string(nil), names(req.Tools)
	for _, message := range req.Messages {
		var blocks []struct {
			Type, Text string
			Content    json.RawMessage
		}
		if json.Unmarshal(message.Content, &blocks) != nil {
			continue
		}
		for _, b := range blocks {
			switch b.Type {
			case "text":
				tools = append(tools, deferred(b.Text)...)
			case "tool_use":
				made++
			case "tool_result":
				said = append(said, string(b.Content))
			}
		}
	}
	c, more := m.next(made, said, tools)
	s := newStream(w)
	s.send("message_start", map[string]any{"message": map[string]any{
		"id": fmt.Sprintf("msg_%d", made), "type": "message", "role": "assistant", "model": "played", "content": []any{}, "usage": map[string]any{"input_tokens": 1, "output_tokens": 1},
	}})
	block, delta, stop := map[string]any{"type": "text", "text": ""}, map[string]any{"type": "text_delta", "text": "finished"}, "end_turn"
	if more {
		block = map[string]any{"type": "tool_use", "id": fmt.Sprintf("toolu_%d", made), "name": c.tool, "input": map[string]any{}}
		delta, stop = map[string]any{"type": "input_json_delta", "partial_json": text(c.input)}, "tool_use"
	}
	s.send("content_block_start", map[string]any{"index": 0, "content_block": block})
	s.send("content_block_delta", map[string]any{"index": 0, "delta": delta})
	s.send("content_block_stop", map[string]any{"index": 0})
	s.send("message_delta", map[string]any{"delta": map[string]any{"stop_reason": stop}, "usage": map[string]any{"output_tokens": 1}})
	s.send("message_stop", map[string]any{})
}

// responses is OpenAI's API.
func (m *model) responses(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Tools []definition
		Input []struct {
			Type   string
			Output json.RawMessage
		}
	}
	if !read(w, r, &req) {
		return
	}
	made, said := 0, []string(nil)
	for _, item := range req.Input {
		switch item.Type {
		case "function_call":
			made++
		case "function_call_output":
			said = append(said, string(item.Output))
		}
	}
	c, more := m.next(made, said, names(req.Tools))
	item := map[string]any{"type": "message", "role": "assistant", "id": "msg_1", "content": []any{map[string]any{"type": "output_text", "text": "finished"}}}
	if more {
		item = map[string]any{"type": "function_call", "id": fmt.Sprintf("fc_%d", made), "call_id": fmt.Sprintf("call_%d", made), "name": c.tool, "arguments": text(c.input)}
		if namespace, name, ok := strings.Cut(c.tool, "/"); ok {
			item["namespace"], item["name"] = namespace, name
		}
	}
	s := newStream(w)
	s.send("response.created", map[string]any{"response": map[string]any{"id": "resp_1"}})
	s.send("response.output_item.done", map[string]any{"output_index": 0, "item": item})
	s.send("response.completed", map[string]any{"response": map[string]any{
		"id": "resp_1", "usage": map[string]any{"input_tokens": 1, "output_tokens": 1, "total_tokens": 2},
	}})
}

// deferring matches the message in which Claude Code lists the tools that it offers on demand,
// one a line.
var deferring = regexp.MustCompile(`deferred tools are now available via ToolSearch[^\n]*:\n((?:\w+\n)+)`)

// deferred returns the names of such tools in a message.
func deferred(text string) []string {
	m := deferring.FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	return strings.Fields(m[1])
}

func read(w http.ResponseWriter, r *http.Request, into any) bool {
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, into)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
	return err == nil
}

func text(v any) string {
	out, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(out)
}

// stream is a reply of server-sent events.
type stream struct{ w http.ResponseWriter }

func newStream(w http.ResponseWriter) stream {
	w.Header().Set("Content-Type", "text/event-stream")
	return stream{w}
}

func (s stream) send(kind string, event map[string]any) {
	event["type"] = kind
	_, _ = fmt.Fprintf(s.w, "event: %s\ndata: %s\n\n", kind, text(event))
	if f, ok := s.w.(http.Flusher); ok {
		f.Flush()
	}
}
