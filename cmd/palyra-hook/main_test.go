package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"palyra/internal/core/must"
	"palyra/internal/surface/hook/client"
)

// gateway responds to every client with fixed bytes. It returns its socket and a channel with
// the requests.
func gateway(t *testing.T, answer string) (socket string, asked <-chan string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "hk")
	must.Do(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	must.Do(t, err)
	t.Cleanup(func() { _ = l.Close() })
	said := make(chan string, 1)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			text := make([]byte, 64<<10)
			n, _ := c.Read(text)
			select {
			case said <- string(text[:n]):
			default:
			}
			if answer == "silence" {
				continue
			}
			_, _ = io.WriteString(c, answer)
			_ = c.Close()
		}
	}()
	return l.Addr().String(), said
}

const (
	before   = `{"hook_event_name":"PreToolUse","tool_name":"Bash"}`
	after    = `{"hook_event_name":"PostToolUse","tool_name":"Bash"}`
	allowing = "HTTP/1.0 200 OK\r\nPalyra-Decision: allow\r\nContent-Length: 2\r\n\r\n{}"
)

type world struct {
	agent, socket, token, input string
	more                        []string
}

func (w world) run() (code int, stdout, stderr string) {
	return w.runFrom(strings.NewReader(w.input))
}

func (w world) runFrom(stdin io.Reader) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	env := map[string]string{"PALYRA_HOOK_SOCKET": w.socket, "PALYRA_HOOK_TOKEN": w.token}
	code = run(append([]string{w.agent}, w.more...), func(name string) string { return env[name] }, stdin, &out, &err)
	return code, out.String(), err.String()
}

func TestAllow(t *testing.T) {
	t.Parallel()
	socket, asked := gateway(t, allowing)
	w := world{agent: "claude-code", socket: socket, token: "pal_x", input: before, more: []string{"-limit", "600"}}
	if code, out, errs := w.run(); code != 0 || out != "{}" || errs != "" {
		t.Errorf("%d %q %q", code, out, errs)
	}
	text := <-asked
	for _, part := range []string{"POST /hooks/v1/claude-code HTTP/1.0\r\n", "Authorization: Bearer pal_x\r\n", "Palyra-Hook-Limit: 600\r\n", before} {
		if !strings.Contains(text, part) {
			t.Errorf("the request lacks %q: %q", part, text)
		}
	}
	quiet, _ := gateway(t, "HTTP/1.0 200 OK\r\nPalyra-Decision: allow\r\nContent-Length: 0\r\n\r\n")
	w = world{agent: "codex", socket: quiet, token: "pal_x", input: before}
	if code, out, errs := w.run(); code != 0 || out != "" || errs != "" {
		t.Errorf("Codex: %d %q %q", code, out, errs)
	}
}

// TestWithoutToken: without a token the operating system identifies the process. The socket is
// palyrad's default one unless it is set.
func TestWithoutToken(t *testing.T) {
	t.Parallel()
	socket, asked := gateway(t, allowing)
	w := world{agent: "claude-code", socket: socket, input: before}
	if code, out, errs := w.run(); code != 0 || out != "{}" || errs != "" {
		t.Errorf("%d %q %q", code, out, errs)
	}
	if text := <-asked; strings.Contains(text, "Authorization") {
		t.Errorf("the request is %q", text)
	}
	for want, env := range map[string]map[string]string{
		"/st/palyra/hooks.sock":                {"XDG_STATE_HOME": "/st", "HOME": "/h"},
		"/h/.local/state/palyra/hooks.sock":    {"XDG_STATE_HOME": "relative", "HOME": "/h"},
		"/home/.local/state/palyra/hooks.sock": {"HOME": "/home"},
	} {
		if got := client.UsualSocket(func(name string) string { return env[name] }); got != filepath.FromSlash(want) {
			t.Errorf("%v: %s", env, got)
		}
	}
}

func TestDeny(t *testing.T) {
	t.Parallel()
	body := `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"no"}}`
	socket, _ := gateway(t, "HTTP/1.0 200 OK\r\npalyra-decision: deny\r\n\r\n"+body)
	w := world{agent: "codex", socket: socket, token: "t", input: before}
	if code, out, errs := w.run(); code != 2 || out != body || errs != "no\n" {
		t.Errorf("%d %q %q", code, out, errs)
	}
}

// TestEverythingElseDenies: after any error, the agent receives a valid denial, and exit code
// 2. Control: TestAllow.
func TestEverythingElseDenies(t *testing.T) {
	t.Parallel()
	good, _ := gateway(t, allowing)
	answers := map[string]string{
		"nothing":            "",
		"garbage":            "\x00\x01\x02",
		"no palyrad":         "SSH-2.0-x\r\n\r\n",
		"500":                "HTTP/1.0 500 x\r\nPalyra-Decision: allow\r\n\r\n{}",
		"401":                "HTTP/1.0 401 x\r\n\r\n" + `{"code":"unauthenticated","message":"the token is not valid"}`,
		"no decision":        "HTTP/1.0 200 OK\r\n\r\n{}",
		"another decision":   "HTTP/1.0 200 OK\r\nPalyra-Decision: ask\r\n\r\n{}",
		"none":               "HTTP/1.0 200 OK\r\nPalyra-Decision: none\r\n\r\n{}",
		"two decisions":      "HTTP/1.0 200 OK\r\nPalyra-Decision: allow\r\nPalyra-Decision: deny\r\n\r\n{}",
		"a cut head":         "HTTP/1.0 200 OK\r\nPalyra-Decision: allow\r\n",
		"a cut body":         "HTTP/1.0 200 OK\r\nPalyra-Decision: allow\r\nContent-Length: 9\r\n\r\n{}",
		"a body of no JSON":  "HTTP/1.0 200 OK\r\nPalyra-Decision: allow\r\n\r\nyes",
		"silence":            "silence",
		"a length of no one": "HTTP/1.0 200 OK\r\nPalyra-Decision: allow\r\nContent-Length: x\r\n\r\n{}",
	}
	worlds := map[string]world{
		"no palyrad there":  {agent: "codex", socket: "/nowhere/s", token: "t", input: before},
		"no socket":         {agent: "codex", token: "t", input: before},
		"a token of lines":  {agent: "codex", socket: good, token: "a\r\nb", input: before},
		"no JSON":           {agent: "codex", socket: good, token: "t", input: "{"},
		"no event":          {agent: "codex", socket: good + "x", token: "t", input: "{}"},
		"nothing on stdin":  {agent: "codex", socket: good, token: "t"},
		"too much on stdin": {agent: "codex", socket: good, token: "t", input: strings.Repeat(" ", 8<<20+1)},
		"no agent":          {agent: "", socket: good, token: "t", input: before},
		"another agent":     {agent: "copilot", socket: good, token: "t", input: before},
		"an odd option":     {agent: "codex", socket: good, token: "t", input: before, more: []string{"-limit"}},
		"a wrong option":    {agent: "codex", socket: good, token: "t", input: before, more: []string{"-x", "y"}},
		"a wrong limit":     {agent: "codex", socket: good, token: "t", input: before, more: []string{"-limit", "0"}},
		"a missing file":    {agent: "codex", socket: good, token: "t", input: before, more: []string{"-token-file", "/nowhere/t"}},
	}
	for name, answer := range answers {
		socket, _ := gateway(t, answer)
		worlds["answer: "+name] = world{agent: "codex", socket: socket, token: "t", input: before, more: []string{"-limit", "1"}}
	}
	for name, w := range worlds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, errs := w.run()
			if code != 2 || !strings.Contains(out, `"permissionDecision":"deny"`) || errs == "" {
				t.Errorf("%d %q %q", code, out, errs)
			}
		})
	}
}

// TestReportsDenyNothing: an agent's report about a finished call cannot be denied, and the
// answer does not have the form of a denial.
func TestReportsDenyNothing(t *testing.T) {
	t.Parallel()
	w := world{agent: "claude-code", socket: "/nowhere/s", token: "t", input: after}
	if code, out, errs := w.run(); code != 0 || out != "" || errs == "" {
		t.Errorf("%d %q %q", code, out, errs)
	}
	socket, _ := gateway(t, strings.Replace(allowing, "allow", "none", 1))
	w.socket = socket
	if code, out, _ := w.run(); code != 0 || out != "{}" {
		t.Errorf("%d %q", code, out)
	}
}

// TestUnknownEventsDeny: only known reporting events pass without an answer of the gateway.
// Every other event counts as a request and results in a denial in the form of every agent,
// even if the gateway treats it as a report. Controls: the reports at the end.
func TestUnknownEventsDeny(t *testing.T) {
	t.Parallel()
	none, _ := gateway(t, strings.Replace(allowing, "allow", "none", 1))
	for agent, of := range map[string]struct {
		deny, event        string
		questions, reports []string
	}{
		"generic": {`"decision":"deny"`, "event",
			[]string{"before", "Before", "bfore", "AFTER", "After", "failed ", "pre", "PostToolUse", ""}, []string{"after", "failed", "turn_end", "session_end"}},
		"claude-code": {`"permissionDecision":"deny"`, "hook_event_name",
			[]string{"PreToolUse", "preToolUse", "PreTolUse", "PermissionRequest", "postToolUse", "after", ""},
			[]string{"PostToolUse", "PostToolUseFailure", "Stop", "SessionEnd"}},
		"codex": {`"permissionDecision":"deny"`, "hook_event_name",
			[]string{"PreToolUse", "pre_tool_use", "BeforeToolUse", "stop", "session_end", ""},
			[]string{"PostToolUse", "PostToolUseFailure", "Stop", "SessionEnd"}},
	} {
		last := of.reports[0]
		messages := []string{
			`{}`, `[]`, `null`, `"` + last + `"`, `{"` + of.event + `":7}`, `{"` + of.event + `":["` + last + `"]}`,
			// Messages that the gateway reads as a request or refuses, and that a lax parser reads as a
			// report.
			`{"` + of.event + `":"` + of.questions[0] + `","` + of.event + `":"` + last + `"}`,
			`{"` + of.event + `":"` + last + `","` + of.event + `":"` + of.questions[0] + `"}`,
			`{"` + of.event + `":"` + of.questions[0] + `","` + strings.ToUpper(of.event) + `":"` + last + `"}`,
			`{"` + strings.ToUpper(of.event) + `":"` + last + `"}`,
			`{"` + of.event + `":"` + last + `","` + strings.ToUpper(of.event) + `":"` + of.questions[0] + `"}`,
			`{"tool_input":{"` + of.event + `":"` + last + `"}}`,
		}
		for _, name := range of.questions {
			messages = append(messages, `{"`+of.event+`":"`+name+`","session":"s","call":"c","tool":"shell","input":{}}`)
		}
		for _, socket := range []string{"/nowhere/s", none} {
			for _, m := range messages {
				code, out, errs := world{agent: agent, socket: socket, token: "t", input: m}.run()
				if code != 2 || !strings.Contains(out, of.deny) || errs == "" {
					t.Errorf("%s at %s: %s: %d %q %q", agent, socket, m, code, out, errs)
				}
			}
			for _, name := range of.reports {
				if code, _, errs := (world{agent: agent, socket: socket, token: "t", input: `{"x":1,"` + of.event + `":"` + name + `"}`}).run(); code != 0 {
					t.Errorf("%s at %s: the report %s: %d %q", agent, socket, name, code, errs)
				}
			}
		}
	}
}

func TestGeneric(t *testing.T) {
	t.Parallel()
	w := world{agent: "generic", socket: "/nowhere/s", token: "t", input: `{"event":"before"}`}
	if code, out, _ := w.run(); code != 2 || !strings.Contains(out, `"decision":"deny"`) {
		t.Errorf("%d %q", code, out)
	}
}

// TestTokenMessage: the message about an unreadable token contains a next step also for agents
// without `palyra hook install`.
func TestTokenMessage(t *testing.T) {
	t.Parallel()
	w := world{agent: "generic", socket: "/nowhere/s", input: `{"event":"before"}`, more: []string{"-token-file", "/nowhere/t"}}
	if code, _, errs := w.run(); code != 2 || !strings.Contains(errs, "palyra tokens create NAME --for agent:NAME --scope hook.report") {
		t.Errorf("%d %q", code, errs)
	}
}

func TestSchema(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if code := run([]string{"schema"}, func(string) string { return "" }, strings.NewReader(""), &out, io.Discard); code != 0 || !json.Valid(out.Bytes()) {
		t.Errorf("%d %q", code, out.String())
	}
}

// panics is a reader that panics.
type panics struct{}

func (panics) Read([]byte) (int, error) { panic("a fault") }

// blocks is a reader that never returns.
type blocks struct{}

func (blocks) Read([]byte) (int, error) { select {} }

func TestFaultsDeny(t *testing.T) {
	t.Parallel()
	good, _ := gateway(t, allowing)
	w := world{agent: "codex", socket: good, token: "t", more: []string{"-limit", "1"}}
	for name, stdin := range map[string]io.Reader{"a panic": panics{}, "an error": iotest.ErrReader(errors.New("x")), "an agent that does not write": blocks{}} {
		if code, out, _ := w.runFrom(stdin); code != 2 || !strings.Contains(out, `"deny"`) {
			t.Errorf("%s: %d %q", name, code, out)
		}
	}
}
