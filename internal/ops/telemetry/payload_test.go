package telemetry

import (
	"testing"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"palyra/internal/core/canonical"
)

// FuzzPayload: for an object in RFC 8785 form, the members are the same as with encoding/json.
// No other text causes a panic.
func FuzzPayload(f *testing.F) {
	for _, text := range []string{
		`{}`, `{"allowed":true,"reason":"a\"b\\\\"}`, `{"a":[{"b":"]}"},-1.5e+30,null],"report":{"executor":{"name":"ü"},"n":0}}`,
		`{"verdict":{"effect":"allow"}}`, `{"a":1`, `{"a" :1}`, `{"a":}`, `not json`, `{"a":"\\`, `{"a":1}}`, `[]`, ``, `{"a":1,}`, `{"a":{]}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		got := map[string]string{}
		whole := each(payload, func(name, value []byte) {
			got[string(name)] = string(value)
			within(value, "a", func(_, _ []byte) {})
			_ = text(value)
		})
		if !canonical.Is(payload) {
			return
		}
		var want map[string]jsontext.Value
		if jsonv2.Unmarshal(payload, &want) != nil || want == nil {
			if whole {
				t.Fatalf("%q is no object, and %q is read", payload, got)
			}
			return
		}
		if !whole || len(got) != len(want) {
			t.Fatalf("of %q %q is read, whole: %v", payload, got, whole)
		}
		for name, value := range want {
			if got[name] != string(value) {
				t.Errorf("of %q %q is read as %q", payload, name, got[name])
			}
			var said string
			if jsonv2.Unmarshal(value, &said) == nil && text(value) != said {
				t.Errorf("%q says %q", value, text(value))
			}
		}
	})
}
