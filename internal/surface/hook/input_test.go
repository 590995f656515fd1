package hook_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"palyra/internal/call/approval"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

// TestInputThatIsRefused: an input that no tool accepts is refused with the same reason as by
// the API, whichever agent sends it. Control: an input of the maximum size.
func TestInputThatIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, free)
	for name, c := range map[string]struct {
		line string
		want reason.Code
	}{
		"large":         {strings.Repeat("x", 1<<20-100), ""},
		"over 1 MiB":    {strings.Repeat("x", 1<<20), reason.InputTooLarge},
		"several MiB":   {strings.Repeat("x", 5<<20), reason.InputTooLarge},
		"NUL":           {"echo a\x00b", reason.InvalidUTF8},
		"NUL at an end": {"echo a\x00", reason.InvalidUTF8},
	} {
		input := map[string]any{"command": c.line}
		for agent, a := range map[string]answer{
			"claude-code": w.claude("PreToolUse", "c"+name, "Bash", input),
			"codex":       w.send(t.Context(), "codex", w.codex("x"+name, "Bash", input)),
			"generic": w.send(t.Context(), "generic", string(must.Get(json.Marshal(map[string]any{
				"event": "before", "session": "s", "call": "g" + name, "tool": "shell", "input": input, "cwd": w.ws,
			}))(t))),
		} {
			if c.want == "" && a.decision != "allow" || c.want != "" && (a.decision == "allow" || !a.says(c.want)) {
				t.Errorf("%s: %s: %.300s, want %q", agent, name, a.body, c.want)
			}
		}
	}
}

// TestCommandLineAsList: a command line that Codex sends as a list of words is read as the
// equivalent line. Control: the same line as text.
func TestCommandLineAsList(t *testing.T) {
	t.Parallel()
	w := newWorld(t, free)
	stop := w.people(no)
	for name, c := range map[string]struct {
		command any
		asks    bool
	}{
		"text":               {"bash -lc 'rm .mcp.json'", true},
		"words":              {[]string{"bash", "-lc", "rm .mcp.json"}, true},
		"words that read":    {[]string{"bash", "-lc", "cat .mcp.json"}, false},
		"words with a space": {[]string{"rm", "a b", ".mcp.json"}, true},
		"a name with quotes": {[]string{"touch", "it's"}, false},
	} {
		a := w.send(t.Context(), "codex", w.codex(name, "shell", map[string]any{"command": c.command, "workdir": w.ws}))
		if (a.decision == "allow") == c.asks || c.asks && !a.says(reason.ApprovalDenied) {
			t.Errorf("%s: %+v", name, a)
		}
	}
	for name, command := range map[string]any{"numbers": []any{"rm", 1}, "none": []any{}, "null": nil} {
		if a := w.send(t.Context(), "codex", w.codex(name, "shell", map[string]any{"command": command})); a.decision == "allow" || !a.says(reason.InvalidInput) {
			t.Errorf("%s: %+v", name, a)
		}
	}
	asked := stop()
	if !slices.ContainsFunc(asked, func(r approval.Record) bool { return strings.Contains(r.Prompt.Summary, `rm 'a b' .mcp.json`) }) {
		t.Errorf("no question has the line: %d", len(asked))
	}
}
