package builtin

import (
	"fmt"
	"slices"
	"strings"

	"palyra/internal/core/text"
	"palyra/internal/core/tool"
	"palyra/internal/exec/program/commitgate"
	"palyra/internal/exec/sandbox"
)

// stream is stdout or stderr in a result.
type stream struct {
	body
	// Tail is the end of the stream if bytes before it are missing, in the same encoding.
	Tail       string `json:"tail,omitempty"`
	ExactTail  string `json:"tail_base64,omitempty"`
	TotalBytes int64  `json:"total_bytes"`
	SHA256     string `json:"sha256"`
	Truncated  bool   `json:"truncated"`
}

type processResult struct {
	ExitCode *int   `json:"exit_code"`
	Signal   string `json:"signal,omitempty"`
	TimedOut bool   `json:"timed_out"`
	Quota    string `json:"quota,omitempty"`
	// Limits are the limits that ended the program or refused something.
	Limits     []tool.LimitUse `json:"limits,omitempty"`
	Stdout     stream          `json:"stdout"`
	Stderr     stream          `json:"stderr"`
	DurationMS float64         `json:"duration_ms"`
	// Changes is set if the program worked on a copy of the workspace.
	Changes *commitgate.Summary `json:"changes,omitempty"`
	// Refusals are the denied system calls and hosts, by kind; RefusalsMissed counts the other
	// attempts.
	Refusals       []tool.Refusal `json:"refusals,omitempty"`
	RefusalsMissed int            `json:"refusals_missed,omitempty"`
	// Notes describe the run for the caller.
	Notes []string `json:"notes,omitempty"`
	// Error is the reason why the call failed although the program ran.
	Error *tool.Failure `json:"error,omitempty"`
}

// unbound records that operands changed while the program ran. It is then unknown which bytes the
// program read, so the level of the run becomes none, regardless of the cause of the change. It
// returns the notes for the caller.
func unbound(e *tool.Enforcement, changed []string) []string {
	if len(changed) == 0 {
		return nil
	}
	for _, name := range changed {
		e.Downgrades = append(slices.Clip(e.Downgrades), "operand changed during the run: "+name)
	}
	e.Level = sandbox.LevelNone
	return []string{"These files changed while the program ran, by the program or by another, so the bytes that it read are not attested: " + strings.Join(changed, ", ")}
}

// violationNotes lists the system calls that the sandbox denied, each once, so that a model does
// not search for the error elsewhere.
func violationNotes(ran sandbox.Report) []string {
	const most = 8
	var order []string
	times := make(map[string]int)
	for _, v := range ran.Violations {
		if times[v.Syscall] == 0 {
			order = append(order, v.Syscall)
		}
		times[v.Syscall]++
	}
	var notes []string
	for _, name := range order[:min(len(order), most)] {
		note := fmt.Sprintf("The program tried %s, which is not allowed in the sandbox.", name)
		if times[name] > 1 {
			note = fmt.Sprintf("The program tried %s %d times, which is not allowed in the sandbox.", name, times[name])
		}
		notes = append(notes, note)
	}
	if failed := ran.ExitCode == nil || *ran.ExitCode != 0; failed {
		// A program that succeeded did without these calls.
		for _, r := range ran.Refusals[:min(len(ran.Refusals), most)] {
			notes = append(notes, sandbox.DescribeRefusal(r))
		}
	}
	if more := len(order) - min(len(order), most); more > 0 || ran.ViolationsMissed > 0 {
		notes = append(notes, fmt.Sprintf("More was denied: %d other system calls, and %s that were not recorded one by one.", more, text.Plural(ran.ViolationsMissed, "attempt")))
	}
	return notes
}

// limitNotes describe the limits that refused something. The limit that ended a program is in the
// error.
func limitNotes(ran sandbox.Report) []string {
	var notes []string
	for _, u := range ran.Reached() {
		if u.Effect == tool.LimitEnded {
			continue
		}
		sentence, remedy := sandbox.DescribeLimit(u)
		notes = append(notes, sentence+" "+remedy)
	}
	return notes
}

// quarantineNotes lists the protected files that a direct run created. The sandbox moved them
// out of the workspace.
func quarantineNotes(ran sandbox.Report) []string {
	if len(ran.Quarantined) == 0 {
		return nil
	}
	const most = 32
	note := "These protected files are new and were moved out of the workspace: " + strings.Join(ran.Quarantined[:min(len(ran.Quarantined), most)], ", ")
	if more := len(ran.Quarantined) - most; more > 0 {
		note += fmt.Sprintf(" and %d more", more)
	}
	return []string{note}
}

// streamOf encodes both ends of a stream in the same encoding.
func streamOf(s sandbox.Stream) stream {
	head := asOutput(s.Head, s.Truncated)
	out := stream{body: head, TotalBytes: s.Total, SHA256: s.SHA256, Truncated: s.Truncated}
	if len(s.Tail) == 0 {
		return out
	}
	if tail := asOutput(trimStart(s.Tail), false); head.Encoding == encodingText && tail.Encoding == encodingText {
		out.Tail, out.ExactTail = tail.Content, tail.Exact
		return out
	}
	out.body = encodeAs(s.Head, false)
	out.Tail = encodeAs(s.Tail, false).Content
	return out
}

// trimStart drops an incomplete character at the start.
func trimStart(tail []byte) []byte {
	for i := 0; i < len(tail) && i < 3; i++ {
		if tail[i]&0xc0 != 0x80 {
			return tail[i:]
		}
	}
	return tail
}
