package printer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// Page is the formatted output about one object: labelled lines and blocks. All text is escaped,
// and nothing is truncated.
type Page struct {
	b     strings.Builder
	Style Palette
}

const (
	// LabelWidth is the width of the label column.
	LabelWidth = 14
	// PageWidth is the width at which long texts are wrapped.
	PageWidth = 80
)

// String returns the text.
func (p *Page) String() string { return p.b.String() }

// Heading writes a highlighted line.
func (p *Page) Heading(format string, args ...any) {
	p.b.WriteString(p.Style.Bold(VisibleLine(fmt.Sprintf(format, args...))) + "\n")
}

// Field writes a label and its value, unless the value is empty.
func (p *Page) Field(label, value string) {
	if value == "" {
		return
	}
	p.label(label)
	p.b.WriteString(p.Style.State(VisibleLine(value)) + "\n")
}

func (p *Page) label(label string) {
	pad := strings.Repeat(" ", max(1, LabelWidth-len(label)))
	p.b.WriteString(p.Style.Dim(label) + pad)
}

// List writes one value per line under one label.
func (p *Page) List(label string, values []string) {
	for i, v := range values {
		if i > 0 {
			label = ""
		}
		p.label(label)
		p.b.WriteString(VisibleLine(v) + "\n")
	}
}

// Item writes one indented line.
func (p *Page) Item(text string) { p.b.WriteString("  " + VisibleLine(text) + "\n") }

// Line writes one line.
func (p *Page) Line(text string) { p.b.WriteString(VisibleLine(text) + "\n") }

// Text writes a text of several lines.
func (p *Page) Text(text string) { p.b.WriteString(WithNewline(VisibleText(text))) }

// Wrapped is Field for a text that may be long, with continuation lines below it.
func (p *Page) Wrapped(label, text string) {
	if text == "" {
		return
	}
	p.label(label)
	lines := Wrap(VisibleLine(text), PageWidth-LabelWidth)
	p.b.WriteString(strings.Join(lines, "\n"+strings.Repeat(" ", LabelWidth)) + "\n")
}

// Hang writes a text after an indentation and a mark, with continuation lines aligned to the text.
func (p *Page) Hang(indent int, mark, text string) {
	if text == "" {
		return
	}
	before := strings.Repeat(" ", indent) + mark
	lines := Wrap(VisibleLine(text), PageWidth-len(before))
	p.b.WriteString(before + strings.Join(lines, "\n"+strings.Repeat(" ", len(before))) + "\n")
}

// Block writes a label and an indented text of several lines.
func (p *Page) Block(label, text string) {
	p.painted(label, text, func(line string) string { return line })
}

// Diff is Block with the sign of a unified diff coloured.
func (p *Page) Diff(label, text string) {
	p.painted(label, text, func(line string) string {
		switch {
		case strings.HasPrefix(line, "+"):
			return p.Style.Green(line)
		case strings.HasPrefix(line, "-"):
			return p.Style.Red(line)
		}
		return line
	})
}

// painted writes a label and an indented text, line by line.
func (p *Page) painted(label, text string, paint func(string) string) {
	if text == "" {
		return
	}
	p.b.WriteString(p.Style.Dim(label) + "\n")
	for line := range strings.Lines(strings.TrimSuffix(text, "\n") + "\n") {
		p.b.WriteString("  " + paint(VisibleText(strings.TrimSuffix(line, "\n"))) + "\n")
	}
}

// JSON writes a JSON value in full, indented. Other data is written as text.
func (p *Page) JSON(label string, text []byte) {
	var b bytes.Buffer
	if err := json.Indent(&b, text, "", "  "); err != nil {
		p.Block(label, string(text))
		return
	}
	p.Block(label, string(VisibleJSON(b.Bytes())))
}

// Gap writes an empty line.
func (p *Page) Gap() { p.b.WriteByte('\n') }

// Moment formats a time, absolute and relative; "" for none.
func (a *Printer) Moment(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return Clock(t) + " (" + a.Relative(t) + ")"
}

// Clock formats a time in UTC with whole seconds.
func Clock(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return t.AsTime().UTC().Format(time.RFC3339)
}

// Relative is "in 9m12s", "3h ago" or "now"; "" for none.
func (a *Printer) Relative(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	d := t.AsTime().Sub(a.Now())
	switch {
	case d >= time.Second:
		return "in " + Span(d)
	case d <= -time.Second:
		return Span(-d) + " ago"
	}
	return "now"
}

// Span writes a duration with its two largest units.
func Span(d time.Duration) string {
	d = d.Round(time.Second)
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%dd", int(d.Hours())/24)
	case d >= time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	case d >= time.Minute:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%ds", int(d.Seconds()))
}
