package tui

import (
	"strings"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"palyra/internal/cli/printer"
)

// line is an input line.
type line struct {
	text string
	// hidden is true for a passphrase, which is not displayed.
	hidden bool
	// most limits the text in bytes; 0 means no limit.
	most int
}

// key processes a key for the line; false for other keys.
func (l *line) key(k tea.KeyPressMsg) bool {
	switch k.String() {
	case "backspace", "ctrl+h":
		_, size := utf8.DecodeLastRuneInString(l.text)
		l.text = l.text[:len(l.text)-size]
		return true
	case "ctrl+u":
		l.text = ""
		return true
	case "ctrl+w":
		l.text = l.text[:strings.LastIndexByte(strings.TrimRight(l.text, " "), ' ')+1]
		return true
	}
	if k.Key().Text == "" {
		return false
	}
	l.add(k.Key().Text)
	return true
}

// add appends a text, as one line.
func (l *line) add(text string) {
	text = strings.Map(func(r rune) rune {
		if r == '\n' || r == '\r' || r == '\t' {
			return ' '
		}
		return r
	}, text)
	if l.most == 0 || len(l.text)+len(text) <= l.most {
		l.text += text
	}
}

// visible returns the line with its end visible.
func (l *line) visible(cells int) string {
	if l.hidden {
		return "(not shown)█"
	}
	text := []rune(printer.VisibleLine(l.text))
	return string(text[max(0, len(text)-cells+1):]) + "█"
}
