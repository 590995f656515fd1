package tool

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

// keySchema declares properties at each kind of position, and also has maps.
const keySchema = `{
	"type": "object",
	"properties": {
		"path": {"type": "string"},
		"key": {"type": "string"},
		"env": {"type": "object", "additionalProperties": {"type": "string"}},
		"list": {"type": "array", "items": {"type": "object", "properties": {"name": {}}}},
		"pair": {"type": "array", "prefixItems": [{"type": "object", "properties": {"left": {}}}]},
		"either": {"anyOf": [{"type": "object", "properties": {"url": {}}}, {"$ref": "#/$defs/host"}, {"type": "string"}]},
		"tree": {"$ref": "#/$defs/tree"},
		"byName": {"type": "object", "patternProperties": {"^x": {"type": "object", "properties": {"deep": {}}}}},
		"anything": {}
	},
	"additionalProperties": {"type": "object", "properties": {"extra": {}}},
	"$defs": {
		"host": {"type": "object", "properties": {"host": {}}},
		"tree": {"type": "object", "properties": {"child": {"$ref": "#/$defs/tree"}, "leaf": {}}}
	}
}`

func TestKeysThatFold(t *testing.T) {
	t.Parallel()
	s := must.Get(CompileSchema(json.RawMessage(keySchema)))(t)
	for input, pointer := range map[string]string{
		`{"Path":{}}`:                             "/Path",
		`{"PATH":{},"path":"a"}`:                  "/PATH",
		"{\"\u212Aey\":{}}":                       "/\u212Aey", // KELVIN SIGN folds to k
		`{"list":[{"name":1},{"Name":2}]}`:        "/list/1/Name",
		`{"pair":[{"Left":1}]}`:                   "/pair/0/Left",
		`{"either":{"URL":1}}`:                    "/either/URL",
		`{"either":{"HOST":1}}`:                   "/either/HOST", // a branch that is never selected
		`{"tree":{"child":{"child":{"Leaf":1}}}}`: "/tree/child/child/Leaf",
		`{"byName":{"x1":{"Deep":1}}}`:            "/byName/x1/Deep",
		`{"other":{"Extra":1}}`:                   "/other/Extra",
		`{"one":{},"One":{}}`:                     "/one", // two that fold alike, next to declared ones
	} {
		_, err := s.Check([]byte(input))
		var refused *reason.Error
		if !errors.As(err, &refused) || refused.Fields["pointer"] != pointer || !strings.Contains(err.Error(), "only in case") {
			t.Errorf("%s: %v, want a refusal at %s", input, err, pointer)
		}
	}
	if err := s.CheckResult([]byte(`{"Path":{},"path":"a"}`)); err != nil {
		t.Errorf("a result: %v", err)
	}
	// Control: keys of maps may fold alike, and the exact name of a property is accepted.
	for _, input := range []string{
		`{"path":"a","key":"b"}`, `{"env":{"PATH":"a","Path":"b","path":"c"}}`, `{"byName":{"x1":{"deep":1},"X1":2,"path":3}}`,
		`{"anything":{"Path":1,"path":2}}`, `{"either":"URL"}`, `{"other":{"extra":1,"Path":2}}`, `{"tree":{"child":{"leaf":1}}}`,
	} {
		if _, err := s.Check([]byte(input)); err != nil {
			t.Errorf("%s: %v", input, err)
		}
	}
}

// TestKeysOfSchemas: a key that could be read as another one is refused, whether the schema
// permits unknown keys or not.
func TestKeysOfSchemas(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{"type":"object","additionalProperties":false,"properties":{"a":{}}}`,
		`{"type":"object"}`,
		`{"type":"object","required":["a"]}`,
		`{"type":"object","properties":{"a":{}}}`,
		`{"type":"object","additionalProperties":false,"properties":{"a":{"type":"array","items":{"type":"object","properties":{"b":{}}}}}}`,
	} {
		s := must.Get(CompileSchema(json.RawMessage(text)))(t)
		if _, err := s.Check([]byte(`{"A":1,"a":[]}`)); (err == nil) != (text == `{"type":"object"}`) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// FuzzKeys: an accepted object has no key that strings.EqualFold treats as equal to another
// property of the object, or to another key.
func FuzzKeys(f *testing.F) {
	s := must.Get(CompileSchema(json.RawMessage(`{"type":"object","properties":{"path":{},"straße":{},"key":{}}}`)))(f)
	for _, name := range []string{"path", "Path", "\u212Aey", "ſtraße", "STRASSE", "straſſe", "other"} {
		f.Add(name, "x")
	}
	f.Fuzz(func(t *testing.T, one, two string) {
		input, err := json.Marshal(map[string]int{one: 1, two: 2})
		if err != nil {
			return
		}
		if _, err := s.Check(input); err != nil {
			return
		}
		var object map[string]int
		must.Do(t, json.Unmarshal(input, &object))
		for name := range object {
			for _, other := range []string{"path", "straße", "key", one, two} {
				if name != other && strings.EqualFold(name, other) {
					if _, there := object[other]; there || other == "path" || other == "straße" || other == "key" {
						t.Errorf("%s passes with %q beside %q", input, name, other)
					}
				}
			}
		}
	})
}
