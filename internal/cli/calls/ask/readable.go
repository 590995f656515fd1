package ask

import (
	"encoding/json"
	"fmt"
	"strings"

	"palyra/internal/cli/printer"
)

// toolResult has the displayed members of results for files and the web: a text, directory entries,
// search matches, or changed files.
type toolResult struct {
	Content   *string `json:"content"`
	Encoding  string  `json:"encoding"`
	Truncated bool    `json:"truncated"`
	LeftOut   int     `json:"left_out"`
	Entries   []struct {
		Path string `json:"path"`
		Kind string `json:"kind"`
		Size *int64 `json:"size"`
	} `json:"entries"`
	Matches []struct {
		Path string `json:"path"`
		Line int    `json:"line"`
		Text string `json:"text"`
	} `json:"matches"`
	Files []struct {
		Path   string `json:"path"`
		Action string `json:"action"`
		Bytes  int64  `json:"bytes"`
	} `json:"files"`
}

// Readable formats a result as text; ok is false for other shapes, which are better shown as JSON.
func Readable(result []byte) (text string, ok bool) {
	var r toolResult
	if json.Unmarshal(result, &r) != nil {
		return "", false
	}
	var b strings.Builder
	switch {
	case r.Content != nil && r.Encoding == "utf-8":
		b.WriteString(printer.WithNewline(*r.Content))
	case r.Entries != nil:
		for _, e := range r.Entries {
			size := ""
			if e.Size != nil {
				size = fmt.Sprintf("%d", *e.Size)
			}
			fmt.Fprintf(&b, "%-9s %10s  %s\n", e.Kind, size, e.Path)
		}
	case r.Matches != nil:
		for _, m := range r.Matches {
			fmt.Fprintf(&b, "%s:%d: %s\n", m.Path, m.Line, m.Text)
		}
	case r.Files != nil:
		for _, f := range r.Files {
			fmt.Fprintf(&b, "%s %s, %d bytes\n", f.Action, f.Path, f.Bytes)
		}
	default:
		return "", false
	}
	if r.Truncated {
		b.WriteString("(truncated; use -o json for details)\n")
	}
	if r.LeftOut > 0 {
		fmt.Fprintf(&b, "(%d omitted: policy does not let this caller see them)\n", r.LeftOut)
	}
	return b.String(), true
}

// Ending describes the outcome of a call and the exit of its program. The gateway cannot
// determine whether a program had the intended effect, so a program that fails is not called a
// success.
func Ending(outcome string, r ProcessResult) (word, rest string) {
	if r.ExitCode != nil {
		rest = fmt.Sprintf(", exit code %d", *r.ExitCode)
		if outcome == "succeeded" && *r.ExitCode != 0 {
			outcome = "ended"
		}
	}
	if r.Signal != "" {
		rest += ", signal " + r.Signal
	}
	return outcome, rest
}
