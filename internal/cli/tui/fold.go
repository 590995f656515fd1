package tui

import (
	"strings"
	"unicode/utf8"

	"charm.land/lipgloss/v2"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/calls/ask"
	"palyra/internal/cli/client"
	"palyra/internal/cli/printer"

	"google.golang.org/protobuf/proto"
)

// goesOn is the indentation of continuation lines, so that spaces in a text cannot fake a line of
// the program's own output.
const goesOn = "    "

// pageOf returns the complete display of an approval, in lines of a width.
func pageOf(a *client.App, v *palyrav1.Approval, width int) []string {
	still := proto.CloneOf(v)
	still.ExpiresAt = nil // the head of the screen shows the remaining time
	p := &printer.Page{Style: a.OutStyle()}
	ask.Page(a, p, still)
	return fold(p.String(), width)
}

// fold wraps lines at a width. Nothing is omitted, and each line has its own styles. The text comes
// from a printer: its only escape sequences are styles.
func fold(text string, width int) []string {
	f := folder{width: max(width, 2*len(goesOn))}
	for len(text) > 0 {
		switch {
		case text[0] == '\x1b':
			end := strings.IndexByte(text, 'm') + 1
			if end == 0 {
				return append(f.lines, f.line.String())
			}
			f.style(text[:end])
			text = text[end:]
		case text[0] == '\n':
			f.end("")
			text = text[1:]
		case text[0] == '\t':
			f.add(goesOn, len(goesOn))
			text = text[1:]
		default:
			r, size := utf8.DecodeRuneInString(text)
			cells := 1
			if r >= utf8.RuneSelf {
				cells = lipgloss.Width(text[:size])
			}
			f.add(text[:size], cells)
			text = text[size:]
		}
	}
	if f.line.Len() > 0 {
		f.end("")
	}
	return f.lines
}

type folder struct {
	width int
	lines []string
	line  strings.Builder
	cells int
	// styles are the active styles.
	styles string
}

func (f *folder) style(sequence string) {
	f.line.WriteString(sequence)
	if sequence == "\x1b[m" || sequence == "\x1b[0m" {
		f.styles = ""
		return
	}
	f.styles += sequence
}

func (f *folder) add(text string, cells int) {
	if f.cells+cells > f.width {
		f.end(goesOn)
	}
	f.line.WriteString(text)
	f.cells += cells
}

// end ends a line and begins the next one.
func (f *folder) end(indent string) {
	if f.styles != "" {
		f.line.WriteString("\x1b[m")
	}
	f.lines = append(f.lines, f.line.String())
	f.line.Reset()
	f.line.WriteString(indent + f.styles)
	f.cells = len(indent)
	if indent == "" && f.styles == "" {
		f.line.Reset()
	}
}
