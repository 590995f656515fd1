//go:build unix

package upstream_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/exec/upstream"
)

// TestLinesOfALog: log lines among the messages are skipped and reported, and the calls of the
// server continue. Control: a line with a message after its text, which ends the conversation
// (TestMaliciousAnswers).
func TestLinesOfALog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, line := range map[string]string{
		"text":     "Listening on port 8080",
		"pino":     `{"level":30,"time":1,"msg":"ready","hostname":"h"}`,
		"request":  `{"level":"info","id":"r1","method":"GET","path":"/","status":200}`,
		"quoting":  `{"level":"debug","msg":"sent","message":{"jsonrpc":"2.0","id":1,"result":{}}}`,
		"array":    `["a", 1]`,
		"scalar":   `42`,
		"not-utf8": "caf\xe9",
		"colours":  "\x1b[32mINFO\x1b[0m started",
	} {
		log := func(c *conversation) { _, _ = io.WriteString(c, line+"\n") }
		state := w.add(name, func(c *conversation) {
			log(c)
			raw(oneTool, func(c *conversation, id json.RawMessage) {
				log(c)
				c.reply(id, `{"content":[{"type":"text","text":"fine"}]}`)
				log(c)
			})(c)
		})
		for range 3 {
			if got := resultText(t, w.works(name+"/t", `{}`)); got != "fine" {
				t.Errorf("%s: %q", name, got)
			}
		}
		state = must.Get(w.Show(name))(t)
		left := strings.Join(state.Seen.LeftOut, "|")
		if state.Problem != "" || !strings.Contains(left, "not a JSON-RPC message") || !strings.Contains(left, "standard error") || strings.Contains(left, "\x1b") {
			t.Errorf("%s: problem %q, left out %q", name, state.Problem, left)
		}
		if name == "text" && !strings.Contains(left, `"Listening on port 8080"`) {
			t.Errorf("the line is not named: %q", left)
		}
	}
}

// TestProgramsThatOnlyLog: the error for a program that is not an MCP server quotes its output
// and contains a remedy. This holds whether the program does not answer or ends.
func TestProgramsThatOnlyLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *upstream.Config) { c.ConnectTime = 200 * time.Millisecond })
	for name, program := range map[string]func(*conversation){
		"waits": func(c *conversation) { fmt.Fprintln(c, "Serving HTTP on 0.0.0.0"); <-c.ctx.Done() },
		"ends":  func(c *conversation) { fmt.Fprintln(c, "Serving HTTP on 0.0.0.0"); c.code = 2 },
	} {
		if s := w.add(name, program); !strings.Contains(s.Problem, `the line "Serving HTTP on 0.0.0.0" to its standard output`) || !strings.Contains(s.Remedy, "standard error") {
			t.Errorf("%s: %q, %q", name, s.Problem, s.Remedy)
		}
	}
}

// TestMissingPrograms: the error for a missing program announces no retry, and its remedy is to
// install the program. Control: a program that fails by itself.
func TestMissingPrograms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	serving := map[string]bool{}
	program := func(name string, code int) func(*conversation) {
		return func(c *conversation) {
			if serving[name] {
				serve()(c)
				return
			}
			c.code = code
		}
	}
	for name, code := range map[string]int{"gone": 127, "noexec": 126, "crash": 1} {
		serving[name] = true
		w.add(name, program(name, code))
		serving[name] = false
	}
	serving["vanished"] = true
	w.add("vanished", program("vanished", 0))
	w.restart()
	w.runner.set("vanished", nil) // the sandbox does not find the program
	for range 2 {
		for name, want := range map[string]string{"gone": "install it", "noexec": "install it", "vanished": "Check that the program exists", "crash": "The next call"} {
			code := reason.UpstreamUnavailable
			if name == "vanished" {
				code = reason.SpawnFailed
			}
			r := w.fails(name+"/hello", `{}`, code)
			var result struct{ Error struct{ Remedy string } }
			must.Do(t, json.Unmarshal(r.Result, &result))
			if !strings.Contains(result.Error.Remedy, want) || strings.Contains(result.Error.Remedy, "again by itself") || name == "vanished" && strings.Contains(r.Message, "the next attempt") {
				t.Errorf("%s: %q, remedy %q", name, r.Message, result.Error.Remedy)
			}
		}
	}
	if s := w.add("never", nil); !strings.Contains(s.Remedy, "palyra mcp refresh never") || strings.Contains(s.Remedy, "next call") {
		t.Errorf("a server without tools: %q, remedy %q", s.Problem, s.Remedy)
	}
}

// TestOldTransport: the error for a server that supports only the transport of 2024 names that
// cause. Control: a server that refuses in the same way and streams other data.
func TestOldTransport(t *testing.T) {
	t.Parallel()
	stream := func(rw http.ResponseWriter, text string) {
		rw.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(rw, text)
		rw.(http.Flusher).Flush()
	}
	const endpoint = "event: endpoint\ndata: /messages?session=1\n\n"
	for name, row := range map[string]struct {
		post, get func(http.ResponseWriter, *http.Request)
		old       bool
	}{
		"405": {func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusMethodNotAllowed) }, func(rw http.ResponseWriter, r *http.Request) { stream(rw, endpoint); <-r.Context().Done() }, true},
		"404": {http.NotFound, func(rw http.ResponseWriter, r *http.Request) {
			stream(rw, ": hello\r\n")
			stream(rw, "event:endpoint\r\ndata: /m\r\n\r\n")
			<-r.Context().Done()
		}, true},
		"any-verb": {func(rw http.ResponseWriter, r *http.Request) { stream(rw, endpoint); <-r.Context().Done() }, http.NotFound, true},
		"gone":     {http.NotFound, http.NotFound, false},
		"news":     {http.NotFound, func(rw http.ResponseWriter, _ *http.Request) { stream(rw, "event: message\ndata: endpoint\n\n") }, false},
	} {
		s := newSite(t)
		w := newWorld(t, s.trusted, func(c *upstream.Config) { c.ConnectTime = must.Patience })
		s.before = func(rw http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodGet {
				row.get(rw, r)
			} else {
				row.post(rw, r)
			}
			return true
		}
		state := w.addURL("old", s.URL+"/sse")
		if named := strings.Contains(state.Problem, "HTTP+SSE") && strings.Contains(state.Problem, "2024-11-05") && strings.Contains(state.Remedy, "/mcp"); named != row.old || state.Problem == "" {
			t.Errorf("%s: %q, remedy %q", name, state.Problem, state.Remedy)
		}
	}
}
