package args

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/call/policy/internal/schema"
	"palyra/internal/core/tool"
)

// Opaque is a position in a tool's input that policies can read only as text or, if Path ends
// in "/*", only through context.args_rest.
type Opaque struct {
	Tool string `json:"tool"`
	// Path is a JSON Pointer (RFC 6901) into the arguments.
	Path string `json:"path"`
	Why  string `json:"why"`
}

// String returns "tool /path: why".
func (o Opaque) String() string { return fmt.Sprintf("%s %s: %s", o.Tool, o.Path, o.Why) }

// jsonSchema is the part of a JSON Schema that typing reads.
type jsonSchema struct {
	Type        json.RawMessage            `json:"type"`
	Enum        []json.RawMessage          `json:"enum"`
	Const       json.RawMessage            `json:"const"`
	Properties  map[string]json.RawMessage `json:"properties"`
	Required    []string                   `json:"required"`
	Additional  json.RawMessage            `json:"additionalProperties"`
	Unevaluated json.RawMessage            `json:"unevaluatedProperties"`
	Pattern     json.RawMessage            `json:"patternProperties"`
	Items       json.RawMessage            `json:"items"`
	PrefixItems json.RawMessage            `json:"prefixItems"`
}

// maxArgDepth bounds nested objects; deeper objects are opaque.
const maxArgDepth = 16

// argTyper types the input of one tool and collects the positions that it cannot type.
type argTyper struct {
	tool   string
	opaque []Opaque
}

// TypeOf returns the Cedar form of a tool's input. The input of a tool is always a record;
// constructs outside the table of typed constructs are opaque and listed.
func TypeOf(d tool.Descriptor) (*Type, []Opaque, error) {
	var s jsonSchema
	if len(d.InputSchema) == 0 {
		d.InputSchema = json.RawMessage(`{"type":"object"}`)
	}
	text, err := d.CheckedSchema() // an unchecked input has no type
	if err != nil {
		return nil, nil, err
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, nil, fmt.Errorf("input schema of tool %s: %w", d.Name, err)
	}
	t := &argTyper{tool: d.Name}
	return t.record(s, "", 0), t.opaque, nil
}

func (t *argTyper) note(path, why string) *Type {
	t.opaque = append(t.opaque, Opaque{Tool: t.tool, Path: path, Why: why})
	return &Type{Kind: KindOpaque}
}

func (t *argTyper) record(s jsonSchema, path string, depth int) *Type {
	out := &Type{Kind: KindRecord, Fields: make(map[string]Field, len(s.Properties))}
	names := make([]string, 0, len(s.Properties))
	for name := range s.Properties {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		at := path + "/" + pointerToken(name)
		if !attributeName(name) {
			t.note(at, "the name cannot be a Cedar attribute; see args_rest")
			continue
		}
		out.Fields[name] = Field{
			Typ:      t.typeOf(s.Properties[name], at, depth+1),
			Required: slices.Contains(s.Required, name),
		}
	}
	if s.open() {
		t.note(path+"/*", "the schema allows properties that it does not declare; see args_rest")
	}
	return out
}

// open reports whether an object may hold properties that are not declared.
func (s jsonSchema) open() bool {
	closed := string(s.Additional) == "false" || string(s.Unevaluated) == "false"
	return !closed || len(s.Pattern) > 0
}

func (t *argTyper) typeOf(text json.RawMessage, path string, depth int) *Type {
	var s jsonSchema
	if err := json.Unmarshal(text, &s); err != nil {
		return t.note(path, "the schema is not an object")
	}
	switch s.jsonType() {
	case "string":
		return &Type{Kind: KindString, Choices: s.choices()}
	case "integer":
		return &Type{Kind: KindLong}
	case "boolean":
		return &Type{Kind: KindBool}
	case "array":
		return t.set(s, path)
	case "object":
		return t.object(s, path, depth)
	case "number":
		return t.note(path, "Cedar has no fractions of free size")
	case "":
		return t.note(path, "the schema names no single type")
	default:
		return t.note(path, "the type has no Cedar form")
	}
}

func (t *argTyper) object(s jsonSchema, path string, depth int) *Type {
	switch {
	case depth >= maxArgDepth:
		return t.note(path, "the objects are nested too deeply")
	case len(s.Properties) == 0 && s.open():
		return t.note(path, "the object declares no properties")
	}
	return t.record(s, path, depth)
}

func (t *argTyper) set(s jsonSchema, path string) *Type {
	if len(s.PrefixItems) > 0 {
		return t.note(path, "a tuple has no Cedar form")
	}
	var items jsonSchema
	if len(s.Items) == 0 || json.Unmarshal(s.Items, &items) != nil {
		return t.note(path, "the array does not declare its items")
	}
	kind, ok := scalarKinds[items.jsonType()]
	if !ok {
		return t.note(path, "the items are not all strings, all integers or all booleans")
	}
	return &Type{Kind: KindSet, elem: &Type{Kind: kind}}
}

var scalarKinds = map[string]Kind{"string": KindString, "integer": KindLong, "boolean": KindBool}

// jsonType returns the single JSON type of all values of the schema, or "": the type keyword,
// else the type implied by enum or const.
func (s jsonSchema) jsonType() string {
	if len(s.Type) > 0 {
		var one string
		if json.Unmarshal(s.Type, &one) == nil {
			return one
		}
		var list []string
		if json.Unmarshal(s.Type, &list) == nil && len(list) == 1 {
			return list[0]
		}
		return ""
	}
	values := s.Enum
	if len(s.Const) > 0 {
		values = append(slices.Clone(values), s.Const)
	}
	if len(values) == 0 {
		return ""
	}
	first := literalType(values[0])
	for _, v := range values[1:] {
		if literalType(v) != first {
			return ""
		}
	}
	return first
}

func literalType(v json.RawMessage) string {
	text := strings.TrimSpace(string(v))
	switch {
	case text == "true" || text == "false":
		return "boolean"
	case strings.HasPrefix(text, `"`):
		return "string"
	case text != "" && strings.Trim(text, "-0123456789") == "":
		return "integer"
	default:
		return ""
	}
}

// choices returns the texts of an enumeration.
func (s jsonSchema) choices() []string {
	var out []string
	for _, v := range s.Enum {
		var text string
		if json.Unmarshal(v, &text) == nil {
			out = append(out, text)
		}
	}
	return out
}

// attributeName rejects names that Cedar's JSON form reserves.
func attributeName(name string) bool { return !strings.HasPrefix(name, "__") }

// schemaType returns the type that the Cedar schema declares for t.
func (t *Type) schemaType() schema.Type {
	switch t.Kind {
	case KindLong:
		return schema.Long{}
	case KindBool:
		return schema.Bool{}
	case KindSet:
		return schema.Set{Element: t.elem.schemaType()}
	case KindRecord:
		return t.SchemaRecord()
	default:
		return schema.String{}
	}
}

// SchemaRecord is the record in the schema that holds the arguments.
func (t *Type) SchemaRecord() schema.Record {
	out := make(schema.Record, len(t.Fields))
	for name, f := range t.Fields {
		out[cedarString(name)] = schema.Attribute{Type: f.Typ.schemaType(), Optional: !f.Required}
	}
	return out
}

func cedarString[T ~string](s T) types.String { return types.String(s) }
