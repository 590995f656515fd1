package jsonc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Step is one step of a path: the key of a member, or the index of an element.
type Step struct {
	key   string
	index int
}

// Key returns the step to a member.
func Key(name string) Step { return Step{key: name, index: -1} }

// Index returns the step to an element, from 0.
func Index(i int) Step { return Step{index: i} }

// End returns the step to a new element after the last one; only Insert accepts it.
func End() Step { return Step{index: behind} }

// behind is the index of End.
const behind = -2

func (s Step) isKey() bool { return s.index == -1 }

// Path leads from the root to a value.
type Path []Step

// Keys returns the path of these keys.
func Keys(names ...string) Path {
	p := make(Path, len(names))
	for i, n := range names {
		p[i] = Key(n)
	}
	return p
}

// With returns the path with further steps.
func (p Path) With(steps ...Step) Path { return append(p[:len(p):len(p)], steps...) }

// String returns the path for display: setup.PreToolUse[0].
func (p Path) String() string {
	var b strings.Builder
	for _, s := range p {
		switch {
		case s.isKey() && b.Len() > 0:
			b.WriteString("." + s.key)
		case s.isKey():
			b.WriteString(s.key)
		case s.index == behind:
			b.WriteString("[]")
		default:
			fmt.Fprintf(&b, "[%d]", s.index)
		}
	}
	return b.String()
}

// Errors of edits.
var (
	ErrNotFound = errors.New("the name does not exist")
	ErrExists   = errors.New("the name already exists")
	// ErrOtherKind is returned for a path through a value of the wrong kind.
	ErrOtherKind = errors.New("a value on the path has the wrong kind")
)

// child returns the member or element at a step, or nil.
func (n *node) child(s Step) *node {
	if s.isKey() {
		for _, c := range n.children {
			if c.key == s.key {
				return c
			}
		}
		return nil
	}
	if s.index >= 0 && s.index < len(n.children) {
		return n.children[s.index]
	}
	return nil
}

// holds reports whether a value can contain the target of a step.
func (n *node) holds(s Step) bool {
	return s.isKey() && n.kind == '{' || !s.isKey() && n.kind == '['
}

// walk follows a path as far as it exists: it returns the last existing value and the number of
// steps to it.
func (d *document) walk(path Path) (at *node, steps int, err error) {
	at = d.root
	for i, s := range path {
		if !at.holds(s) {
			return nil, i, fmt.Errorf("%s: %w", path[:i], ErrOtherKind)
		}
		next := at.child(s)
		if next == nil {
			return at, i, nil
		}
		at = next
	}
	return at, len(path), nil
}

// find returns the value at a path, with its container.
func (d *document) find(path Path) (parent, n *node, err error) {
	n, steps, err := d.walk(path)
	if err != nil {
		return nil, nil, err
	}
	if steps < len(path) {
		return nil, nil, fmt.Errorf("%s: %w", path, ErrNotFound)
	}
	if steps > 0 {
		parent, _, _ = d.walk(path[:len(path)-1])
	}
	return parent, n, nil
}

// Raw returns the text of the value at a path, or nil if the path does not exist.
func Raw(text []byte, path Path) ([]byte, error) {
	d, _, err := parse(text)
	if err != nil {
		return nil, err
	}
	_, n, err := d.find(path)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return bytes.Clone(text[n.start:n.end]), nil
}

// Replace replaces the value at a path.
func Replace(text []byte, path Path, value any) ([]byte, error) {
	d, _, err := parse(text)
	if err != nil {
		return nil, err
	}
	_, n, err := d.find(path)
	if err != nil {
		return nil, err
	}
	written, err := d.style().write(value, d.lineIndent(n.from))
	if err != nil {
		return nil, err
	}
	return splice(text, n.start, n.end, written), nil
}

// Insert adds a value at a path that does not exist, as the last value of its container. Missing
// objects and lists on the path are created; created is the path of the first new value, and removing
// it restores the previous text.
func Insert(text []byte, path Path, value any) (edited []byte, created Path, err error) {
	d, _, err := parse(text)
	if err != nil {
		return nil, nil, err
	}
	parent, steps, err := d.walk(path)
	if err != nil {
		return nil, nil, err
	}
	if steps == len(path) {
		return nil, nil, fmt.Errorf("%s: %w", path, ErrExists)
	}
	for i := len(path) - 1; i > steps; i-- {
		if path[i].isKey() {
			value = map[string]any{path[i].key: value}
		} else {
			value = []any{value}
		}
	}
	step := path[steps]
	if !step.isKey() && step.index != behind && step.index != len(parent.children) {
		return nil, nil, fmt.Errorf("%s: %w", path[:steps+1], ErrNotFound)
	}
	created = path[:steps:steps].With(step)
	if !step.isKey() {
		created[steps] = Index(len(parent.children))
	}
	edited, err = d.insert(parent, step, value)
	return edited, created, err
}

// insert adds a value after the last one of a container.
func (d *document) insert(parent *node, step Step, value any) ([]byte, error) {
	s := d.style()
	closing := d.lineIndent(parent.start)
	before, indent := d.separator(parent, s)
	written, err := s.write(value, indent)
	if err != nil {
		return nil, err
	}
	if step.isKey() {
		key, err := encode(step.key, "", "")
		if err != nil {
			return nil, err
		}
		written = bytes.Join([][]byte{key, written}, []byte(s.colon))
	}
	if len(parent.children) == 0 {
		at, comment := d.lastComment(parent.start+1, parent.end-1)
		after := ""
		if before != "" && !comment {
			after = s.eol + closing
		}
		return splice(d.text, at, at, concat(before, written, after)), nil
	}
	last := parent.children[len(parent.children)-1]
	if last.comma >= 0 {
		at, _ := d.sameLine(last.comma+1, parent.end-1)
		return splice(d.text, at, at, concat(before, written, ",")), nil
	}
	at, _ := d.sameLine(last.end, parent.end-1)
	edited := splice(d.text, at, at, concat(before, written, ""))
	return splice(edited, last.end, last.end, []byte(",")), nil
}

// separator returns the text before a new child of a container, and the indentation of that child.
func (d *document) separator(parent *node, s style) (before, indent string) {
	deeper := d.lineIndent(parent.start) + s.unit
	if len(parent.children) == 0 {
		_, comment := d.lastComment(parent.start+1, parent.end-1)
		if s.oneLine && !comment {
			return "", ""
		}
		return s.eol + deeper, deeper
	}
	last := parent.children[len(parent.children)-1]
	from := max(last.end, last.comma+1)
	_, comment := d.sameLine(from, parent.end-1)
	space := d.text[d.spaceBefore(last.from):last.from]
	if i := bytes.LastIndexByte(space, '\n'); i >= 0 {
		return s.eol + string(space[i+1:]), string(space[i+1:])
	}
	if comment {
		return s.eol + deeper, deeper
	}
	if len(parent.children) == 1 && bytes.HasSuffix([]byte(s.colon), []byte(" ")) {
		return " ", d.lineIndent(parent.start)
	}
	if len(parent.children) == 1 {
		return "", ""
	}
	return string(space), d.lineIndent(parent.start)
}

// Remove removes the value at a path, with the comma that becomes superfluous.
func Remove(text []byte, path Path) ([]byte, error) {
	d, _, err := parse(text)
	if err != nil {
		return nil, err
	}
	parent, n, err := d.find(path)
	if err != nil {
		return nil, err
	}
	if parent == nil {
		return nil, fmt.Errorf("%w: the root cannot be removed", ErrNotFound)
	}
	from, comment := d.gapBefore(parent, n)
	to := n.end
	if n.comma >= 0 {
		to = n.comma + 1
	}
	if s := d.style(); len(parent.children) == 1 && !comment {
		closing := s.eol + d.lineIndent(parent.start)
		if from < n.from && bytes.HasPrefix(text[to:], []byte(closing)) {
			to += len(closing)
		}
	}
	if comment && !startsLine(text[to:]) {
		from = n.from // the following text would become part of the comment
	}
	edited := splice(text, from, to, nil)
	if last := parent.children[len(parent.children)-1]; n == last && n.comma < 0 && len(parent.children) > 1 {
		before := parent.children[len(parent.children)-2]
		edited = splice(edited, before.comma, before.comma+1, nil)
	}
	return edited, nil
}

// startsLine reports whether a text has a line break after its first blanks.
func startsLine(text []byte) bool {
	text = bytes.TrimLeft(text, " \t")
	return len(text) == 0 || text[0] == '\n' || text[0] == '\r'
}

// spaceBefore returns where the whitespace before a byte begins.
func (d *document) spaceBefore(at int) int {
	for at > 0 && isSpace(d.text[at-1]) {
		at--
	}
	return at
}

// comments calls do with the range of each comment in a range of trivia. line is true for a
// comment that extends to the end of its line.
func (d *document) comments(from, to int, do func(from, to int, line bool)) {
	for at := from; at < to; {
		if d.text[at] != '/' {
			at++ // whitespace, or the comma
			continue
		}
		line, end := d.text[at+1] == '/', to
		if i := bytes.IndexAny(d.text[at:to], "\r\n"); line && i >= 0 {
			end = at + i
		} else if !line {
			end = at + 2 + bytes.Index(d.text[at+2:to], []byte("*/")) + 2
		}
		do(at, end, line)
		at = end
	}
}

// lastComment returns the end of the last comment in a range of trivia, or the start of the
// range. line is true if the comment extends to the end of its line.
func (d *document) lastComment(from, to int) (at int, line bool) {
	at = from
	d.comments(from, to, func(_, end int, isLine bool) { at, line = end, isLine })
	return at, line
}

// sameLine returns the end of the last comment on the line in which a range of trivia begins.
func (d *document) sameLine(from, to int) (at int, line bool) {
	at = from
	d.comments(from, to, func(start, end int, isLine bool) {
		if !bytes.ContainsAny(d.text[at:start], "\r\n") && !line {
			at, line = end, isLine
		}
	})
	return at, line
}

// gapBefore returns where the whitespace before a child begins; comment is true if a line comment
// precedes it.
func (d *document) gapBefore(parent, n *node) (at int, comment bool) {
	from := parent.start + 1
	for _, c := range parent.children {
		if c.from < n.from {
			from = c.comma + 1
		}
	}
	end, line := d.lastComment(from, n.from)
	at = max(end, d.spaceBefore(n.from))
	return at, line && end == at
}

// lineIndent returns the indentation of a byte's line.
func (d *document) lineIndent(at int) string {
	line := d.text[bytes.LastIndexByte(d.text[:at], '\n')+1 : at]
	line = bytes.TrimPrefix(line, byteOrderMark)
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

// style is the formatting of a document.
type style struct {
	eol, unit, colon string
	// oneLine is true if the document has no line breaks between its values.
	oneLine bool
}

func (d *document) style() style {
	s := style{eol: "\n", unit: "  ", colon: ": "}
	if i := bytes.IndexByte(d.text, '\n'); i > 0 && d.text[i-1] == '\r' {
		s.eol = "\r\n"
	}
	if len(d.root.children) == 0 {
		return s
	}
	first := d.root.children[0]
	s.oneLine = !bytes.Contains(d.text[d.root.start:d.root.end], []byte("\n"))
	if indent := d.lineIndent(first.from); !s.oneLine && indent != "" && strings.TrimLeft(string(d.text[:first.from]), " \t") != "" && len(indent) > len(d.lineIndent(d.root.start)) {
		s.unit = strings.TrimPrefix(indent, d.lineIndent(d.root.start))
	}
	if d.root.kind == '{' && s.oneLine && d.text[first.start-1] == ':' {
		s.colon = ":"
	}
	return s
}

// write formats a value in the style of the document.
func (s style) write(value any, indent string) ([]byte, error) {
	if s.oneLine {
		return encode(value, "", "")
	}
	text, err := encode(value, indent, s.unit)
	return bytes.ReplaceAll(text, []byte("\n"), []byte(s.eol)), err
}

// encode writes a value as JSON, without HTML escapes. A json.RawMessage is written unchanged if
// there is no indentation.
func encode(value any, prefix, indent string) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if indent != "" {
		e.SetIndent(prefix, indent)
	}
	if err := e.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

func concat(before string, text []byte, after string) []byte {
	return append(append([]byte(before), text...), after...)
}

// splice replaces a range with a text.
func splice(text []byte, from, to int, with []byte) []byte {
	out := make([]byte, 0, len(text)-(to-from)+len(with))
	return append(append(append(out, text[:from]...), with...), text[to:]...)
}
