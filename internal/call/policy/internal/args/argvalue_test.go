package args

import (
	"encoding/json"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/tool"
)

// FuzzCheck: checking arguments reports the same result as converting them to values.
func FuzzCheck(f *testing.F) {
	types := make([]*Type, 0, 2)
	for _, schema := range []string{
		`{"type":"object","required":["path","at"],"properties":{"path":{"type":"string"},"lines":{"type":"integer"},"all":{"type":"boolean"},
		  "at":{"type":"object","required":["x"],"properties":{"x":{"type":"integer"}},"additionalProperties":false},
		  "names":{"type":"array","items":{"type":"string"}},"any":{}}}`,
		`{"type":"object","additionalProperties":false}`,
	} {
		t, _, err := TypeOf(tool.Descriptor{Name: "t", InputSchema: json.RawMessage(schema)})
		must.Do(f, err)
		types = append(types, t)
	}
	for _, seed := range []string{
		``, `{}`, `[]`, `{"path":"a","at":{"x":1}}`, `{"at":{},"path":1}`, `{"path":"a","path":"b"}`, `{"lines":1.5}`, `{"lines":1e3,"other":[1]}`,
		`{"names":["a","a"],"all":true,"any":{"b":[null]}}`, `{"names":[1]}`, `{} x`, `{"path":"\ud800"}`, `{"at":{"x":1,"y":{"z":2}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		given := string(text)
		for _, of := range types {
			_, rest, complete, err := Values(of, text)
			checkedRest, checkedComplete, checkedErr := Check(of, text)
			if rest != checkedRest || complete != checkedComplete || (err == nil) != (checkedErr == nil) || err != nil && err.Error() != checkedErr.Error() {
				t.Errorf("%q: values say %q, %t, %v, the check %q, %t, %v", text, rest, complete, err, checkedRest, checkedComplete, checkedErr)
			}
			if string(text) != given {
				t.Fatalf("reading %q made it %q", given, text)
			}
		}
	})
}
