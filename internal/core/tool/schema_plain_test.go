package tool

import (
	"encoding/json"
	"testing"
)

const plainSchema = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object", "additionalProperties": false, "required": ["path"],
  "properties": {
    "path": {"type": "string", "minLength": 1, "maxLength": 3, "description": "a path"},
    "mode": {"type": "string", "enum": ["create", "", "overwrite"], "default": "create"},
    "limit": {"type": "integer", "minimum": 1, "maximum": 10},
    "ratio": {"type": "number"},
    "tags": {"type": "array", "maxItems": 2, "minItems": 1, "items": {"type": "string"}},
    "list": {"type": "array"},
    "all": {"type": "boolean"},
    "any": {},
    "nested": {"type": "object", "required": ["x"], "properties": {"x": {"type": "integer", "maximum": -1}}}
  }
}`

// TestWhatIsPlain: a schema with a keyword that plain does not support is left to the library,
// wherever the keyword is.
func TestWhatIsPlain(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]bool{
		plainSchema:                           true,
		`{"type":"object"}`:                   true,
		personSchema:                          false,
		`{"type":"object","minProperties":1}`: false,
		`{"type":"object","additionalProperties":{"type":"string"}}`:                      false,
		`{"type":"object","properties":{"a":{"type":"string","pattern":"^a"}}}`:           false,
		`{"type":"object","properties":{"a":{"type":["string","null"]}}}`:                 false,
		`{"type":"object","properties":{"a":{"enum":["x"]}}}`:                             false,
		`{"type":"object","properties":{"a":{"type":"string","enum":["x",1]}}}`:           false,
		`{"type":"object","properties":{"a":{"type":"array","items":{"not":{}}}}}`:        false,
		`{"type":"object","properties":{"a":{"type":"integer","exclusiveMinimum":0}}}`:    false,
		`{"type":"object","properties":{"a":{"type":"object","properties":{"b":false}}}}`: false,
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{}}}`:      false,
		`{"type":"object","allOf":[{"required":["a"]}]}`:                                  false,
		`{"type":"object","properties":{"a":{"type":"string"}},"x-kept":true}`:            false,
	} {
		if got := compile(t, schema).plain != nil; got != want {
			t.Errorf("%s is plain: %t, want %t", schema, got, want)
		}
	}
}

// FuzzPlain: plain and the library accept the same values.
func FuzzPlain(f *testing.F) {
	schemas := make([]*Schema, 0, 2)
	for _, text := range []string{plainSchema, `{"type":"object","properties":{"a":{"type":"object","properties":{"path":{"type":"integer"}},"additionalProperties":false}}}`} {
		s, err := CompileSchema(json.RawMessage(text))
		if err != nil || s.plain == nil {
			f.Fatal(err, s)
		}
		schemas = append(schemas, s)
	}
	for _, seed := range []string{
		`{}`, `[]`, `null`, `{"path":"a"}`, `{"path":""}`, `{"path":"äöü","mode":""}`, `{"path":"äöüx"}`, `{"path":"a","mode":"creat"}`, `{"path":null}`,
		`{"path":"a","limit":1.0,"ratio":1.5}`, `{"path":"a","limit":1.5}`, `{"path":"a","limit":11}`, `{"path":"a","tags":[]}`, `{"path":"a","tags":["b",1]}`,
		`{"path":"a","list":[1,null],"all":true,"any":null}`, `{"path":"a","nested":{"x":-1,"y":2}}`, `{"path":"a","nested":{"x":null}}`, `{"a":{"path":1}}`, `{"a":{"b":1}}`, `{"path":"a","more":1}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var value any
		if json.Unmarshal(text, &value) != nil {
			return
		}
		for _, s := range schemas {
			if err := s.validateFully(value); s.plain.fits(value) != (err == nil) {
				t.Errorf("%s fits a plain schema: %t, the library says %v", text, s.plain.fits(value), err)
			}
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	s, err := CompileSchema(json.RawMessage(plainSchema))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Check([]byte(`{"path":"a","mode":"create","limit":3}`)); err != nil {
			b.Fatal(err)
		}
	}
}
