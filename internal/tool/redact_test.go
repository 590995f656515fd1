package tool

import (
	"encoding/json"
	"slices"
	"testing"
)

func TestRedact(t *testing.T) {
	t.Parallel()
	const input = `{"a/b":"x","keys":["k1","k2"],"n":12.5,"user":{"password":"hunter2"}}`
	for _, c := range []struct {
		name     string
		pointers []string
		want     string
		done     []string
	}{
		{"none", nil, input, nil},
		{"absent", []string{"/nothing", "/keys/7", "/n/deeper"}, input, nil},
		{"nested", []string{"/user/password"}, `{"a/b":"x","keys":["k1","k2"],"n":12.5,"user":{"password":"[redacted]"}}`, []string{"/user/password"}},
		{"list", []string{"/keys/1"}, `{"a/b":"x","keys":["k1","[redacted]"],"n":12.5,"user":{"password":"hunter2"}}`, []string{"/keys/1"}},
		{"escaped", []string{"/a~1b"}, `{"a/b":"[redacted]","keys":["k1","k2"],"n":12.5,"user":{"password":"hunter2"}}`, []string{"/a~1b"}},
		{"no pointer", []string{"n"}, input, nil},
		{"whole", []string{""}, `"[redacted]"`, []string{""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, done, err := Redact(json.RawMessage(input), c.pointers)
			if err != nil || string(got) != c.want || !slices.Equal(done, c.done) {
				t.Errorf("Redact = %s, %v, %v; want %s, %v", got, done, err, c.want, c.done)
			}
		})
	}
}
