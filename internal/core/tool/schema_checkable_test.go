package tool

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

// foreign compiles the schema of a server's tool, and returns the keywords that are not
// checked.
func foreign(t *testing.T, schema string) (*Schema, string) {
	t.Helper()
	d := Descriptor{Name: "s/t", Executor: MCPUpstream, InputSchema: json.RawMessage(schema)}
	_, unchecked, err := Checkable(d.InputSchema)
	must.Do(t, err)
	lines := make([]string, len(unchecked))
	for i, u := range unchecked {
		lines[i] = u.Keyword + u.Pointer
	}
	return must.Get(d.CompileInput())(t), strings.Join(lines, " ")
}

// TestCheckable: no keyword of a server's schema loses its tool. A keyword that cannot be
// checked here is listed; every other one still refuses inputs.
func TestCheckable(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		schema    string
		unchecked string
		// takes and refuses are lists of inputs, separated by "; ".
		takes, refuses string
	}{
		"annotations": {
			`{"type":"object","title":5,"deprecated":"yes","examples":{},"description":["x"],"$comment":1,"properties":{"n":{"type":"integer","default":"none","readOnly":0}}}`,
			"", `{"n":1}`, `{"n":"x"}`,
		},
		"a default of another type":       {`{"type":"object","properties":{"a":{"type":"string","default":null}},"required":["a"]}`, "", `{"a":"x"}`, `{"a":1}; {}`},
		"a pattern with look-ahead":       {`{"type":"object","properties":{"a":{"type":"string","pattern":"^(?!x)","maxLength":3}}}`, "pattern/properties/a", `{"a":"x"}`, `{"a":"long text"}; {"a":1}`},
		"a pattern with a back-reference": {`{"type":"object","properties":{"a":{"pattern":"(a)\\1"},"b":{"pattern":"^b$"}}}`, "pattern/properties/a", `{"a":"z","b":"b"}`, `{"b":"c"}`},
		"names by look-ahead": {
			`{"type":"object","patternProperties":{"^(?=a)":{"type":"string"},"^b":{"type":"integer"}},"additionalProperties":false}`,
			"patternProperties additionalProperties", `{"abc":"x","b":1}; {"zzz":1}`, `{"b":"x"}`,
		},
		"recursion with anyOf": {
			`{"type":"object","properties":{"f":{"$ref":"#/$defs/F"}},"$defs":{"F":{"anyOf":[{"type":"object","properties":{"and":{"type":"array","items":{"$ref":"#/$defs/F"}}},"required":["and"],"additionalProperties":false},{"type":"object","properties":{"eq":{"type":"string"}},"required":["eq"],"additionalProperties":false}]}}}`,
			"", `{"f":{"and":[{"eq":"x"},{"and":[]}]}}`, `{"f":{"and":[{"eq":1}]}}; {"f":{"or":[]}}`,
		},
		"a reference with percent-encoding": {
			`{"type":"object","properties":{"p":{"$ref":"#/$defs/Page%5Bint%5D"}},"$defs":{"Page[int]":{"type":"integer"}}}`, "", `{"p":1}`, `{"p":"x"}`,
		},
		"a reference without it": {`{"type":"object","properties":{"p":{"$ref":"#/$defs/Page[int]"}},"$defs":{"Page[int]":{"type":"integer"}}}`, "", `{"p":1}`, `{"p":"x"}`},
		"an anchor":              {`{"type":"object","properties":{"p":{"$ref":"#node"}},"$defs":{"n":{"$anchor":"node","type":"integer"}}}`, "", `{"p":1}`, `{"p":"x"}`},
		"both tables":            {`{"type":"object","properties":{"p":{"$ref":"#/definitions/a"},"q":{"$ref":"#/$defs/a"}},"$defs":{"a":{"type":"integer"}},"definitions":{"a":{"type":"string"}}}`, "", `{"p":"x","q":1}`, `{"p":1}; {"q":"x"}`},
		"a table of its own":     {`{"type":"object","properties":{"p":{"$ref":"#/components/a"}},"components":{"a":{"type":"integer"}}}`, "", `{"p":1}`, `{"p":"x"}`},
		"the schema's own id":    {`{"$id":"https://example.com/s","type":"object","properties":{"p":{"$ref":"https://example.com/s#/$defs/a"}},"$defs":{"a":{"type":"integer"}}}`, "", `{"p":1}`, `{"p":"x"}`},
		"another document":       {`{"type":"object","properties":{"p":{"$ref":"https://example.com/s","maxLength":2}}}`, "$ref/properties/p", `{"p":1}`, `{"p":"long"}`},
		"below an id":            {`{"type":"object","properties":{"p":{"$id":"https://example.com/o","items":{"$ref":"#/$defs/a"},"type":"array"}},"$defs":{"a":{"type":"integer"}}}`, "$ref/properties/p/items", `{"p":["x"]}`, `{"p":1}`},
		"a dynamic reference":    {`{"type":"object","properties":{"p":{"$dynamicRef":"#x","type":"string"}}}`, "$dynamicRef/properties/p", `{"p":"x"}`, `{"p":1}`},
		"a reference to nowhere": {`{"type":"object","properties":{"p":{"$ref":"#/$defs/none"}},"required":["p"]}`, "$ref/properties/p", `{"p":1}`, `{}`},
		"a reference to itself":  {`{"type":"object","properties":{"p":{"$ref":"#/$defs/a"}},"$defs":{"a":{"$ref":"#/$defs/a","type":"string"}}}`, "$ref/$defs/a", `{"p":"x"}`, `{"p":1}`},
		"properties like keywords": {
			`{"type":"object","properties":{"not":{"type":"string"},"contains":{"type":"string"},"if":{"type":"object","properties":{"if":{"$ref":"#"}}},"$ref":{"type":"string"},"$id":{"type":"string"},"$defs":{"type":"integer"},"pattern":{"const":{"$ref":"https://example.com"}}}}`,
			"", `{"not":"a","contains":"b","if":{"if":{"not":"x"}},"$ref":"x","$id":"x","$defs":1}`, `{"not":1}; {"$ref":1}; {"if":{"if":{"not":1}}}; {"$defs":"x"}; {"pattern":"x"}`,
		},
		"below not":                {`{"type":"object","properties":{"a":{"not":{"pattern":"(?!x)"},"type":"string"}}}`, "pattern/properties/a/not not/properties/a", `{"a":"x"}`, `{"a":1}`},
		"below not by a reference": {`{"type":"object","not":{"$ref":"#/$defs/a"},"$defs":{"a":{"properties":{"p":{"pattern":"(?!x)"}}}}}`, "pattern/$defs/a/properties/p not", `{"p":"x"}`, `[]`},
		"below if": {
			`{"type":"object","if":{"properties":{"k":{"pattern":"(?!x)"}}},"then":{"required":["a"]},"else":{"required":["b"]}}`,
			"pattern/if/properties/k if", `{"a":1}; {"b":1}`, `{}`,
		},
		"one of oneOf": {`{"type":"object","properties":{"a":{"oneOf":[{"type":"string","pattern":"(?!x)"},{"type":"string","pattern":"^x"},{"type":"null"}]}}}`, "pattern/properties/a/oneOf/0 oneOf/properties/a", `{"a":"x"}; {"a":null}`, `{"a":1}`},
		"contains":     {`{"type":"object","properties":{"a":{"contains":{"type":"string","pattern":"(?!x)"},"maxContains":1}}}`, "pattern/properties/a/contains maxContains/properties/a", `{"a":["x","y"]}`, `{"a":[1]}`},
		"unevaluated":  {`{"type":"object","$ref":"https://example.com","properties":{"a":{"type":"string"}},"unevaluatedProperties":false}`, "$ref unevaluatedProperties", `{"a":"x","b":1}`, `{"a":1}`},
		"another form": {
			`{"type":"object","required":"a","properties":{"a":{"type":"text","minLength":"2","enum":{},"maxLength":2},"b":{"type":["string","any"]},"c":7,"d":{"multipleOf":0}},"dependentRequired":[],"allOf":{}}`,
			"allOf dependentRequired enum/properties/a minLength/properties/a type/properties/a type/properties/b the schema/properties/c multipleOf/properties/d required", `{"a":"x","b":1,"c":2,"d":3}`, `{"a":"xyz"}`,
		},
		"tuples of draft-07 in 2020-12": {`{"type":"object","properties":{"a":{"type":"array","items":[{"type":"string"}]}}}`, "items/properties/a", `{"a":[1]}`, `{"a":1}`},
		"tuples of draft-07":            {`{"$schema":"http://json-schema.org/draft-07/schema","type":"object","properties":{"a":{"items":[{"type":"string"}]}},"dependencies":{"a":["b"]}}`, "", `{"a":["x"],"b":1}`, `{"a":[1],"b":1}; {"a":["x"]}`},
		"draft-04":                      {`{"$schema":"http://json-schema.org/draft-04/schema#","id":"x","type":"object","properties":{"a":{"minimum":1,"exclusiveMinimum":true}}}`, "exclusiveMinimum/properties/a", `{"a":1}`, `{"a":0}`},
		"no type":                       {`{"properties":{"a":{"type":"string"}}}`, "", `{"a":"x"}`, `{"a":1}`},
		"several types":                 {`{"type":["object","null"],"required":["a"]}`, "", `{"a":"x"}`, `{}`},
		"false":                         {`{"type":"object","properties":{"a":false,"b":true}}`, "", `{"b":1}`, `{"a":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, unchecked := foreign(t, c.schema)
			if unchecked != c.unchecked {
				t.Errorf("not checked: %q, want %q", unchecked, c.unchecked)
			}
			for input := range strings.SplitSeq(c.takes, "; ") {
				if _, err := s.Check([]byte(input)); err != nil {
					t.Errorf("%s: %v", input, err)
				}
			}
			for input := range strings.SplitSeq(c.refuses, "; ") {
				_, err := s.Check([]byte(input))
				if reason.Of(err) != reason.InvalidInput {
					t.Errorf("%s: %v, want a refusal", input, err)
				}
				plainWords(t, err)
			}
		})
	}
}

// plainWords fails if a message contains Go's representation of a value.
func plainWords(t *testing.T, err error) {
	t.Helper()
	for _, word := range []string{"map[", "0x", "<nil>", "anonymous schema", "reflect", "json:", "Go ", "jsonschema", "%!"} {
		if err != nil && strings.Contains(err.Error(), word) {
			t.Errorf("the message has %q: %v", word, err)
		}
	}
}

// TestCheckableRefuses: a schema that does not describe an object is refused, in plain words.
func TestCheckableRefuses(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{`{"type":"array"}`, `{"type":7}`, `[]`, `true`, `{`, `"x"`, `null`} {
		_, _, err := Checkable(json.RawMessage(schema))
		if reason.Of(err) != reason.InvalidInput {
			t.Errorf("%s: %v", schema, err)
		}
		plainWords(t, err)
	}
}

// TestKeysBelowUnchecked: a key that differs from a property only in case is refused even below
// an unchecked keyword.
func TestKeysBelowUnchecked(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{
		`{"type":"object","if":{"properties":{"k":{"pattern":"(?!x)"}}},"then":{"properties":{"path":{}}}}`,
		`{"type":"object","not":{"properties":{"path":{"pattern":"(?!x)"}}}}`,
		`{"type":"object","$ref":"#a","$defs":{"a":{"$anchor":"a","properties":{"path":{}}}}}`,
	} {
		s, _ := foreign(t, schema)
		if _, err := s.Check([]byte(`{"Path":"x"}`)); reason.Of(err) != reason.InvalidInput {
			t.Errorf("%s: %v", schema, err)
		}
	}
}

// TestStepsAreBounded: an input that would need 2^60 steps to check is refused at once, also in
// the check of its keys. Control: the same input with less depth.
func TestStepsAreBounded(t *testing.T) {
	t.Parallel()
	nested := func(depth int) []byte {
		return []byte(strings.Repeat(`{"a":`, depth) + `{"b":1}` + strings.Repeat(`}`, depth))
	}
	var laughs strings.Builder
	for i := range 12 {
		ref := fmt.Sprintf(`{"$ref":"#/$defs/d%d"}`, i+1)
		fmt.Fprintf(&laughs, `"d%d":{"allOf":[%s,%s,%s,%s]},`, i, ref, ref, ref, ref)
	}
	for name, schema := range map[string]string{
		"anyOf": `{"type":"object","anyOf":[{"properties":{"a":{"$ref":"#"},"b":{"type":"string"}}},{"properties":{"a":{"$ref":"#"},"b":{"type":"string"}}}]}`,
		"allOf": `{"type":"object","allOf":[{"properties":{"a":{"$ref":"#"}}},{"properties":{"a":{"$ref":"#"}}}]}`,
		"not":   `{"type":"object","not":{"properties":{"a":{"$ref":"#"}},"required":["a","c"]},"properties":{"a":{"$ref":"#"}}}`,
	} {
		s, unchecked := foreign(t, schema)
		if unchecked != "" {
			t.Errorf("%s: not checked: %s", name, unchecked)
		}
		_, err := s.Check(nested(60))
		if reason.Of(err) != reason.InputTooLarge {
			t.Errorf("%s: %v", name, err)
		}
		plainWords(t, err)
		if _, err := s.Check(nested(3)); reason.Of(err) == reason.InputTooLarge {
			t.Errorf("%s, nested 3 deep: %v", name, err)
		}
	}
	s, _ := foreign(t, `{"type":"object","properties":{"a":{"$ref":"#/$defs/d0"}},"$defs":{`+laughs.String()+`"d12":{"type":"string"}}}`)
	if _, err := s.Check([]byte(`{"a":"x"}`)); reason.Of(err) != reason.InputTooLarge {
		t.Errorf("references that multiply: %v", err)
	}
}

// FuzzCheckable: any schema of an object compiles, and accepts at least the inputs that the
// complete schema accepts, if that compiles.
func FuzzCheckable(f *testing.F) {
	for _, schema := range []string{
		`{"type":"object","oneOf":[{"required":["a"]},{"properties":{"a":{"pattern":"(?!x)"}}}]}`,
		`{"type":"object","not":{"$ref":"#/$defs/a"},"$defs":{"a":{"required":["b"],"pattern":"(?!"}}}`,
		`{"type":"object","if":{"required":["a"]},"then":{"$ref":"#"},"else":{"minProperties":1}}`,
	} {
		f.Add(schema, `{"a":1}`)
	}
	f.Fuzz(func(t *testing.T, schema, input string) {
		if _, _, err := Checkable(json.RawMessage(schema)); err != nil || len(schema) > 4<<10 {
			return
		}
		s, err := Descriptor{Executor: MCPUpstream, InputSchema: json.RawMessage(schema)}.CompileInput()
		if err != nil {
			t.Fatalf("%s: %v", schema, err)
		}
		whole, err := CompileSchema(json.RawMessage(schema))
		if err != nil {
			return
		}
		if _, err := whole.Check([]byte(input)); err != nil {
			return
		}
		if _, err := s.Check([]byte(input)); err != nil {
			t.Errorf("%s refuses %s: %v", schema, input, err)
		}
	})
}
