package ask

import (
	"cmp"
	"fmt"
	"strings"
	"unicode/utf8"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/printer"
)

// ProcessResult has the displayed members of a process.run result.
type ProcessResult struct {
	ExitCode *int           `json:"exit_code"`
	Signal   string         `json:"signal"`
	Stdout   *processStream `json:"stdout"`
	Stderr   *processStream `json:"stderr"`
	// Notes are remarks about the execution, such as unreachable hosts.
	Notes []string `json:"notes"`
}

type processStream struct {
	Content  string `json:"content"`
	Encoding string `json:"encoding"`
	// Tail is the end of a text whose middle is missing.
	Tail       string `json:"tail"`
	TotalBytes int64  `json:"total_bytes"`
	Truncated  bool   `json:"truncated"`
}

// IsProcess reports whether the result is from a program.
func (r ProcessResult) IsProcess() bool { return r.Stdout != nil && r.Stderr != nil }

// Text returns the output of the program, with a line where a part is missing.
func (s *processStream) Text() string {
	if s.Encoding != "utf-8" && s.Content != "" {
		return fmt.Sprintf("(%d bytes of binary data; use -o json to show them)\n", s.TotalBytes)
	}
	text := printer.WithNewline(s.Content)
	if s.Truncated {
		text += fmt.Sprintf("(... truncated, %d bytes in total ...)\n", s.TotalBytes)
	}
	return text + printer.WithNewline(s.Tail)
}

// WholeRunes returns the length of data without an incomplete last character.
func WholeRunes(data []byte) int {
	for back := 1; back < utf8.UTFMax && back <= len(data); back++ {
		i := len(data) - back
		if !utf8.RuneStart(data[i]) {
			continue
		}
		if !utf8.FullRune(data[i:]) {
			return i
		}
		break
	}
	return len(data)
}

// DeterminingLines returns the policies that determined a decision, one per line.
func DeterminingLines(list []*palyrav1.Determining) []string {
	var lines []string
	for _, d := range list {
		line := fmt.Sprintf("%s %s", d.GetEffect(), d.GetPolicyId())
		if d.GetFile() != "" {
			line += fmt.Sprintf(" (%s:%d)", d.GetFile(), d.GetLine())
		}
		if d.GetReason() != "" {
			line += ": " + d.GetReason()
		}
		lines = append(lines, line)
	}
	return lines
}

// ByGrant describes the grant that allowed a call, with its coverage.
func ByGrant(d *palyrav1.ToolDecision) string {
	text := "allowed by grant " + d.GetGrantId()
	if d.GetGrantCovers() != "" {
		text += ": " + d.GetGrantCovers()
	}
	return text
}

// Posture describes on one line how a call was isolated, "" if unknown.
func Posture(p *palyrav1.ExecutionPosture) string {
	if p == nil {
		return ""
	}
	ran := p.GetExecutor()
	if p.GetBackend() != "" {
		ran += " (" + p.GetBackend() + ")"
	}
	reach := p.GetEgress()
	if len(p.GetEgressAllowed()) > 0 {
		reach += " to " + strings.Join(p.GetEgressAllowed(), ", ")
	}
	text := fmt.Sprintf("ran in %s, enforcement %s, egress %s, result %s", ran, p.GetEnforcement(), reach, p.GetExecutionDigest())
	if n := len(p.GetDowngrades()); n > 0 {
		text += fmt.Sprintf(", without %s", strings.Join(p.GetDowngrades(), "; "))
	}
	return text
}

// ResolvedWord describes how an approval of a call ended.
func ResolvedWord(r *palyrav1.ApprovalResolved) string {
	word := printer.Enum(r.GetState())
	if r.GetGrantId() != "" {
		word += " by grant " + r.GetGrantId()
	}
	return word
}

// EditedLines returns the notice that approvers changed the call before they approved it.
func EditedLines(e *palyrav1.ExecutedAsEdited) []string {
	if e == nil {
		return nil
	}
	lines := []string{"executed as edited by " + printer.VisibleLine(strings.Join(e.GetBy(), ", ")) + ": it ran with other arguments than proposed"}
	for _, c := range e.GetChanges() {
		lines = append(lines, printer.VisibleLine("  "+c.GetField()+": "+cmp.Or(c.GetIs(), "omitted")+", was "+cmp.Or(c.GetWas(), "not there")))
	}
	if e.GetReason() != "" {
		lines = append(lines, "  reason: "+printer.VisibleLine(e.GetReason()))
	}
	return lines
}
