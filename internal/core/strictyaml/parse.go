// Package strictyaml decodes the YAML files that people write: test cases of policies and
// scripted models. It decodes the tree of go.yaml.in/yaml/v4 itself, because the library drops
// an empty entry of a list and reads `yes` as true and a date as a time. The library also
// compares each key of a mapping with all others. Every error has a line and a column.
package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// Options define the permitted content of a kind of file.
type Options struct {
	// Brackets limits the open brackets.
	Brackets int
	// Indented is the last column, from 1, at which an entry of a list may begin.
	Indented int
	// Plain refuses anchors, aliases, merge keys, tags and directives.
	Plain bool
}

// Error is a defect of a file, with its position counted from 1.
type Error struct {
	Line, Column int
	Message      string
}

func (e *Error) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Message)
}

func at(n *yaml.Node, format string, args ...any) error {
	return &Error{Line: max(n.Line, 1), Column: max(n.Column, 1), Message: fmt.Sprintf(format, args...)}
}

// ErrDocuments is returned for a file with more than one document.
var ErrDocuments = errors.New("it holds more than one YAML document")

const notPlain = "%q: a test file has no anchors, aliases, tags or directives"

// Parse returns the value of the only document of text, or nil if it has no document.
func Parse(text []byte, o Options) (*yaml.Node, error) {
	if !utf8.Valid(text) {
		return nil, &Error{Line: 1, Column: 1, Message: "the file is not UTF-8"}
	}
	if o.Plain {
		if err := noDirectives(text); err != nil {
			return nil, err
		}
	}
	loader, err := yaml.NewLoader(bytes.NewReader(text), yaml.WithPlugin(bounds(o)))
	if err != nil {
		return nil, fmt.Errorf("preparing to read YAML: %w", err)
	}
	var first, second yaml.Node
	if err := loader.Load(&first); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, placed(err, text, o)
	}
	if err := loader.Load(&second); err == nil {
		return nil, ErrDocuments
	} else if !errors.Is(err, io.EOF) {
		return nil, placed(err, text, o)
	}
	root := &first
	if root.Kind == yaml.DocumentNode {
		if len(root.Content) != 1 {
			return nil, nil
		}
		root = root.Content[0]
	}
	return root, o.check(root)
}

// noDirectives searches the text for directives, which the tree omits.
func noDirectives(text []byte) error {
	line, before := 1, '\n'
	for _, r := range strings.TrimPrefix(string(text), "\ufeff") {
		if r == '%' && strings.ContainsRune("\n\r\u0085\u2028\u2029", before) {
			return &Error{Line: line, Column: 1, Message: fmt.Sprintf(notPlain, "%")}
		}
		if r == '\n' {
			line++
		}
		before = r
	}
	return nil
}

// bounds limits the nesting depth that the library accepts.
type bounds Options

func (b bounds) CheckDepth(depth int, in *yaml.DepthContext) error {
	limit := 10_000 // a block is as deep as its columns, which are checked afterwards
	if in.Kind == yaml.DepthKindFlow {
		limit = b.Brackets
	}
	if depth > limit {
		return fmt.Errorf("the file is nested deeper than %d levels", limit)
	}
	return nil
}

// CheckAlias refuses every expansion by the library: it only parses trees, and Decode follows
// aliases itself.
func (bounds) CheckAlias(aliases, _ int) error {
	if aliases > 0 {
		return errors.New("the library follows an alias")
	}
	return nil
}

// placed converts an error of the library to an Error with a position.
func placed(err error, text []byte, o Options) error {
	var known *yaml.LoadError
	if !errors.As(err, &known) {
		return &Error{Line: 1, Column: 1, Message: err.Error()}
	}
	mark, message := known.Mark, known.Message
	if o.Plain && strings.HasPrefix(message, "unknown anchor") {
		message = fmt.Sprintf(notPlain, "*")
	} else if known.ContextMsg != "" {
		message = known.ContextMsg + ": " + message
		mark = known.ContextMark
	}
	if mark.Line == 0 {
		mark = known.Mark
	}
	if mark.Line > bytes.Count(bytes.TrimRight(text, "\n"), []byte("\n"))+1 {
		if line, column, found := openBracket(text); found {
			return &Error{Line: line, Column: column, Message: message}
		}
	}
	return &Error{Line: max(mark.Line, 1), Column: max(mark.Column, 1), Message: message}
}

// check refuses content that this kind of file does not permit.
func (o Options) check(n *yaml.Node) error {
	for i, c := range n.Content {
		if n.Kind == yaml.SequenceNode && n.Style&yaml.FlowStyle == 0 && n.Column > o.Indented {
			return at(n, "the file is nested deeper than %d columns", o.Indented)
		}
		if n.Kind == yaml.MappingNode && i%2 == 0 && o.Plain && isMerge(c) {
			return at(c, notPlain, c.Value)
		}
		if err := o.check(c); err != nil {
			return err
		}
	}
	if o.Plain && (n.Kind == yaml.AliasNode || n.Anchor != "" || n.Tag == "!" || n.Style&yaml.TaggedStyle != 0) {
		return at(n, notPlain, n.Value)
	}
	return nil
}

func isMerge(key *yaml.Node) bool {
	const quoted = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	return key.Kind == yaml.ScalarNode && key.Value == "<<" && key.Style&quoted == 0
}

// At returns the node at a path such as $.a[0].b, or nil.
func At(root *yaml.Node, path string) *yaml.Node {
	n := root
	for _, part := range strings.FieldsFunc(strings.TrimPrefix(path, "$"), func(r rune) bool { return strings.ContainsRune(".[]", r) }) {
		if n = member(n, part); n == nil {
			return nil
		}
	}
	return n
}
