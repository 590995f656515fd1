package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// page is what a person reads about one thing: labelled lines and blocks.
// Everything written to it is made visible, and nothing is cut.
type page struct {
	b     strings.Builder
	style palette
}

const labelWidth = 14

// String returns the text.
func (p *page) String() string { return p.b.String() }

// heading writes a line that stands out.
func (p *page) heading(format string, args ...any) {
	p.b.WriteString(p.style.bold(visibleLine(fmt.Sprintf(format, args...))) + "\n")
}

// field writes a label and its value, unless the value is empty.
func (p *page) field(label, value string) {
	if value == "" {
		return
	}
	p.label(label)
	p.b.WriteString(p.style.state(visibleLine(value)) + "\n")
}

func (p *page) label(label string) {
	pad := strings.Repeat(" ", max(1, labelWidth-len(label)))
	p.b.WriteString(p.style.dim(label) + pad)
}

// list writes one value per line under one label.
func (p *page) list(label string, values []string) {
	for i, v := range values {
		if i > 0 {
			label = ""
		}
		p.label(label)
		p.b.WriteString(visibleLine(v) + "\n")
	}
}

// item writes one indented line.
func (p *page) item(text string) { p.b.WriteString("  " + visibleLine(text) + "\n") }

// block writes a label and an indented text of several lines.
func (p *page) block(label, text string) {
	if text == "" {
		return
	}
	p.b.WriteString(p.style.dim(label) + "\n")
	for line := range strings.Lines(strings.TrimSuffix(text, "\n") + "\n") {
		p.b.WriteString("  " + visibleText(strings.TrimSuffix(line, "\n")) + "\n")
	}
}

// diff is block with the sign of a unified diff coloured.
func (p *page) diff(label, text string) {
	if text == "" {
		return
	}
	p.b.WriteString(p.style.dim(label) + "\n")
	for line := range strings.Lines(strings.TrimSuffix(text, "\n") + "\n") {
		shown := visibleText(strings.TrimSuffix(line, "\n"))
		switch {
		case strings.HasPrefix(line, "+"):
			shown = p.style.green(shown)
		case strings.HasPrefix(line, "-"):
			shown = p.style.red(shown)
		}
		p.b.WriteString("  " + shown + "\n")
	}
}

// json writes a JSON value in full, indented. What is not JSON is written as
// text.
func (p *page) json(label string, text []byte) {
	var b bytes.Buffer
	if err := json.Indent(&b, text, "", "  "); err != nil {
		p.block(label, string(text))
		return
	}
	p.block(label, string(visibleJSON(b.Bytes())))
}

// gap writes an empty line.
func (p *page) gap() { p.b.WriteByte('\n') }

// moment is a time for people, absolute and relative; "" when there is none.
func (a *app) moment(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return clock(t) + " (" + a.relative(t) + ")"
}

// clock is a time of whole seconds in UTC.
func clock(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return t.AsTime().UTC().Format(time.RFC3339)
}

// relative is "in 9m12s", "3h ago" or "now"; "" when there is none.
func (a *app) relative(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	d := t.AsTime().Sub(a.now())
	switch {
	case d >= time.Second:
		return "in " + span(d)
	case d <= -time.Second:
		return span(-d) + " ago"
	}
	return "now"
}

// span writes a duration with its two largest units.
func span(d time.Duration) string {
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
