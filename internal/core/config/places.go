package config

import (
	"fmt"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// placesOf maps the dotted name of every key and table of a valid document to its line and
// column. The library's decoder does not return them, but its parser does. Only this file,
// move.go and package tomledit use that parser, whose package is named unstable.
func placesOf(text []byte) map[string]unstable.Position {
	w := walker{places: make(map[string]unstable.Position), counts: make(map[string]int)}
	w.parser.Reset(text)
	prefix := ""
	for w.parser.NextExpression() {
		expr := w.parser.Expression()
		switch expr.Kind {
		case unstable.Table:
			name, position := w.key(expr)
			prefix = w.resolve(name)
			w.mark(prefix, position)
			prefix += "."
		case unstable.ArrayTable:
			name, position := w.key(expr)
			name = w.resolve(name)
			w.mark(name, position)
			prefix = fmt.Sprintf("%s[%d]", name, w.counts[name])
			w.counts[name]++
			w.mark(prefix, position)
			prefix += "."
		case unstable.KeyValue:
			w.keyValue(prefix, expr)
		}
	}
	return w.places
}

type walker struct {
	parser unstable.Parser
	places map[string]unstable.Position
	// counts holds the number of elements of each list of tables so far.
	counts map[string]int
}

// mark stores the first position of a name.
func (w *walker) mark(name string, position unstable.Position) {
	if _, ok := w.places[name]; !ok {
		w.places[name] = position
	}
}

// key returns the dotted key of an expression and its position.
func (w *walker) key(node *unstable.Node) (string, unstable.Position) {
	var parts []string
	var position unstable.Position
	for it := node.Key(); it.Next(); {
		part := it.Node()
		if len(parts) == 0 {
			position = w.parser.Shape(part.Raw).Start
		}
		parts = append(parts, string(part.Data))
	}
	return strings.Join(parts, "."), position
}

// resolve adds the current index to each list of tables on the path of a header: [workspaces.x]
// after [[workspaces]] belongs to the list's last element.
func (w *walker) resolve(name string) string {
	parts := strings.Split(name, ".")
	out := ""
	for i, part := range parts {
		out += part
		if n := w.counts[out]; n > 0 && i < len(parts)-1 {
			out = fmt.Sprintf("%s[%d]", out, n-1)
		}
		if i < len(parts)-1 {
			out += "."
		}
	}
	return out
}

func (w *walker) keyValue(prefix string, node *unstable.Node) {
	name, position := w.key(node)
	name = prefix + name
	w.mark(name, position)
	w.inside(name, node.Value())
}

// inside marks the keys of inline tables, also within lists.
func (w *walker) inside(name string, value *unstable.Node) {
	switch value.Kind {
	case unstable.InlineTable:
		for it := value.Children(); it.Next(); {
			w.keyValue(name+".", it.Node())
		}
	case unstable.Array:
		i := 0
		for it := value.Children(); it.Next(); {
			if it.Node().Kind == unstable.Comment {
				continue
			}
			w.inside(fmt.Sprintf("%s[%d]", name, i), it.Node())
			i++
		}
	}
}

// WorkspacePaths returns the paths of the declared workspaces.
func (c *Config) WorkspacePaths() []string {
	list := make([]string, len(c.Workspaces))
	for i, w := range c.Workspaces {
		list[i] = w.Path
	}
	return list
}
