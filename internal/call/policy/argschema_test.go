package policy

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"palyra/internal/call/policy/internal/args"
	"palyra/internal/call/policy/internal/vocabulary"
	"palyra/internal/core/must"
	"palyra/internal/core/tool"
)

// typed is one construct of JSON Schema, as a property p of a tool's input. It has the Cedar
// type in the generated schema, a value, the value in Cedar, and whether the place is reported
// as opaque.
var typed = []struct {
	name, schema, cedar, value, want string
	opaque                           bool
}{
	{"string", `{"type":"string"}`, `String`, `"a\nb"`, `"a\nb"`, false},
	{"string with format", `{"type":"string","format":"uri","minLength":1}`, `String`, `"x"`, `"x"`, false},
	{"integer", `{"type":"integer"}`, `Long`, `-7`, `-7`, false},
	{"integer with fraction", `{"type":"integer"}`, `Long`, `7.0`, `7`, false},
	{"integer with exponent", `{"type":"integer"}`, `Long`, `1e3`, `1000`, false},
	{"boolean", `{"type":"boolean"}`, `Bool`, `true`, `true`, false},
	{"enum of strings", `{"enum":["a","b"]}`, `String`, `"a"`, `"a"`, false},
	{"enum of integers", `{"enum":[1,2]}`, `Long`, `2`, `2`, false},
	{"const", `{"const":true}`, `Bool`, `true`, `true`, false},
	{"array of strings", `{"type":"array","items":{"type":"string"}}`, `Set<String>`, `["a","a"]`, `["a"]`, false},
	{"array of integers", `{"type":"array","items":{"type":"integer"}}`, `Set<Long>`, `[1]`, `[1]`, false},
	{"array of an enum", `{"type":"array","items":{"enum":["a"]}}`, `Set<String>`, `["a"]`, `["a"]`, false},
	{"nested object", `{"type":"object","additionalProperties":false,"required":["x"],"properties":{"x":{"type":"integer"},"y":{"type":"string"}}}`,
		"{x: Long, y?: String,}", `{"x":1}`, `{"x":1}`, false},
	{"one type in a list", `{"type":["string"]}`, `String`, `"x"`, `"x"`, false},
	{"number", `{"type":"number"}`, `String`, `1.50`, `"1.5"`, true},
	{"null or string", `{"type":["string","null"]}`, `String`, `null`, `"null"`, true},
	{"mixed enum", `{"enum":["a",1]}`, `String`, `"a"`, `"\"a\""`, true},
	{"no type", `{}`, `String`, `{"b":1,"a":2}`, `"{\"a\":2,\"b\":1}"`, true},
	{"boolean schema", `true`, `String`, `1`, `"1"`, true},
	{"reference", `{"$ref":"#/$defs/x"}`, `String`, `1`, `"1"`, true},
	{"anyOf", `{"anyOf":[{"type":"string"},{"type":"integer"}]}`, `String`, `1`, `"1"`, true},
	{"tuple", `{"type":"array","prefixItems":[{"type":"string"}]}`, `String`, `["x"]`, `"[\"x\"]"`, true},
	{"array of objects", `{"type":"array","items":{"type":"object"}}`, `String`, `[{}]`, `"[{}]"`, true},
	{"array of anything", `{"type":"array"}`, `String`, `[1,"a"]`, `"[1,\"a\"]"`, true},
	{"free object", `{"type":"object","additionalProperties":{"type":"string"}}`, `String`, `{"k":"v"}`, `"{\"k\":\"v\"}"`, true},
}

// squeeze drops white space and trailing commas.
func squeeze(s string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(s), ""), ",}", "}")
}

func oneProperty(schema string, rest string) tool.Descriptor {
	return tool.Descriptor{Name: "t", InputSchema: json.RawMessage(
		`{"type":"object","additionalProperties":false,"properties":{"p":` + schema + `}` + rest + `}`)}
}

func TestArgumentsAreTyped(t *testing.T) {
	t.Parallel()
	for _, c := range typed {
		t.Run(c.name, func(t *testing.T) {
			d := oneProperty(c.schema, "")
			declared, opaque, err := args.TypeOf(d)
			must.Do(t, err)
			if (len(opaque) == 1 && opaque[0].Path == "/p") != c.opaque {
				t.Errorf("opaque %v, want %v", opaque, c.opaque)
			}
			vocab := must.Get(vocabulary.Build(factTypes(), []tool.Descriptor{d}, allRoles(nil), nil))(t)
			if want := "args: {p?: " + c.cedar + ",}"; !strings.Contains(squeeze(string(vocab.Text)), squeeze(want)) {
				t.Errorf("the schema does not have %q", want)
			}
			record, rest, _, err := args.Values(declared, []byte(`{"p":`+c.value+`}`))
			if err != nil || rest != "" {
				t.Fatalf("%v, rest %q", err, rest)
			}
			if v, _ := record.Get("p"); string(v.MarshalCedar()) != c.want {
				t.Errorf("value %s, want %s", v.MarshalCedar(), c.want)
			}
			if empty, _, _, err := args.Values(declared, nil); err != nil || empty.Len() != 0 {
				t.Errorf("without the optional property: %v, %v", empty, err)
			}
		})
	}
}

func TestRequiredIsRequired(t *testing.T) {
	t.Parallel()
	vocab, err := vocabulary.Build(factTypes(), []tool.Descriptor{oneProperty(`{"type":"string"}`, `,"required":["p"]`)}, allRoles(nil), nil)
	if err != nil || !strings.Contains(string(vocab.Text), "p: String") {
		t.Errorf("%v: p is not required in\n%s", err, vocab.Text)
	}
}

func TestUndeclaredProperties(t *testing.T) {
	t.Parallel()
	d := tool.Descriptor{Name: "t", InputSchema: json.RawMessage(
		`{"type":"object","properties":{"a":{"type":"string"},"__entity":{"type":"string"},` +
			`"n":{"type":"object","properties":{"b":{"type":"integer"}}}}}`)}
	declared, opaque, err := args.TypeOf(d)
	must.Do(t, err)
	var paths []string
	for _, o := range opaque {
		paths = append(paths, o.Path)
	}
	if slices.Sort(paths); !slices.Equal(paths, []string{"/*", "/__entity", "/n/*"}) {
		t.Errorf("opaque %v", paths)
	}
	record, rest, _, err := args.Values(declared, []byte(`{"a":"x","z/~":[2, 1],"__entity":"e","n":{"b":1,"c":null}}`))
	must.Do(t, err)
	if want := `{"/__entity":"e","/n/c":null,"/z~1~0":[2,1]}`; string(rest) != want {
		t.Errorf("rest %s, want %s", rest, want)
	}
	if want := `{"a":"x", "n":{"b":1}}`; string(record.MarshalCedar()) != want {
		t.Errorf("args %s, want %s", record.MarshalCedar(), want)
	}
}

func TestIntegersBeyond64BitsAreRefused(t *testing.T) {
	t.Parallel()
	declared, _, _ := args.TypeOf(oneProperty(`{"type":"integer"}`, ""))
	for _, value := range []string{"9223372036854775808", "1e30", "1.5", "-1e300"} {
		if v, _, _, err := args.Values(declared, []byte(`{"p":`+value+`}`)); err == nil {
			t.Errorf("%s became %v", value, v)
		}
	}
}

func FuzzArguments(f *testing.F) {
	for _, c := range typed {
		f.Add(c.schema, `{"p":`+c.value+`}`)
	}
	f.Fuzz(func(t *testing.T, schema, value string) {
		if !json.Valid([]byte(schema)) {
			return
		}
		declared, _, err := args.TypeOf(oneProperty(schema, ""))
		if err != nil {
			return
		}
		vocab, err := vocabulary.Build(factTypes(), []tool.Descriptor{oneProperty(schema, "")}, allRoles(nil), nil)
		if err != nil {
			t.Fatalf("schema %s: %v", schema, err)
		}
		record, _, _, err := args.Values(declared, []byte(value))
		if err == nil && value != "" && !json.Valid([]byte(value)) {
			t.Errorf("broken JSON %q became %v", value, record)
		}
		_ = vocab
	})
}
