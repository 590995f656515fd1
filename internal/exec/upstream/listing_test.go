//go:build unix

package upstream_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/core/must"
	"palyra/internal/exec/upstream/declared"
)

// paged is a server that answers tools/list page by page with fixed texts: a result, or an error
// after "error:".
func paged(page func(cursor string) string) func(*conversation) {
	return func(c *conversation) {
		lines := bufio.NewScanner(c.in)
		for lines.Scan() {
			var m struct {
				ID     json.RawMessage
				Method string
				Params struct{ Cursor, Name string }
			}
			if json.Unmarshal(lines.Bytes(), &m) != nil || m.ID == nil {
				continue
			}
			switch m.Method {
			case "initialize":
				c.reply(m.ID, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"paged","version":"1"}}`)
			case "tools/list":
				answer := page(m.Params.Cursor)
				if message, is := strings.CutPrefix(answer, "error:"); is {
					fmt.Fprintf(c, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":%q}}`+"\n", m.ID, message)
					continue
				}
				c.reply(m.ID, answer)
			case "tools/call":
				c.reply(m.ID, `{"content":[{"type":"text","text":"`+m.Params.Name+`"}]}`)
			default:
				fmt.Fprintf(c, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`+"\n", m.ID)
			}
		}
	}
}

func listed(name string) string { return `{"name":"` + name + `","inputSchema":{"type":"object"}}` }

func namesOf(s declared.Sight) string {
	var names []string
	for _, d := range s.Definitions {
		names = append(names, d.Name)
	}
	return strings.Join(names, " ")
}

// TestFaultyPage: an unreadable page of a list does not affect the pages before it. The missing
// part is reported, requested again at the next call, and cannot be called until then. Control:
// a list whose first page is faulty.
func TestFaultyPage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ second, says string }{
		"an error":              {"error:the database is down", "page 2 of the list is not accepted: the server refused it: the database is down"},
		"another form":          {`{"tools":7}`, "does not follow the protocol"},
		"no list":               {`{"tools":{"name":"b"}}`, "does not follow the protocol"},
		"a cursor that repeats": {`{"tools":[` + listed("a") + `],"nextCursor":"2"}`, "the list repeats a page"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			var whole atomic.Bool
			state := w.add("up", paged(func(cursor string) string {
				switch {
				case cursor == "":
					return `{"tools":[` + listed("a") + `],"nextCursor":"2"}`
				case whole.Load():
					return `{"tools":[` + listed("b") + `]}`
				}
				return c.second
			}))
			if got := namesOf(state.Seen); got != "a" || state.Problem != "" || len(state.Seen.LeftOut) != 1 || !strings.Contains(state.Seen.LeftOut[0], c.says) {
				t.Fatalf("seen %q, left out %q, problem %q", got, state.Seen.LeftOut, state.Problem)
			}
			if strings.Contains(state.Seen.LeftOut[0], "Go ") || strings.Contains(state.Seen.LeftOut[0], "unmarshal") {
				t.Errorf("internals: %q", state.Seen.LeftOut)
			}
			w.works("up/a", `{}`)
			whole.Store(true)
			w.works("up/a", `{}`)
			state = must.Get(w.Show("up"))(t)
			if got := namesOf(state.Seen); got != "a b" || len(state.Changes) != 1 || state.Changes[0].Word() != "added" || len(state.Seen.LeftOut) != 0 {
				t.Errorf("once the page can be read: seen %q, changes %v, left out %q", got, state.Changes, state.Seen.LeftOut)
			}
		})
	}
	w := newWorld(t)
	if state := w.add("none", paged(func(string) string { return "error:the database is down" })); state.Problem == "" {
		t.Error("a server without a list has no problem")
	}
}

// TestFaultyTool: an unreadable tool does not affect the other tools of its page, and is reported
// as skipped.
func TestFaultyTool(t *testing.T) {
	t.Parallel()
	for name, faulty := range map[string]string{
		"a name":        `{"name":7,"inputSchema":{"type":"object"}}`,
		"a description": `{"name":"bad","description":["x"],"inputSchema":{"type":"object"}}`,
		"annotations":   `{"name":"bad","annotations":{"readOnlyHint":"yes"},"inputSchema":{"type":"object"}}`,
		"a text":        `"bad"`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			state := w.add("up", paged(func(string) string { return `{"tools":[` + listed("a") + `,` + faulty + `,null,` + listed("b") + `]}` }))
			if got := namesOf(state.Seen); got != "a b" || len(state.Seen.LeftOut) != 1 || !strings.Contains(state.Seen.LeftOut[0], "does not follow the protocol") {
				t.Errorf("seen %q, left out %q, problem %q", got, state.Seen.LeftOut, state.Problem)
			}
			w.works("up/b", `{}`)
		})
	}
}

// TestDuplicateDefinitions: an identical definition that is listed twice counts once, on one page and on two.
// Two different definitions of one name are both skipped, because the name is ambiguous.
func TestDuplicateDefinitions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := `{"name":"other","description":"another","inputSchema":{"type":"object"}}`
	state := w.add("up", paged(func(cursor string) string {
		if cursor == "" {
			return `{"tools":[` + listed("a") + `,` + listed("a") + `,` + listed("other") + `],"nextCursor":"2"}`
		}
		return `{"tools":[` + listed("a") + `,` + other + `]}`
	}))
	if got := namesOf(state.Seen); got != "a" || len(state.Seen.LeftOut) != 1 || !strings.Contains(state.Seen.LeftOut[0], "tool other, other: the names collide") {
		t.Errorf("seen %q, left out %q", got, state.Seen.LeftOut)
	}
	w.works("up/a", `{}`)
}

// TestLongNames: a tool whose name has 65 to 128 characters is called by a name of at most 64
// characters, which is stable and unique. Control: a name of 129 characters.
func TestLongNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, url := w.serveMCP()
	long := strings.Repeat("n", 127)
	state := w.add("up", paged(func(string) string {
		return `{"tools":[` + listed(long+"a") + `,` + listed(long+"b") + `,` + listed(long[:64]+"c") + `,` + listed(long+"xx") + `]}`
	}))
	if got := len(state.Seen.Definitions); got != 3 || len(state.Seen.LeftOut) != 1 {
		t.Fatalf("%d tools, left out %q", got, state.Seen.LeftOut)
	}
	names := func() (list []string) {
		a := newAgent(t, url, "2025-11-25")
		for _, one := range must.Get(a.ListTools(t.Context(), nil))(t).Tools {
			if strings.HasPrefix(one.Name, "up_n") {
				list = append(list, one.Name)
			}
		}
		return list
	}
	short := names()
	if len(short) != 3 || short[0] == short[1] || len(short[0]) > 64 {
		t.Fatalf("named %q", short)
	}
	w.restart()
	if again := names(); format(again) != format(short) {
		t.Errorf("%q, and after a restart %q", short, again)
	}
	a := newAgent(t, url, "2026-07-28")
	called := map[string]bool{}
	for _, name := range short {
		r := must.Get(a.CallTool(t.Context(), &mcp.CallToolParams{Name: name}))(t)
		called[r.Content[0].(*mcp.TextContent).Text] = true
	}
	if !called[long+"a"] || !called[long+"b"] || !called[long[:64]+"c"] {
		t.Errorf("called %v", called)
	}
	w.works("up/"+long+"a", `{}`)
}
