package runs

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/calls/ask"
	"palyra/internal/cli/printer"
	"palyra/internal/core/reason"
)

// runCalls prints the events of a run's calls. Each call has a number that identifies its lines
// among parallel calls.
type runCalls struct {
	a     *app
	style printer.Palette
	known map[string]*runCall
	count int
}

// runCall is the known state of one call.
type runCall struct {
	number int
	tool   string
	// input is the input as the model wrote it.
	input []byte
	asked *palyrav1.Approval
	// printed is true once output was written; partial is the begun last line
	// of each stream.
	printed bool
	partial map[string][]byte
	// result is the received part of the call's result.
	result []byte
	// edited is set if approvers changed the call.
	edited *palyrav1.ExecutedAsEdited
	// waits is true while an approval is pending, over once the call ended.
	waits, over bool
}

func newRunCalls(a *app) runCalls {
	return runCalls{a: a, style: a.ErrStyle(), known: map[string]*runCall{}}
}

// wanted numbers the calls of a turn.
func (s *runCalls) wanted(calls []*palyrav1.ModelToolCall) {
	for _, c := range calls {
		s.known[c.GetCallId()] = s.add(c.GetTool(), c.GetInput())
	}
}

func (s *runCalls) add(tool string, input []byte) *runCall {
	s.count++
	return &runCall{number: s.count, tool: tool, input: input, partial: map[string][]byte{}}
}

// of returns the call of an event. A call whose turn was not received, because the view started
// later, is numbered on its first event.
func (s *runCalls) of(e *palyrav1.RunEvent) *runCall {
	if c := s.known[e.GetProposalId()]; c != nil && e.GetProposalId() != "" {
		return c
	}
	c := s.known[e.GetCallId()]
	if c == nil {
		c = s.add(e.GetProposed().GetTool(), nil)
		s.known[e.GetCallId()] = c
	}
	if id := e.GetProposalId(); id != "" {
		s.known[id] = c
	}
	return c
}

// open names the calls that run, and reports whether others wait for a human.
func (s *runCalls) open() (running []string, asked bool) {
	names := make([]string, s.count)
	for _, c := range s.known {
		switch {
		case c.waits:
			asked = true
		case !c.over:
			names[c.number-1] = fmt.Sprintf("[%d] %s", c.number, c.tool)
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "" }), asked
}

// lines returns the lines for an event of a call.
func (s *runCalls) lines(e *palyrav1.RunEvent) []styledLine {
	c := s.of(e)
	switch m := e.GetEvent().(type) {
	case *palyrav1.RunEvent_Proposed:
		c.tool = cmp.Or(m.Proposed.GetTool(), c.tool)
		return []styledLine{s.line(c, linePart{s.style.Bold, c.tool}, linePart{nil, s.arguments(c)})}
	case *palyrav1.RunEvent_ApprovalRequested:
		c.asked, c.waits = m.ApprovalRequested.GetApproval(), true
		return []styledLine{s.line(c, linePart{s.style.Yellow, "waits for " + cmp.Or(c.asked.GetMissing(), "a human")}, linePart{nil, ": " + s.waiting(c.asked)})}
	case *palyrav1.RunEvent_ApprovalResolved:
		c.waits = false
		return []styledLine{s.line(c, linePart{nil, "approval " + m.ApprovalResolved.GetApprovalId() + ": " + ask.ResolvedWord(m.ApprovalResolved)})}
	case *palyrav1.RunEvent_Decision:
		return s.decided(c, m.Decision)
	case *palyrav1.RunEvent_Output:
		return s.output(c, m.Output)
	case *palyrav1.RunEvent_Result:
		return s.ended(c, m.Result)
	case *palyrav1.RunEvent_Attestation:
		return s.held(c, m.Attestation)
	}
	return nil
}

// held describes the isolation of a call, as `palyra call` does. `palyra runs show` lists the
// attestations.
func (s *runCalls) held(c *runCall, a *palyrav1.ToolAttestation) []styledLine {
	text := ask.Posture(a.GetPosture())
	if text == "" {
		return nil
	}
	return []styledLine{s.line(c, linePart{s.style.Dim, text})}
}

func (s *runCalls) line(c *runCall, parts ...linePart) styledLine {
	return append(styledLine{{s.style.Bold, fmt.Sprintf("[%d] ", c.number)}}, parts...)
}

// waiting describes the pending approval, with its expiry.
func (s *runCalls) waiting(v *palyrav1.Approval) string {
	left := strings.TrimPrefix(s.a.Relative(v.GetExpiresAt()), "in ")
	return fmt.Sprintf("%s (%s left)", cmp.Or(v.GetPrompt().GetSummary(), v.GetPrompt().GetTitle()), left)
}

func (s *runCalls) decided(c *runCall, d *palyrav1.ToolDecision) []styledLine {
	if d.GetAllowed() {
		word := ""
		if c.asked == nil && d.GetGrantId() != "" {
			word = strings.TrimPrefix(ask.ByGrant(d), "allowed")
		}
		return []styledLine{s.line(c, linePart{s.style.Green, "allowed"}, linePart{nil, word})}
	}
	c.over = true
	why := cmp.Or(d.GetMessage(), reason.Lookup(reason.Code(d.GetReason())).Sentence)
	lines := []styledLine{s.line(c, linePart{s.style.Red, "denied"}, linePart{nil, ": " + withCode(why, d.GetReason())})}
	for _, text := range ask.DeterminingLines(d.GetDetermining()) {
		lines = append(lines, s.line(c, linePart{nil, "  " + text}))
	}
	return append(lines, s.next(c, d.GetReason(), d.GetRemedy())...)
}

func withCode(text, code string) string {
	if code == "" {
		return text
	}
	return text + " [" + code + "]"
}

// next returns the remedy, in the form of an error's next step.
func (s *runCalls) next(c *runCall, code, remedy string) []styledLine {
	e := &reason.Error{Code: reason.Code(code), Remedy: remedy}
	if e.NextStep() == "" {
		return nil
	}
	return []styledLine{s.line(c, linePart{s.style.Bold, "  next: "}, linePart{nil, e.NextStep()})}
}

// longestPartial is how much of an incomplete line is buffered.
const longestPartial = 4 << 10

// output returns the lines that a chunk completes.
func (s *runCalls) output(c *runCall, chunk *palyrav1.ToolOutputChunk) []styledLine {
	data := append(c.partial[chunk.GetStream()], chunk.GetData()...)
	whole := strings.LastIndexByte(string(data), '\n') + 1
	if whole == 0 && len(data) > longestPartial {
		whole = ask.WholeRunes(data)
	}
	c.partial[chunk.GetStream()] = append([]byte(nil), data[whole:]...)
	return s.outputLines(c, string(data[:whole]))
}

func (s *runCalls) outputLines(c *runCall, text string) []styledLine {
	var lines []styledLine
	for line := range strings.Lines(text) {
		c.printed = true
		lines = append(lines, s.line(c, linePart{s.style.Dim, "| " + strings.ReplaceAll(strings.TrimRight(line, "\r\n"), "\t", "    ")}))
	}
	return lines
}

// ended returns the remaining output, and the outcome of the call.
func (s *runCalls) ended(c *runCall, r *palyrav1.ToolResult) []styledLine {
	if r.GetExecutedAsEdited() != nil {
		c.edited = r.GetExecutedAsEdited()
	}
	c.result = append(c.result, r.GetResultJson()...)
	if r.GetMore() {
		return nil
	}
	c.over = true
	var lines []styledLine
	for _, note := range ask.EditedLines(c.edited) {
		lines = append(lines, s.line(c, linePart{nil, note}))
	}
	for _, stream := range []string{"stdout", "stderr"} {
		lines = append(lines, s.outputLines(c, string(c.partial[stream]))...)
	}
	var p ask.ProcessResult
	isProcess := json.Unmarshal(c.result, &p) == nil && p.IsProcess()
	if isProcess && !c.printed {
		lines = append(lines, s.outputLines(c, p.Stdout.Text()+p.Stderr.Text())...)
	}
	for _, note := range p.Notes {
		lines = append(lines, s.line(c, linePart{nil, note}))
	}
	if !isProcess {
		p = ask.ProcessResult{}
	}
	word, end := ask.Ending(r.GetOutcome(), p)
	if d := r.GetDuration(); d != nil {
		end += ", " + tidy(d.AsDuration())
	}
	outcome := linePart{s.style.State, word}
	if r.GetOutcome() == "succeeded" {
		return append(lines, s.line(c, outcome, linePart{nil, end}))
	}
	why := cmp.Or(r.GetMessage(), reason.Lookup(reason.Code(r.GetReason())).Sentence)
	lines = append(lines, s.line(c, outcome, linePart{nil, end + ": " + withCode(why, r.GetReason())}))
	return append(lines, s.next(c, r.GetReason(), r.GetRemedy())...)
}

// longestArguments is the maximum length of a call's arguments on one line if the terminal's width
// is unknown.
const longestArguments = 160

// arguments returns the input as key=value, cut to one line unless -o wide is used. Approvers
// still see the full input.
func (s *runCalls) arguments(c *runCall) string {
	text := printer.VisibleLine(ask.Arguments(c.input))
	if text == "" {
		return ""
	}
	limit := longestArguments
	if s.a.ErrTerminal && s.a.Width > 0 {
		limit = s.a.Width - len(fmt.Sprintf("[%d]  ", c.number)) - len(c.tool)
	}
	if s.a.Format() == printer.FormatWide {
		return " " + text
	}
	limit = max(limit, printer.MinimumCell)
	if start := []rune(text); len(start) > 4*limit {
		text = string(start[:4*limit]) // clip is quadratic
	}
	return " " + printer.Clip(text, limit)
}
