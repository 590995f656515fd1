package modeltest

import (
	"fmt"
	"regexp"
	"slices"
)

var (
	nameForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	idForm   = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
)

// checker records the first fault of a request.
type checker struct {
	err error
	ids []string
}

func (c *checker) want(ok bool, format string, args ...any) {
	if !ok && c.err == nil {
		c.err = fmt.Errorf(format, args...)
	}
}

// fresh requires an id that no earlier call has.
func (c *checker) fresh(id string) {
	c.want(!slices.Contains(c.ids, id), "tool call ids must be unique: %q", id)
	c.ids = append(c.ids, id)
}

// names requires tools with valid, unique names and a schema.
func (c *checker) names(where string, tools []any, read func(any) (name string, schema any)) {
	seen := make(map[string]bool)
	for i, tool := range tools {
		name, schema := read(tool)
		c.want(nameForm.MatchString(name), "%s.%d.name: string should match pattern '%s'", where, i, nameForm)
		c.want(!seen[name], "%s: tool names must be unique: %q", where, name)
		c.want(text(field(schema, "type")) == "object", "%s.%d: the schema must be of type object", where, i)
		seen[name] = true
	}
}

func field(v any, name string) any {
	object, _ := v.(map[string]any)
	return object[name]
}

func list(v any) []any {
	items, _ := v.([]any)
	return items
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

func number(v any) float64 {
	n, _ := v.(float64)
	return n
}

func without(all []string, one string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s == one })
}
