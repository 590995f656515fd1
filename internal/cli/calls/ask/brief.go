package ask

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/client"
	"palyra/internal/cli/printer"
)

// terminalLines is the height of a terminal that must fit a typical approval with its answers;
// leastBrief is the minimum height of the approval itself.
const (
	terminalLines = 24
	leastBrief    = 8
)

// The maximum number of lines for reasons, with and without changes, and for differences; changes
// use the remaining lines.
const (
	whyRoom        = 2
	whyAlone       = 5
	differenceRoom = 2
)

// Brief returns the information that is needed for most answers: requester, reason, differences and
// changes. Omitted lines are counted, and a question mark shows everything.
func Brief(a *client.App, v *palyrav1.Approval) string {
	prompt := v.GetPrompt()
	p := &printer.Page{Style: a.ErrStyle()}
	p.Gap()
	p.Heading("%s", cmp.Or(prompt.GetTitle(), v.GetSubjectId()))
	p.Field("asked by", cell(askedBy(v)))
	p.Field("reason given", cell(prompt.GetRequesterReason()))
	p.Field("severity", severity(v)+", "+strings.TrimPrefix(a.Relative(v.GetExpiresAt()), "in ")+" left")
	p.Field("not shown", cell(strings.Join(prompt.GetRedacted(), " ")))
	why := whyRoom
	if prompt.GetDiff() == "" {
		why = whyAlone
	}
	p.Block("why approval is needed", briefly(whyLines(prompt), why))
	if !aboutChanges(v) {
		p.Block("differs from the last allowed call", briefly(differencesInBrief(prompt), differenceRoom))
	}
	// Below are the answers, the summary, and the input line.
	below := strings.Count(answers(v), "\n") + strings.Count(SummaryLines(v), "\n") + 1
	room := max(terminalLines-below, leastBrief) - strings.Count(p.String(), "\n") - 1
	switch {
	case prompt.GetDiff() != "":
		p.Diff("change", briefly(strings.Split(strings.TrimSuffix(prompt.GetDiff(), "\n"), "\n"), room))
	case len(prompt.GetArgv()) == 0: // for a program the command line is sufficient
		p.Block("arguments", briefly(argumentLines(prompt), room))
	}
	return p.String()
}

// differencesInBrief returns one line for each difference, such as "argv: ["git","push"], was
// ["git","status"]".
func differencesInBrief(prompt *palyrav1.ApprovalPrompt) []string {
	var lines []string
	for _, d := range prompt.GetDiffersFromLast() {
		lines = append(lines, fmt.Sprintf("%s: %s, was %s", d.GetField(), d.GetIs(), d.GetWas()))
	}
	return lines
}

// argumentLines returns the arguments on one line if they fit, otherwise as indented JSON.
func argumentLines(prompt *palyrav1.ApprovalPrompt) []string {
	if text := string(printer.VisibleJSON(argumentsOf(prompt))); len(text) <= printer.PageWidth-2 {
		return []string{text}
	}
	var b bytes.Buffer
	if json.Indent(&b, argumentsOf(prompt), "", "  ") != nil {
		return []string{string(argumentsOf(prompt))}
	}
	return strings.Split(string(printer.VisibleJSON(b.Bytes())), "\n")
}

func severity(v *palyrav1.Approval) string {
	return cmp.Or(v.GetPrompt().GetSeverity(), v.GetSeverity(), "no severity")
}

// briefly keeps the first lines, each cut to the page width, and counts the omitted ones.
func briefly(lines []string, room int) string {
	kept := lines
	if len(lines) > room {
		kept = lines[:max(0, room-1)]
	}
	var b strings.Builder
	for _, line := range kept {
		b.WriteString(printer.Clip(printer.VisibleText(line), printer.PageWidth-2) + "\n")
	}
	if left := len(lines) - len(kept); left > 0 {
		fmt.Fprintf(&b, "%d more lines: type ?\n", left)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// cell cuts a line to the width next to a label.
func cell(line string) string {
	return printer.Clip(printer.VisibleLine(line), printer.PageWidth-printer.LabelWidth)
}
