// Package jsonc parses JSON with comments and trailing commas, the format of agents' and
// editors' settings, and edits it in place. An edit inserts, replaces or removes one member or
// element, and leaves every other byte unchanged. Removing an inserted value restores the
// previous text.
package jsonc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Error is a syntax error and its position.
type Error struct {
	// Line and Column count from 1; a column is a byte.
	Line, Column int
	Message      string
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("%d:%d: %s", e.Line, e.Column, e.Message) }

// maxDepth bounds the nesting of values.
const maxDepth = 200

// node is a value and its position.
type node struct {
	// kind is the first byte of the value: '{', '[', '"', or another for the rest.
	kind byte
	// start and end are the range of the value; from is the start of the member or element, which
	// is its key in an object.
	from, start, end int
	key              string
	children         []*node
	// comma is the position of the comma after it, -1 for none.
	comma int
}

// document is a text with its root value.
type document struct {
	text []byte
	root *node
}

type parser struct {
	text []byte
	at   int
	// plain is the text as plain JSON: comments and trailing commas are replaced by spaces.
	plain []byte
}

var byteOrderMark = []byte("\xef\xbb\xbf")

func parse(text []byte) (*document, []byte, error) {
	p := &parser{text: text, plain: bytes.Clone(text)}
	if bytes.HasPrefix(text, byteOrderMark) {
		p.blank(0, len(byteOrderMark))
		p.at = len(byteOrderMark)
	}
	if at := invalidUTF8(text); at >= 0 {
		return nil, nil, p.wrong(at, "the text is not valid UTF-8")
	}
	root, err := p.value(0)
	if err != nil {
		return nil, nil, err
	}
	if err := p.trivia(); err != nil {
		return nil, nil, err
	}
	if p.at < len(text) {
		return nil, nil, p.wrong(p.at, "unexpected data after the end")
	}
	root.from, root.comma = root.start, -1
	return &document{text: text, root: root}, p.plain, nil
}

func invalidUTF8(text []byte) int {
	for at := 0; at < len(text); {
		r, n := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && n == 1 {
			return at
		}
		at += n
	}
	return -1
}

// wrong returns an error at a byte.
func (p *parser) wrong(at int, format string, args ...any) error {
	before := p.text[:at]
	return &Error{
		Line: bytes.Count(before, []byte("\n")) + 1, Column: at - bytes.LastIndexByte(before, '\n'),
		Message: fmt.Sprintf(format, args...),
	}
}

// blank replaces a range of the plain text with spaces, but keeps its line breaks.
func (p *parser) blank(from, to int) {
	for i := from; i < to; i++ {
		if p.plain[i] != '\n' && p.plain[i] != '\r' {
			p.plain[i] = ' '
		}
	}
}

// trivia skips whitespace and comments.
func (p *parser) trivia() error {
	for p.at < len(p.text) {
		rest := p.text[p.at:]
		switch {
		case isSpace(rest[0]):
			p.at++
		case bytes.HasPrefix(rest, []byte("//")):
			end := bytes.IndexAny(rest, "\r\n")
			if end < 0 {
				end = len(rest)
			}
			p.blank(p.at, p.at+end)
			p.at += end
		case bytes.HasPrefix(rest, []byte("/*")):
			end := bytes.Index(rest[2:], []byte("*/"))
			if end < 0 {
				return p.wrong(p.at, "the comment is not terminated")
			}
			p.blank(p.at, p.at+end+4)
			p.at += end + 4
		default:
			return nil
		}
	}
	return nil
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// value parses a value after its trivia.
func (p *parser) value(depth int) (*node, error) {
	if err := p.trivia(); err != nil {
		return nil, err
	}
	if p.at == len(p.text) {
		return nil, p.wrong(p.at, "a value is missing")
	}
	if depth > maxDepth {
		return nil, p.wrong(p.at, "values are nested more than %d deep", maxDepth)
	}
	n := &node{kind: p.text[p.at], from: p.at, start: p.at, comma: -1}
	switch n.kind {
	case '{', '[':
		return n, p.container(n, depth)
	case '"':
		_, err := p.str()
		n.end = p.at
		return n, err
	}
	for p.at < len(p.text) && !isSpace(p.text[p.at]) && !strings.ContainsRune(",:]}[{\"/", rune(p.text[p.at])) {
		p.at++
	}
	if n.end = p.at; !json.Valid(p.text[n.start:n.end]) {
		return nil, p.wrong(n.start, "this is not a value")
	}
	return n, nil
}

// container parses the content of an object or a list.
func (p *parser) container(n *node, depth int) error {
	object := n.kind == '{'
	end, keys := byte(']'), map[string]bool{}
	if object {
		end = '}'
	}
	p.at++
	for {
		if err := p.trivia(); err != nil {
			return err
		}
		if p.at < len(p.text) && p.text[p.at] == end {
			if last := len(n.children) - 1; last >= 0 && n.children[last].comma >= 0 {
				p.plain[n.children[last].comma] = ' '
			}
			p.at++
			n.end = p.at
			return nil
		}
		if last := len(n.children) - 1; last >= 0 && n.children[last].comma < 0 {
			return p.wrong(p.at, "a comma or %q is missing", end)
		}
		child, err := p.child(object, keys, depth)
		if err != nil {
			return err
		}
		n.children = append(n.children, child)
		if err := p.trivia(); err != nil {
			return err
		}
		if p.at < len(p.text) && p.text[p.at] == ',' {
			child.comma = p.at
			p.at++
		}
	}
}

// child parses a member or an element.
func (p *parser) child(object bool, keys map[string]bool, depth int) (*node, error) {
	if !object {
		return p.value(depth + 1)
	}
	from := p.at
	if from == len(p.text) || p.text[from] != '"' {
		return nil, p.wrong(from, "a key in quotes is missing")
	}
	key, err := p.str()
	if err != nil {
		return nil, err
	}
	if keys[key] {
		return nil, p.wrong(from, "the key %q is duplicated", key)
	}
	keys[key] = true
	if err := p.trivia(); err != nil {
		return nil, err
	}
	if p.at == len(p.text) || p.text[p.at] != ':' {
		return nil, p.wrong(p.at, "a colon is missing")
	}
	p.at++
	n, err := p.value(depth + 1)
	if err != nil {
		return nil, err
	}
	n.from, n.key = from, key
	return n, nil
}

// str parses a string.
func (p *parser) str() (string, error) {
	from := p.at
	for p.at++; p.at < len(p.text); p.at++ {
		switch c := p.text[p.at]; {
		case c == '\\':
			p.at++
		case c == '"':
			p.at++
			var s string
			if err := json.Unmarshal(p.text[from:p.at], &s); err != nil {
				return "", p.wrong(from, "the string is not valid JSON")
			}
			return s, nil
		case c < ' ':
			return "", p.wrong(p.at, "the string is not valid JSON")
		}
	}
	p.at = len(p.text)
	return "", p.wrong(from, "the string is not terminated")
}

// Decode decodes a text into v, as encoding/json does with plain JSON.
func Decode(text []byte, v any) error {
	_, plain, err := parse(text)
	if err != nil {
		return err
	}
	return json.Unmarshal(plain, v)
}
