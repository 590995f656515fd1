package upstream

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
)

// mostStray is the displayed length of a stray line.
const mostStray = 200

// logRemedy is the next step for a program that logs to its standard output.
const logRemedy = "Configure the server to write its log to standard error, and only messages to standard output. A variable, an argument or its stdio mode often selects that. Then run `palyra mcp refresh %s`."

// isStray reports whether a line that is not a message is a log line, in plain text or in JSON.
// The conversation continues after such a line. It ends after a line that may be a broken
// message, or may contain a message after other text: the call that expects this answer would
// wait forever.
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

// stray records the first log line of an instance among its messages.
func (st *starter) stray(in *instance, line []byte) {
	text := clean(string(bytes.ToValidUTF8(line, []byte("\ufffd"))), mostStray)
	in.mu.Lock()
	first := in.strayLine == ""
	if first {
		in.strayLine = text
	}
	in.mu.Unlock()
	if first {
		st.catalog.noted(in.server.Name, func(k *kept) { k.stray = text })
		st.use.Log.Warn("an upstream server writes lines that are not messages to its standard output: they are skipped", slog.String("upstream", in.server.Name), slog.String("line", text))
	}
}

// wroteStray describes the first stray line, "" if none was written.
func (in *instance) wroteStray() string {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.strayLine == "" {
		return ""
	}
	return namedStray(in.strayLine)
}

// namedStray describes a stray line for a message.
func namedStray(line string) string {
	return "it wrote the line " + quoted(line) + " to its standard output, which is not a JSON-RPC message"
}

func quoted(line string) string { return `"` + strings.ReplaceAll(line, "\t", " ") + `"` }
