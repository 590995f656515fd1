package export

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// column is a CSV column: its name, and the path of its value in a line.
type column struct {
	name string
	path []string
}

// columnsOf returns columns for paths whose names are separated by dots.
func columnsOf(paths ...string) []column {
	list := make([]column, len(paths))
	for i, p := range paths {
		path := strings.Split(p, ".")
		list[i] = column{strings.Join(path, "_"), path}
	}
	return list
}

// members returns the values of a line at the paths of columns: strings unchanged, empty for null
// and missing values, anything else as JSON.
func members(line []byte, columns []column) ([]string, error) {
	var top map[string]json.RawMessage
	if err := json.Unmarshal(line, &top); err != nil {
		return nil, fmt.Errorf("reading a line of an export: %w", err)
	}
	cells := make([]string, len(columns))
	for i, c := range columns {
		value, err := member(top, c.path)
		if err != nil {
			return nil, fmt.Errorf("reading %s of an export: %w", c.name, err)
		}
		if cells[i], err = text(value); err != nil {
			return nil, fmt.Errorf("reading %s of an export: %w", c.name, err)
		}
	}
	return cells, nil
}

func member(of map[string]json.RawMessage, path []string) (json.RawMessage, error) {
	value := of[path[0]]
	if len(path) == 1 || len(value) == 0 {
		return value, nil
	}
	var below map[string]json.RawMessage
	if err := json.Unmarshal(value, &below); err != nil {
		return nil, err
	}
	return member(below, path[1:])
}

func text(value json.RawMessage) (string, error) {
	switch {
	case len(value) == 0, bytes.Equal(value, []byte("null")):
		return "", nil
	case value[0] != '"':
		return string(value), nil
	}
	var s string
	err := json.Unmarshal(value, &s)
	return s, err
}

// formulaStarts are the characters, in either width, that spreadsheets interpret as the start of a
// formula or a command (OWASP, CSV Injection). blanks are characters that some spreadsheets trim
// first.
const (
	formulaStarts = "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20"
	blanks        = " \u00a0\ufeff"
)

// inert returns text that no spreadsheet interprets as a formula: an apostrophe is inserted before
// a character that would start one.
func inert(text string) string {
	first, size := utf8.DecodeRuneInString(strings.TrimLeft(text, blanks))
	if size > 0 && strings.ContainsRune(formulaStarts, first) {
		return "'" + text
	}
	return text
}

// row returns a row of RFC 4180. Every cell is quoted, so that other separators in a text do not
// start a new cell.
func row(cells []string) []byte {
	var b bytes.Buffer
	for i, cell := range cells {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('"')
		b.WriteString(strings.ReplaceAll(inert(cell), `"`, `""`))
		b.WriteByte('"')
	}
	b.WriteString("\r\n")
	return b.Bytes()
}
