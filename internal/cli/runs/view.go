package runs

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/printer"
	"palyra/internal/core/text"
)

// runView prints the events of a run: lines on stderr with a number for each call, and the model's
// text. In a terminal the text is streamed, elsewhere it is printed once a turn is complete.
type runView struct {
	a     *app
	style printer.Palette
	// live is true if stderr is an interactive terminal; text is then the destination of the
	// model's text.
	live bool
	text io.Writer
	wrap printer.Wrapper
	// others is true for another user's run, whose user messages are also printed.
	others bool

	calls runCalls
	// said is the received part of the turn; answer is the last turn's text, until it is printed.
	said, answer string
	// held is buffered until the end of a question; nil prints at once.
	held []heldText
	hold bool
}

type heldText struct {
	to   io.Writer
	text string
}

func newRunView(a *app) *runView {
	v := &runView{a: a, style: a.ErrStyle(), live: a.ErrTerminal, text: a.Err, calls: newRunCalls(a)}
	if v.live {
		v.wrap.Width = a.Width
		if a.OutTerminal && a.forPeople() {
			v.text = a.Out
		}
	}
	return v
}

// forPeople reports whether stdout has readable output.
func (a *app) forPeople() bool {
	f := a.Format()
	return f == printer.FormatTable || f == printer.FormatWide
}

// event prints an event.
func (v *runView) event(e *palyrav1.RunEvent) {
	switch m := e.GetEvent().(type) {
	case *palyrav1.RunEvent_Started:
		v.started(m.Started.GetRun())
	case *palyrav1.RunEvent_UserMessage:
		if v.others {
			v.line("user: %s", m.UserMessage.GetText())
		}
	case *palyrav1.RunEvent_ModelDelta:
		v.delta(m.ModelDelta.GetText())
	case *palyrav1.RunEvent_ModelRetry:
		v.retry(m.ModelRetry)
	case *palyrav1.RunEvent_ModelTurn:
		v.turn(m.ModelTurn)
	case *palyrav1.RunEvent_Finished:
		v.finished(m.Finished.GetRun())
	default:
		for _, l := range v.calls.lines(e) {
			v.styled(l)
		}
	}
}

func (v *runView) started(r *palyrav1.Run) {
	v.line("run %s: model %s, workspace %s", r.GetRunId(), cmp.Or(r.GetModel(), "-"), cmp.Or(r.GetWorkspace(), "-"))
	if v.others {
		v.line("started %s by %s: %s", v.a.Moment(r.GetStartedAt()), r.GetPrincipal(), r.GetMessage())
	}
}

// delta prints a part of the turn in a terminal, and stores it.
func (v *runView) delta(text string) {
	v.said += text
	if v.live {
		v.write(v.text, v.wrap.Add(text))
	}
}

func (v *runView) retry(r *palyrav1.ModelRetry) {
	taken := ""
	if v.said != "" && v.live {
		taken = "; its output of this turn does not count"
	}
	v.said = ""
	v.line("the model's provider failed: %s; try %d begins in %s%s", r.GetMessage(), r.GetAttempt()+1, tidy(r.GetAfter().AsDuration()), taken)
}

// turn prints the text that the deltas did not contain.
func (v *runView) turn(t *palyrav1.ModelTurn) {
	v.flushAnswer()
	rest, ok := strings.CutPrefix(t.GetText(), v.said)
	if !ok {
		v.endText()
		rest = t.GetText()
	}
	v.said = ""
	switch {
	case v.live:
		v.write(v.text, v.wrap.Add(rest))
		v.endText()
	default:
		v.answer = t.GetText()
	}
	switch t.GetStop() {
	case "max_tokens":
		v.line("the model was cut off: its turn reached the limit of output tokens")
	case "refusal":
		v.line("the model refused to go on")
	}
	v.calls.wanted(t.GetCalls())
	if len(t.GetCalls()) > 0 {
		v.flushAnswer()
	}
}

// flushAnswer writes a turn's text that turned out not to be the run's answer.
func (v *runView) flushAnswer() {
	if v.answer != "" {
		v.write(v.a.Err, printer.WithNewline(printer.VisibleText(v.answer)))
		v.answer = ""
	}
}

// finished prints the outcome of the run. The caller prints the answer of a completed run as data,
// and the cause of a failed one as an error.
func (v *runView) finished(r *palyrav1.Run) {
	if r.GetState() != palyrav1.RunState_RUN_STATE_COMPLETED {
		v.flushAnswer()
	}
	if r.GetState() == palyrav1.RunState_RUN_STATE_CANCELLED {
		v.line("%s", cmp.Or(r.GetDetail(), "cancelled by "+r.GetCancelledBy()))
	}
	u := r.GetUsage()
	v.styled(styledLine{{v.style.State, printer.Enum(r.GetState())}, {nil, fmt.Sprintf(": %s, %s, %s, %s (run %s)",
		text.Plural(int(u.GetCalls()), "call"), text.Plural(int(u.GetTurns()), "turn"),
		text.Plural(int(u.GetInputTokens()+u.GetOutputTokens()), "token"), tidy(u.GetWallClock().AsDuration()), r.GetRunId())}})
}

// line prints a faint line that does not belong to a call.
func (v *runView) line(format string, args ...any) {
	v.styled(styledLine{{v.style.Dim, fmt.Sprintf(format, args...)}})
}

func (v *runView) styled(l styledLine) {
	v.endText()
	v.write(v.a.Err, l.String()+"\n")
}

// endText ends a line of text that was begun.
func (v *runView) endText() {
	if v.live {
		v.write(v.text, v.wrap.End())
	}
}

func (v *runView) write(to io.Writer, text string) {
	switch {
	case text == "":
	case v.hold:
		v.held = append(v.held, heldText{to, text})
	default:
		_, _ = io.WriteString(to, text)
	}
}

// pause buffers output until resume, so that a question stays in place.
func (v *runView) pause() {
	v.endText()
	v.hold = true
}

func (v *runView) resume() {
	v.hold = false
	for _, h := range v.held {
		v.write(h.to, h.text)
	}
	v.held = nil
}

// styledLine is a line in parts; each is escaped and then coloured.
type styledLine []linePart

type linePart struct {
	// paint is nil for unstyled text.
	paint func(string) string
	text  string
}

// String returns the line without its end.
func (l styledLine) String() string {
	var b strings.Builder
	for _, p := range l {
		text := printer.VisibleLine(p.text)
		if p.paint != nil {
			text = p.paint(text)
		}
		b.WriteString(text)
	}
	return b.String()
}

// tidy writes a duration with about three digits.
func tidy(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return printer.Span(d)
}
