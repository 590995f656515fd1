package tool

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"palyra/internal/core/canonical"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

const personSchema = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "additionalProperties": false,
  "required": ["path"],
  "properties": {
    "path": {"type": "string", "minLength": 1, "maxLength": 8, "pattern": "^[a-z/]*$"},
    "mode": {"type": "string", "enum": ["create", "overwrite"]},
    "limit": {"type": "integer", "minimum": 1, "maximum": 10},
    "ratio": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    "tags": {"type": "array", "maxItems": 2, "minItems": 1, "items": {"type": "string"}},
    "env": {"type": "object", "additionalProperties": {"type": "string"}, "propertyNames": {"pattern": "^[A-Z]+$"}, "maxProperties": 2},
    "nested": {"type": "object", "additionalProperties": false, "properties": {"a/b": {"type": "boolean"}}},
    "either": {"anyOf": [{"type": "string"}, {"type": "null"}]}
  }
}`

func compile(t *testing.T, text string) *Schema {
	t.Helper()
	return must.Get(CompileSchema(json.RawMessage(text)))(t)
}

func TestCheckRefusesWithPointerAndReason(t *testing.T) {
	t.Parallel()
	s := compile(t, personSchema)
	deep := strings.Repeat("[", canonical.MaxDepth+2) + strings.Repeat("]", canonical.MaxDepth+2)
	tests := []struct {
		name, input string
		code        reason.Code
		pointer     string
		says        string
	}{
		{"unknown property", `{"path":"a","mdoe":"create"}`, reason.InvalidInput, "/mdoe", `did you mean "mode"?`},
		{"unknown property, nothing near", `{"path":"a","zzzzzz":1}`, reason.InvalidInput, "/zzzzzz", "known are"},
		{"missing", `{}`, reason.InvalidInput, "", `property "path" is missing`},
		{"nothing at all", ``, reason.InvalidInput, "", `property "path" is missing`},
		{"type", `{"path":7}`, reason.InvalidInput, "/path", "want string, got integer"},
		{"null", `{"path":null}`, reason.InvalidInput, "/path", "want string, got null"},
		{"top level type", `[]`, reason.InvalidInput, "", "want object, got array"},
		{"enum", `{"path":"a","mode":"creat"}`, reason.InvalidInput, "/mode", "is not one of"},
		{"minimum", `{"path":"a","limit":0}`, reason.InvalidInput, "/limit", "less than 1"},
		{"maximum", `{"path":"a","limit":11}`, reason.InvalidInput, "/limit", "greater than 10"},
		{"not an integer", `{"path":"a","limit":1.5}`, reason.InvalidInput, "/limit", "want integer, got number"},
		{"exclusive", `{"path":"a","ratio":1}`, reason.InvalidInput, "/ratio", "not less than 1"},
		{"too long", `{"path":"aaaaaaaaa"}`, reason.InvalidInput, "/path", "has 9 characters"},
		{"too short", `{"path":""}`, reason.InvalidInput, "/path", "at least 1"},
		{"pattern", `{"path":"A"}`, reason.InvalidInput, "/path", "pattern"},
		{"items", `{"path":"a","tags":["x",2]}`, reason.InvalidInput, "/tags/1", "want string, got integer"},
		{"too many items", `{"path":"a","tags":["x","y","z"]}`, reason.InvalidInput, "/tags", "has 3 items"},
		{"map value", `{"path":"a","env":{"A":1}}`, reason.InvalidInput, "/env/A", "want string"},
		{"map name", `{"path":"a","env":{"a":"1"}}`, reason.InvalidInput, "/env/a", "name"},
		{"nested pointer is escaped", `{"path":"a","nested":{"a/b":1}}`, reason.InvalidInput, "/nested/a~1b", "want boolean"},
		{"a keyword explain does not know", `{"path":"a","either":3}`, reason.InvalidInput, "", "anyOf"},
		{"duplicate key", `{"path":"a","path":"b"}`, reason.DuplicateKey, "", "duplicate"},
		{"number", `{"path":"a","limit":9007199254740993}`, reason.NumberNotExact, "", "/limit"},
		{"infinite", `{"path":"a","limit":1e400}`, reason.NumberNotExact, "", "double"},
		{"invalid UTF-8", "{\"path\":\"\xff\"}", reason.InvalidUTF8, "", "UTF-8"},
		{"lone surrogate", `{"path":"\ud800"}`, reason.InvalidUTF8, "", "surrogate"},
		{"NUL", `{"path":"\u0000"}`, reason.InvalidUTF8, "", "NUL"},
		{"too large", `{"path":"` + strings.Repeat("a", canonical.MaxSize) + `"}`, reason.InputTooLarge, "", "larger"},
		{"too deep", deep, reason.InputTooDeep, "", "deeper"},
		{"syntax", `{"path":}`, reason.InvalidInput, "", "JSON"},
		{"two values", `{"path":"a"}{}`, reason.InvalidInput, "", "after the value"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := s.Check([]byte(test.input))
			var refused *reason.Error
			if !errors.As(err, &refused) {
				t.Fatalf("accepted, or not a reason: %v", err)
			}
			if refused.Code != test.code {
				t.Errorf("code %s, want %s (%v)", refused.Code, test.code, err)
			}
			if got := refused.Fields["pointer"]; got != test.pointer {
				t.Errorf("pointer %q, want %q (%v)", got, test.pointer, err)
			}
			if !strings.Contains(refused.Message, test.says) {
				t.Errorf("message %q does not say %q", refused.Message, test.says)
			}
			if len(refused.Message) > 600 {
				t.Errorf("message has %d bytes", len(refused.Message))
			}
		})
	}
}

func TestCheckReturnsCanonicalBytes(t *testing.T) {
	t.Parallel()
	s := compile(t, personSchema)
	got := must.Get(s.Check([]byte(" { \"tags\":[\"\\u0061\"], \"path\" : \"a\", \"limit\": 1e0, \"either\": null } ")))(t)
	if want := `{"either":null,"limit":1,"path":"a","tags":["a"]}`; string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestCheckIsDeterministic(t *testing.T) {
	t.Parallel()
	s := compile(t, personSchema)
	input := []byte(`{"b":1,"a":2,"mode":"x","limit":99}`)
	_, first := s.Check(input)
	for range 20 {
		if _, err := s.Check(input); err.Error() != first.Error() {
			t.Fatalf("%v, then %v", first, err)
		}
	}
}

func TestCompileSchemaRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"not JSON":               `{`,
		"not an object schema":   `{"type":"string"}`,
		"no type":                `{}`,
		"boolean":                `true`,
		"remote reference":       `{"type":"object","properties":{"a":{"$ref":"https://example.org/x.json"}}}`,
		"file reference":         `{"type":"object","properties":{"a":{"$ref":"file:///etc/passwd"}}}`,
		"dangling reference":     `{"type":"object","properties":{"a":{"$ref":"#/$defs/none"}}}`,
		"dynamic reference":      `{"type":"object","properties":{"a":{"$dynamicRef":"#x"}}}`,
		"id below the top":       `{"type":"object","properties":{"a":{"$id":"https://example.org/y","type":"string"}}}`,
		"root refers to itself":  `{"type":"object","$ref":"#"}`,
		"cycle through allOf":    `{"type":"object","allOf":[{"$ref":"#"}]}`,
		"cycle of two":           `{"type":"object","properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"$ref":"#/$defs/y"},"y":{"anyOf":[{"$ref":"#/$defs/x"}]}}}`,
		"cycle under a keyword":  `{"type":"object","properties":{"enum":{"$ref":"#/properties/enum"}}}`,
		"bad pattern":            `{"type":"object","properties":{"a":{"pattern":"("}}}`,
		"default does not match": `{"type":"object","properties":{"a":{"type":"integer","default":"x"}}}`,
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := CompileSchema(json.RawMessage(text)); reason.Of(err) != reason.InvalidInput {
				t.Errorf("got %v", err)
			}
		})
	}
	large := `{"type":"object","description":"` + strings.Repeat("a", canonical.MaxSize) + `"}`
	if _, err := CompileSchema(json.RawMessage(large)); reason.Of(err) != reason.InputTooLarge {
		t.Errorf("large schema: %v", err)
	}
}

// TestEncodedReferences: a reference is decoded as the validator decodes it, so that a decoy
// with the encoded name cannot hide a cycle. Control: an encoded, harmless reference.
func TestEncodedReferences(t *testing.T) {
	t.Parallel()
	_, err := CompileSchema(json.RawMessage(`{"type":"object","$defs":{"a%62":{},"ab":{"$ref":"#/$defs/a%62"}},"properties":{"x":{"$ref":"#/$defs/ab","default":1}}}`))
	if err == nil || !strings.Contains(err.Error(), "leads back to itself") {
		t.Errorf("a cycle behind a decoy: %v", err)
	}
	s := compile(t, `{"type":"object","$defs":{"Page[int]":{"type":"object","properties":{"size":{"type":"integer"}}}},"properties":{"page":{"$ref":"#/$defs/Page%5Bint%5D"}}}`)
	if _, err := s.Check([]byte(`{"page":{"size":1}}`)); err != nil {
		t.Error(err)
	}
	for _, input := range []string{`{"page":{"size":"x"}}`, `{"page":{"Size":1}}`} {
		if _, err := s.Check([]byte(input)); err == nil {
			t.Errorf("%s is accepted", input)
		}
	}
	if _, err := CompileSchema(json.RawMessage(`{"type":"object","properties":{"x":{"$ref":"#/%zz"}}}`)); err == nil {
		t.Error("a reference that cannot be decoded is accepted")
	}
}

func TestRecursiveDataIsAllowed(t *testing.T) {
	t.Parallel()
	// The reference descends into the value at each step, so it ends with the value.
	s := compile(t, `{"type":"object","properties":{"child":{"$ref":"#"},"n":{"type":"integer"}},"additionalProperties":false}`)
	if _, err := s.Check([]byte(`{"child":{"child":{"n":1}}}`)); err != nil {
		t.Error(err)
	}
	if _, err := s.Check([]byte(`{"child":{"child":{"m":1}}}`)); reason.Of(err) != reason.InvalidInput {
		t.Errorf("got %v", err)
	}
}

func FuzzCheck(f *testing.F) {
	s := must.Get(CompileSchema(json.RawMessage(personSchema)))(f)
	f.Add([]byte(`{"path":"a"}`))
	f.Add([]byte(`{"path":"a","env":{"A":"b"},"tags":["x"]}`))
	f.Add([]byte(`{"either":[[[]]]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := s.Check(raw)
		if err != nil {
			if reason.Of(err) == reason.Internal {
				t.Fatalf("no reason: %v", err)
			}
			return
		}
		again, err := s.Check(got)
		if err != nil || string(again) != string(got) {
			t.Fatalf("%s is accepted, its canonical form %s is not the same: %s, %v", raw, got, again, err)
		}
	})
}
