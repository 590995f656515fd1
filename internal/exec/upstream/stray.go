package upstream

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
)

// mostStray is how much of a stray line is displayed.
const mostStray = 200

// logRemedy is the next step where a program writes to its standard output.
const logRemedy = "Have the server write its log to standard error, and only messages to standard output: often a variable or an argument selects that, or its stdio mode. Then `palyra mcp refresh %s`."

// isStray reports whether a line that is not a message is one of a log, in plain text or in
// JSON. The conversation goes on after such a line. It ends after a line that may be a broken
// message, or have one behind its text: the call that it answers would wait forever.
func isStray(line []byte) bool {
	var members map[string]json.RawMessage
	if json.Unmarshal(line, &members) != nil {
		return !bytes.Contains(bytes.ToLower(line), []byte("jsonrpc"))
	}
	has := func(name string) bool {
		for key := range members {
			if strings.EqualFold(key, name) {
				return true
			}
		}
		return false
	}
	return !has("jsonrpc") && !(has("id") && (has("result") || has("error")))
}

// stray remembers the first line of an instance's log that it wrote among its messages.
func (m *Manager) stray(in *instance, line []byte) {
	text := clean(string(bytes.ToValidUTF8(line, []byte("\ufffd"))), mostStray)
	in.mu.Lock()
	first := in.strayLine == ""
	if first {
		in.strayLine = text
	}
	in.mu.Unlock()
	if first {
		m.noted(in.server.Name, func(k *kept) { k.stray = text })
		m.use.Log.Warn("an upstream server writes to its standard output lines that are not messages: they are left out", slog.String("upstream", in.server.Name), slog.String("line", text))
	}
}

// wroteStray names the first stray line, "" if there is none.
func (in *instance) wroteStray() string {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.strayLine == "" {
		return ""
	}
	return namedStray(in.strayLine)
}

// namedStray names a line for people.
func namedStray(line string) string {
	return "it wrote the line " + quoted(line) + " to its standard output, which is not a JSON-RPC message"
}

func quoted(line string) string { return `"` + strings.ReplaceAll(line, "\t", " ") + `"` }
