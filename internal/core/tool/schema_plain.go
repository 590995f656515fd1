package tool

import (
	"math"
	"reflect"
	"slices"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
)

// plain is a schema that has only the most common keywords. It accepts a valid value with
// little work, as most values are valid. The library checks the values that it does not accept,
// and explains their defects.
type plain struct {
	// kind is a type of JSON Schema, or "" if every value is valid.
	kind string
	enum []string
	// shortest and longest limit a text in characters and a list in items. longest is -1 without a
	// limit.
	shortest, longest int
	least, most       float64
	items             *plain
	fields            map[string]*plain
	required          []string
	// closed is set if only the fields are permitted.
	closed bool
}

// draft2020 is the default version of JSON Schema in the library.
const draft2020 = "https://json-schema.org/draft/2020-12/schema"

// plainOf returns nil for a schema with any other keyword.
func plainOf(s *jsonschema.Schema) *plain {
	rest := *s
	rest.Comment, rest.Title, rest.Description, rest.Default, rest.Examples = "", "", "", nil, nil
	rest.Deprecated, rest.ReadOnly, rest.WriteOnly, rest.PropertyOrder = false, false, false, nil
	p := &plain{kind: s.Type, longest: -1, least: math.Inf(-1), most: math.Inf(1)}
	known := true
	switch rest.Type = ""; s.Type {
	case "object":
		known = p.object(s)
		rest.Properties, rest.Required, rest.AdditionalProperties = nil, nil, nil
	case "array":
		known = p.array(s)
		rest.Items, rest.MinItems, rest.MaxItems = nil, nil, nil
	case "string":
		known = p.text(s)
		rest.Enum, rest.MinLength, rest.MaxLength = nil, nil, nil
	case "integer", "number":
		p.least, p.most = valueOr(s.Minimum, p.least), valueOr(s.Maximum, p.most)
		rest.Minimum, rest.Maximum = nil, nil
	case "boolean", "":
	default:
		return nil
	}
	if !known || !reflect.ValueOf(rest).IsZero() {
		return nil
	}
	return p
}

func (p *plain) object(s *jsonschema.Schema) (known bool) {
	p.required, p.fields = s.Required, make(map[string]*plain, len(s.Properties))
	for name, property := range s.Properties {
		if p.fields[name] = plainOf(property); p.fields[name] == nil {
			return false
		}
	}
	p.closed = s.AdditionalProperties != nil
	return !p.closed || reflect.DeepEqual(s.AdditionalProperties, &jsonschema.Schema{Not: &jsonschema.Schema{}}) // false
}

func (p *plain) array(s *jsonschema.Schema) (known bool) {
	p.shortest, p.longest = valueOr(s.MinItems, 0), valueOr(s.MaxItems, -1)
	if s.Items == nil {
		return true
	}
	p.items = plainOf(s.Items)
	return p.items != nil
}

func (p *plain) text(s *jsonschema.Schema) (known bool) {
	p.shortest, p.longest = valueOr(s.MinLength, 0), valueOr(s.MaxLength, -1)
	for _, v := range s.Enum {
		text, ok := v.(string)
		if !ok {
			return false
		}
		p.enum = append(p.enum, text)
	}
	return s.Enum == nil || len(p.enum) > 0
}

func valueOr[T any](v *T, otherwise T) T {
	if v == nil {
		return otherwise
	}
	return *v
}

// fits reports whether a value, as decoded by encoding/json, is valid.
func (p *plain) fits(value any) bool {
	if p.kind == "" {
		return true
	}
	switch v := value.(type) {
	case map[string]any:
		return p.kind == "object" && p.fitsObject(v)
	case []any:
		return p.kind == "array" && p.within(len(v)) && (p.items == nil || !slices.ContainsFunc(v, func(item any) bool { return !p.items.fits(item) }))
	case string:
		return p.kind == "string" && p.within(utf8.RuneCountInString(v)) && (p.enum == nil || slices.Contains(p.enum, v))
	case float64:
		return (p.kind == "number" || p.kind == "integer" && v == math.Trunc(v)) && p.least <= v && v <= p.most
	case bool:
		return p.kind == "boolean"
	default:
		return false
	}
}

func (p *plain) within(n int) bool { return n >= p.shortest && (p.longest < 0 || n <= p.longest) }

func (p *plain) fitsObject(object map[string]any) bool {
	for _, name := range p.required {
		if _, there := object[name]; !there {
			return false
		}
	}
	for name, value := range object {
		field := p.fields[name]
		if field == nil && p.closed || field != nil && !field.fits(value) {
			return false
		}
	}
	return true
}

// refusesUnknown reports whether every object of the schema refuses keys that it does not
// declare, or declares none.
func (p *plain) refusesUnknown() bool {
	if p.items != nil && !p.items.refusesUnknown() || !p.closed && len(p.fields)+len(p.required) > 0 {
		return false
	}
	for _, field := range p.fields {
		if !field.refusesUnknown() {
			return false
		}
	}
	return true
}
