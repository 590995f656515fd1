package tool

import (
	"encoding/json"
	"testing"
)

// BenchmarkCheck checks the input of a builtin tool.
func BenchmarkCheck(b *testing.B) {
	s, err := CompileSchema(json.RawMessage(`{
  "type": "object", "additionalProperties": false, "required": ["path"],
  "properties": {
    "path": {"type": "string", "minLength": 1, "maxLength": 3, "description": "a path"},
    "mode": {"type": "string", "enum": ["create", "", "overwrite"], "default": "create"},
    "limit": {"type": "integer", "minimum": 1, "maximum": 10},
    "tags": {"type": "array", "maxItems": 2, "minItems": 1, "items": {"type": "string"}}
  }
}`))
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
