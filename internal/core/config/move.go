package config

import (
	"bytes"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strconv"

	"github.com/pelletier/go-toml/v2/unstable"

	"palyra/internal/core/tomledit"
)

// errNotMoved reports a text in which the moved keys cannot be separated from the rest.
var errNotMoved = errors.New("the secrets cannot be removed from this file without changing the rest of it")

// MoveSecrets returns the text of a configuration without its [[secrets]]. refs maps the
// indexes of models to secrets of the vault, which replace the models' key files. Every other
// byte stays unchanged. The result is parsed and compared with the text: any other change is an
// error.
func MoveSecrets(text []byte, refs map[int]string) ([]byte, error) {
	return tomledit.Edit(text, func(text []byte) ([]byte, error) { return moveSecrets(text, refs) })
}

func moveSecrets(text []byte, refs map[int]string) ([]byte, error) {
	before := make(map[string]any)
	if err := tomledit.Decode(text, &before); err != nil {
		return nil, err
	}
	m := mover{text: text, refs: refs}
	m.find()
	edited := m.edited()
	after := make(map[string]any)
	if tomledit.Decode(edited, &after) != nil || !reflect.DeepEqual(after, moved(before, refs)) {
		return nil, errNotMoved
	}
	return edited, nil
}

// moved returns the intended document after the move.
func moved(doc map[string]any, refs map[int]string) map[string]any {
	doc = maps.Clone(doc)
	delete(doc, "secrets")
	list, _ := doc["models"].([]any)
	list = slices.Clone(list)
	for i, one := range list {
		table, ok := one.(map[string]any)
		if !ok {
			continue
		}
		ref, ok := refs[i]
		if _, has := table["api_key_file"]; !ok || !has {
			continue
		}
		table = maps.Clone(table)
		delete(table, "api_key_file")
		table["api_key_secret"] = ref
		list[i] = table
	}
	if list != nil {
		doc["models"] = list
	}
	return doc
}

// change replaces a range of bytes by a text.
type change struct {
	from, to int
	text     string
}

// mover finds the changes of a text.
type mover struct {
	text    []byte
	refs    map[int]string
	parser  unstable.Parser
	changes []change
	// table is the table that contains the current position; "secrets" is removed completely.
	table string
	// model is the index of the model that contains the current position.
	model int
}

// find searches the expressions of the text.
func (m *mover) find() {
	m.parser.Reset(m.text)
	m.model = -1
	for m.parser.NextExpression() {
		expr := m.parser.Expression()
		path, at := keyOf(expr)
		switch {
		case len(path) == 0: // a comment
		case expr.Kind == unstable.Table || expr.Kind == unstable.ArrayTable:
			m.table = path[0]
			if expr.Kind == unstable.ArrayTable && len(path) == 1 && path[0] == "models" {
				m.model++
			}
			if len(path) > 1 {
				m.table += "." // a table below it
			}
			if path[0] == "secrets" {
				m.table = "secrets"
				m.drop(at, at)
			}
		case m.table == "secrets":
			// Text between the table's header and its last key is removed with it.
			last := &m.changes[len(m.changes)-1]
			last.to = m.lineEnd(end(expr))
		case m.table == "" && path[0] == "secrets":
			m.drop(at, end(expr))
		case m.table == "" && len(path) == 1 && path[0] == "models":
			m.inline(expr.Value())
		case m.table == "models" && len(path) == 1:
			m.key(expr, m.model)
		}
	}
}

// inline searches a list of models that is written as a value.
func (m *mover) inline(list *unstable.Node) {
	if list.Kind != unstable.Array {
		return
	}
	i := -1
	for it := list.Children(); it.Next(); {
		if it.Node().Kind != unstable.Comment {
			i++
		}
		if it.Node().Kind != unstable.InlineTable {
			continue
		}
		for keys := it.Node().Children(); keys.Next(); {
			if keys.Node().Kind == unstable.KeyValue {
				m.key(keys.Node(), i)
			}
		}
	}
}

// key replaces a model's key file by the secret.
func (m *mover) key(expr *unstable.Node, model int) {
	path, at := keyOf(expr)
	value := expr.Value()
	if len(path) != 1 || path[0] != "api_key_file" || value.Kind != unstable.String {
		return
	}
	ref, ok := m.refs[model]
	if !ok {
		return
	}
	keys := expr.Key()
	keys.Next()
	m.changes = append(m.changes,
		change{at, at + int(keys.Node().Raw.Length), "api_key_secret"},
		change{int(value.Raw.Offset), int(value.Raw.Offset + value.Raw.Length), strconv.Quote(ref)})
}

// drop removes whole lines, from the line of byte from to the line of byte to.
func (m *mover) drop(from, to int) {
	from = bytes.LastIndexByte(m.text[:from], '\n') + 1
	m.changes = append(m.changes, change{from: from, to: m.lineEnd(to)})
}

// lineEnd returns the start of the line after a byte.
func (m *mover) lineEnd(at int) int {
	if i := bytes.IndexByte(m.text[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(m.text)
}

func end(expr *unstable.Node) int { return int(expr.Raw.Offset + expr.Raw.Length) }

// keyOf returns the key of an expression, and its position.
func keyOf(expr *unstable.Node) (path []string, at int) {
	if expr.Kind == unstable.Comment {
		return nil, 0
	}
	for it := expr.Key(); it.Next(); {
		if len(path) == 0 {
			at = int(it.Node().Raw.Offset)
		}
		path = append(path, string(it.Node().Data))
	}
	return path, at
}

// edited returns the text with its changes. If a table between two empty lines was removed, it
// keeps only one empty line.
func (m *mover) edited() []byte {
	var out []byte
	at := 0
	for _, c := range m.changes {
		out = append(append(out, m.text[at:c.from]...), c.text...)
		if at = c.to; c.text == "" && (len(out) == 0 || bytes.HasSuffix(out, []byte("\n\n")) || bytes.HasSuffix(out, []byte("\n\r\n"))) {
			for at < len(m.text) && len(bytes.TrimSpace(m.text[at:m.lineEnd(at)])) == 0 {
				at = m.lineEnd(at)
			}
		}
	}
	return append(out, m.text[at:]...)
}
