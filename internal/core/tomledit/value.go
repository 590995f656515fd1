package tomledit

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// at returns the value at a path.
func at(doc any, path []string) (any, bool) {
	for _, key := range path {
		table, ok := doc.(map[string]any)
		if !ok {
			return nil, false
		}
		if doc, ok = table[key]; !ok {
			return nil, false
		}
	}
	return doc, true
}

// with returns a copy of a document with the value at a path.
func with(doc map[string]any, path []string, value any) map[string]any {
	doc = maps.Clone(doc)
	if doc == nil {
		doc = make(map[string]any)
	}
	if len(path) == 1 {
		doc[path[0]] = value
		return doc
	}
	below, _ := doc[path[0]].(map[string]any)
	doc[path[0]] = with(below, path[1:], value)
	return doc
}

// without returns a copy of a document without the path.
func without(doc map[string]any, path []string) map[string]any {
	doc = maps.Clone(doc)
	if len(path) == 1 {
		delete(doc, path[0])
		return doc
	}
	if below, ok := doc[path[0]].(map[string]any); ok {
		doc[path[0]] = without(below, path[1:])
	}
	return doc
}

// pruned returns a copy of a document without the empty tables on a path.
func pruned(doc map[string]any, path []string) map[string]any {
	doc = maps.Clone(doc)
	below, ok := doc[path[0]].(map[string]any)
	if !ok {
		return doc
	}
	if len(path) > 1 {
		below = pruned(below, path[1:])
		doc[path[0]] = below
	}
	if len(below) == 0 {
		delete(doc, path[0])
	}
	return doc
}

// plain converts a value to the types of the decoder.
func plain(value any) any {
	v := reflect.ValueOf(value)
	switch v.Kind() {
	case reflect.Int:
		return v.Int()
	case reflect.Slice:
		list := make([]any, v.Len())
		for i := range list {
			list[i] = plain(v.Index(i).Interface())
		}
		return list
	case reflect.Map:
		table := make(map[string]any, v.Len())
		for _, key := range v.MapKeys() {
			table[key.String()] = plain(v.MapIndex(key).Interface())
		}
		return table
	}
	return value
}

// write returns a value as TOML, in one line.
func write(value any) (string, error) {
	switch v := plain(value).(type) {
	case string:
		if !utf8.ValidString(v) {
			return "", fmt.Errorf("%q is not UTF-8", v)
		}
		return quoted(v), nil
	case bool:
		return strconv.FormatBool(v), nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case []any:
		parts := make([]string, len(v))
		for i, one := range v {
			text, err := write(one)
			if err != nil {
				return "", err
			}
			parts[i] = text
		}
		return "[" + strings.Join(parts, ", ") + "]", nil
	case map[string]any:
		parts := make([]string, 0, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			text, err := write(v[key])
			if err != nil {
				return "", err
			}
			parts = append(parts, dotted([]string{key})+" = "+text)
		}
		if len(parts) == 0 {
			return "{}", nil
		}
		return "{ " + strings.Join(parts, ", ") + " }", nil
	}
	return "", fmt.Errorf("a value of type %T cannot be written", value)
}

// dotted returns a path as a dotted key.
func dotted(path []string) string {
	parts := make([]string, len(path))
	for i, key := range path {
		parts[i] = key
		if key == "" || !bare(key) {
			parts[i] = quoted(key)
		}
	}
	return strings.Join(parts, ".")
}

func bare(key string) bool {
	return !strings.ContainsFunc(key, func(r rune) bool {
		return (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_' && r != '-'
	})
}

// quoted returns a TOML basic string.
func quoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteString(`\` + string(r))
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
