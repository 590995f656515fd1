// Package tomledit edits TOML in place: it sets or removes one key or table, and every other
// byte stays unchanged. Removing an added key restores the original text. Each edit is parsed
// and compared with the intended result. A text that cannot be edited without other changes is
// refused.
package tomledit

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// Error is a syntax error in TOML, with its position.
type Error struct {
	// Line and Column count from 1; a column is a byte.
	Line, Column int
	Message      string
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("%d:%d: %s", e.Line, e.Column, e.Message) }

// Errors of edits.
var (
	ErrNotFound = errors.New("the name does not exist")
	ErrExists   = errors.New("the name already exists")
	// ErrNotEdited is returned if a change would affect other text, such as in a table that is
	// written in one line.
	ErrNotEdited = errors.New("this cannot be changed without changing the rest of the file")
)

// Pair is a key and its value, in the order in which they are written. Values are strings,
// booleans, whole numbers, and lists and maps of them.
type Pair struct {
	Key   string
	Value any
}

// Decode decodes a text into v, as go-toml does. A leading byte-order mark is permitted.
func Decode(text []byte, v any) error { return withPosition(toml.Unmarshal(Unmarked(text), v)) }

// mark is the byte-order mark that some editors write at the start of a text.
var mark = []byte("\ufeff")

// Unmarked returns a text without a leading byte-order mark.
func Unmarked(text []byte) []byte { return bytes.TrimPrefix(text, mark) }

// Edit edits a text without its byte-order mark, and restores the mark.
func Edit(text []byte, edit func([]byte) ([]byte, error)) ([]byte, error) {
	edited, err := edit(Unmarked(text))
	if err != nil || !bytes.HasPrefix(text, mark) {
		return edited, err
	}
	return slices.Concat(mark, edited), nil
}

// withPosition adds the position to an error of the parser.
func withPosition(err error) error {
	var d *toml.DecodeError
	if errors.As(err, &d) {
		line, column := d.Position()
		return &Error{Line: line, Column: column, Message: strings.TrimPrefix(d.Error(), "toml: ")}
	}
	return err
}

func decode(text []byte) (map[string]any, error) {
	doc := make(map[string]any)
	return doc, Decode(text, &doc)
}

// line is an expression of a text: a header, or a key with its value.
type line struct {
	// path is the path in the document, including the path of the header.
	path []string
	kind unstable.Kind
	// from and to are the start of its line and of the next one. key and end are the range of the
	// expression, value is the range of its value.
	from, key, end, to int
	value              [2]int
}

// source is a text with its expressions.
type source struct {
	text  []byte
	lines []line
}

func read(text []byte) *source {
	s := &source{text: text}
	var p unstable.Parser
	p.Reset(text)
	var table []string
	for p.NextExpression() {
		expr := p.Expression()
		if expr.Kind == unstable.Comment {
			continue
		}
		l := line{kind: expr.Kind}
		for it := expr.Key(); it.Next(); {
			n := it.Node()
			if len(l.path) == 0 {
				l.key = int(n.Raw.Offset)
			}
			l.path = append(l.path, string(n.Data))
			l.end = int(n.Raw.Offset + n.Raw.Length)
		}
		if expr.Kind == unstable.KeyValue {
			l.path = slices.Concat(table, l.path)
			l.end = int(expr.Raw.Offset + expr.Raw.Length)
			l.value = s.valueOf(l.end, expr)
		} else {
			table = l.path
		}
		l.from = bytes.LastIndexByte(text[:l.key], '\n') + 1
		l.to = s.lineEnd(l.end)
		s.lines = append(s.lines, l)
	}
	return s
}

// valueOf returns the position of an expression's value: after the first '=' that is not part of
// its key.
func (s *source) valueOf(end int, expr *unstable.Node) [2]int {
	at := 0
	for it := expr.Key(); it.Next(); {
		at = int(it.Node().Raw.Offset + it.Node().Raw.Length)
	}
	at += bytes.IndexByte(s.text[at:], '=') + 1
	for at < end && (s.text[at] == ' ' || s.text[at] == '\t') {
		at++
	}
	return [2]int{at, end}
}

// lineEnd returns the start of the line after a byte.
func (s *source) lineEnd(at int) int {
	if i := bytes.IndexByte(s.text[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(s.text)
}

// eol returns the line end of the text.
func (s *source) eol() string {
	if i := bytes.IndexByte(s.text, '\n'); i > 0 && s.text[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// Set sets the value of a key. It replaces the existing value or appends the key to its table,
// which it creates if missing. made is the path of the addition, nil if nothing was added.
// Remove with this path restores the original text.
func Set(text []byte, path []string, value any) (edited []byte, made []string, err error) {
	edited, err = Edit(text, func(text []byte) (edited []byte, err error) {
		edited, made, err = set(text, path, value)
		return edited, err
	})
	return edited, made, err
}

func set(text []byte, path []string, value any) (edited []byte, made []string, err error) {
	before, err := decode(text)
	if err != nil {
		return nil, nil, err
	}
	written, err := write(value)
	if err != nil {
		return nil, nil, err
	}
	s := read(text)
	want := with(before, path, value)
	at := slices.IndexFunc(s.lines, func(l line) bool { return l.kind == unstable.KeyValue && slices.Equal(l.path, path) })
	if at >= 0 {
		v := s.lines[at].value
		edited, err := verified(splice(text, v[0], v[1], written), want)
		return edited, nil, err
	}
	if edited, made = s.insert(path, written); made == nil {
		return nil, nil, fmt.Errorf("%s: %w", dotted(path), ErrNotEdited)
	}
	edited, err = verified(edited, want)
	return edited, made, err
}

// insert adds a key and returns the path of the addition.
func (s *source) insert(path []string, value string) (edited []byte, made []string) {
	table, key := path[:len(path)-1], path[len(path)-1:]
	if at, indent, ok := s.behind(table); ok {
		return s.addLine(at, indent+dotted(key)+" = "+value), path
	}
	// Next to keys written as table.key.
	for i, l := range slices.Backward(s.lines) {
		if l.kind == unstable.KeyValue && len(l.path) == len(path) && slices.Equal(l.path[:len(table)], table) {
			header := s.header(i)
			return s.addLine(l.to, string(s.text[l.from:l.key])+dotted(path[len(header):])+" = "+value), path
		}
	}
	// A table that exists only through its subtables has no place for a key, and an added header
	// could not be distinguished from an existing one.
	if slices.ContainsFunc(s.lines, func(l line) bool { return isBelow(l.path, table) }) {
		return nil, nil
	}
	return s.addBlock("[" + dotted(table) + "]" + s.eol() + dotted(key) + " = " + value), table
}

// header returns the path of the table that contains a line.
func (s *source) header(at int) []string {
	for i := at - 1; i >= 0; i-- {
		if s.lines[i].kind != unstable.KeyValue {
			return s.lines[i].path
		}
	}
	return nil
}

// behind returns the position for a new key of a table: after its last key.
func (s *source) behind(table []string) (at int, indent string, ok bool) {
	ok = len(table) == 0
	in := ok
	for _, l := range s.lines {
		switch {
		case l.kind != unstable.KeyValue:
			if in = l.kind == unstable.Table && slices.Equal(l.path, table); in {
				at, indent, ok = l.to, string(s.text[l.from:s.blanks(l.from)]), true
			}
		case in:
			at, indent = l.to, string(s.text[l.from:l.key])
		}
	}
	return at, indent, ok
}

// blanks returns the end of the leading blanks of a line.
func (s *source) blanks(at int) int {
	for at < len(s.text) && (s.text[at] == ' ' || s.text[at] == '\t') {
		at++
	}
	return at
}

// addLine inserts a line at the start of a line, or at the end of the text.
func (s *source) addLine(at int, text string) []byte {
	if at == len(s.text) && at > 0 && s.text[at-1] != '\n' {
		return splice(s.text, at, at, s.eol()+text)
	}
	return splice(s.text, at, at, text+s.eol())
}

// addBlock appends a table after an empty line. If the text does not end with a line end,
// neither does the result.
func (s *source) addBlock(block string) []byte {
	eol, end := s.eol(), len(s.text)
	switch {
	case end == 0:
		return []byte(block + eol)
	case s.text[end-1] != '\n':
		return splice(s.text, end, end, eol+eol+block)
	}
	return splice(s.text, end, end, eol+block+eol)
}

// AddTable adds a new table.
func AddTable(text []byte, path []string, pairs ...Pair) ([]byte, error) {
	return Edit(text, func(text []byte) ([]byte, error) { return addTable(text, path, "[", "]", pairs) })
}

// AppendTable appends a table to a list of tables.
func AppendTable(text []byte, path []string, pairs ...Pair) ([]byte, error) {
	return Edit(text, func(text []byte) ([]byte, error) { return addTable(text, path, "[[", "]]", pairs) })
}

func addTable(text []byte, path []string, open, end string, pairs []Pair) ([]byte, error) {
	before, err := decode(text)
	if err != nil {
		return nil, err
	}
	there, _ := at(before, path)
	if there != nil && open == "[" {
		return nil, fmt.Errorf("%s: %w", dotted(path), ErrExists)
	}
	s := read(text)
	block := open + dotted(path) + end
	table := make(map[string]any)
	for _, p := range pairs {
		written, err := write(p.Value)
		if err != nil {
			return nil, err
		}
		block += s.eol() + dotted([]string{p.Key}) + " = " + written
		table[p.Key] = p.Value
	}
	var value any = table
	if open == "[[" {
		list, _ := there.([]any)
		value = append(slices.Clone(list), table)
	}
	return verified(s.addBlock(block), with(before, path, value))
}

// Remove removes a key, or a table with its subtables.
func Remove(text []byte, path []string) ([]byte, error) {
	return Edit(text, func(text []byte) ([]byte, error) { return remove(text, path) })
}

func remove(text []byte, path []string) ([]byte, error) {
	before, err := decode(text)
	if err != nil {
		return nil, err
	}
	if _, ok := at(before, path); !ok {
		return nil, fmt.Errorf("%s: %w", dotted(path), ErrNotFound)
	}
	s := read(text)
	edited := s.cut(func(i int) bool { return isBelow(s.lines[i].path, path) })
	after, err := decode(edited)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dotted(path), ErrNotEdited)
	}
	// Tables that existed only through their content are removed with it.
	if !reflect.DeepEqual(pruned(after, path), pruned(without(before, path), path)) {
		return nil, fmt.Errorf("%s: %w", dotted(path), ErrNotEdited)
	}
	return edited, nil
}

// RemoveTable removes the table at an index, from 0, of a list of tables.
func RemoveTable(text []byte, path []string, index int) ([]byte, error) {
	return Edit(text, func(text []byte) ([]byte, error) { return removeTable(text, path, index) })
}

func removeTable(text []byte, path []string, index int) ([]byte, error) {
	before, err := decode(text)
	if err != nil {
		return nil, err
	}
	there, _ := at(before, path)
	list, _ := there.([]any)
	if index < 0 || index >= len(list) {
		return nil, fmt.Errorf("%s[%d]: %w", dotted(path), index, ErrNotFound)
	}
	s, count := read(text), -1
	edited := s.cut(func(i int) bool {
		if s.lines[i].kind == unstable.ArrayTable && slices.Equal(s.lines[i].path, path) {
			count++
		}
		return count == index && isBelow(s.lines[i].path, path)
	})
	want := with(before, path, slices.Delete(slices.Clone(list), index, index+1))
	if len(list) == 1 {
		want = without(before, path)
	}
	after, err := decode(edited)
	if err != nil || !reflect.DeepEqual(pruned(after, path), pruned(want, path)) {
		return nil, fmt.Errorf("%s[%d]: %w", dotted(path), index, ErrNotEdited)
	}
	return edited, nil
}

// cut removes the lines for which meant returns true. A header is removed with all keys of its
// table and the empty line before it.
func (s *source) cut(meant func(i int) bool) []byte {
	var out []byte
	kept := 0
	for i := 0; i < len(s.lines); i++ {
		if !meant(i) {
			continue
		}
		first, last := s.lines[i], s.lines[i]
		if first.kind != unstable.KeyValue {
			for i+1 < len(s.lines) && s.lines[i+1].kind == unstable.KeyValue {
				i++
				last = s.lines[i]
			}
		}
		from := first.from
		if first.kind != unstable.KeyValue {
			from = max(kept, s.withoutBreak(from, true))
		}
		if last.to == len(s.text) && s.text[last.to-1] != '\n' {
			from = max(kept, s.withoutBreak(from, false))
		}
		out = append(out, s.text[kept:from]...)
		kept = last.to
	}
	return append(out, s.text[kept:]...)
}

// withoutBreak returns the position before the line break that precedes at. If empty is set, it
// does so only if that line is empty.
func (s *source) withoutBreak(at int, empty bool) int {
	before, ok := bytes.CutSuffix(s.text[:at], []byte("\n"))
	if !ok {
		return at
	}
	before = bytes.TrimSuffix(before, []byte("\r"))
	if empty && len(before) > 0 && before[len(before)-1] != '\n' {
		return at
	}
	return len(before)
}

func isBelow(path, table []string) bool {
	return len(path) >= len(table) && slices.Equal(path[:len(table)], table)
}

// verified returns an edited text after checking that it has the intended content.
func verified(edited []byte, want map[string]any) ([]byte, error) {
	after, err := decode(edited)
	if err != nil || !reflect.DeepEqual(after, plain(want)) {
		return nil, ErrNotEdited
	}
	return edited, nil
}

// splice replaces a range of a text.
func splice(text []byte, from, to int, with string) []byte {
	out := make([]byte, 0, len(text)-(to-from)+len(with))
	return append(append(append(out, text[:from]...), with...), text[to:]...)
}
