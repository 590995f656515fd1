package main

import (
	"strings"
	"testing"
)

func TestServe(t *testing.T) {
	for in, want := range map[string]string{
		`{"value": {"a": [1, 2.50, {"b": "c"}]}, "steps": [{"do": "get", "at": "/a/2/b"}]}`:                                  `{"value":"c"}`,
		`{"value": {"a": [1]}, "steps": [{"do": "set", "at": "/a/-", "value": 2}, {"do": "set", "at": "/a/0", "value": 9}]}`: `{"value":{"a":[9,2]}}`,
		`{"value": {"a": [1, 2, 3], "b": 1}, "steps": [{"do": "remove", "at": "/a/1"}, {"do": "remove", "at": "/b"}]}`:       `{"value":{"a":[1,3]}}`,
		`{"value": {"x/y": {"~": 7}}, "steps": [{"do": "get", "at": "/x~1y/~0"}]}`:                                           `{"value":7}`,
		`{"value": [1, 2], "steps": [{"do": "count"}]}`:                                                                      `{"value":2}`,
		`{"value": 12345678901234567890, "steps": []}`:                                                                       `{"value":12345678901234567890}`,
		`{"value": {"a": 1}, "steps": [{"do": "get", "at": "/b"}]}`:                                                          "the place does not exist",
		`{"value": {"a": 1}, "steps": [{"do": "set", "at": "/b/c", "value": 1}]}`:                                            "the place does not exist",
		`{"value": [1], "steps": [{"do": "remove", "at": "/1"}]}`:                                                            "the place does not exist",
		`{"value": [1], "steps": [{"do": "get", "at": "0"}]}`:                                                                "must begin with /",
		`nothing`: "reading the input",
	} {
		var out strings.Builder
		err := serve(strings.NewReader(in), &out)
		got := strings.TrimSpace(out.String())
		if err != nil {
			got = err.Error()
		}
		if got != want && (err == nil || !strings.Contains(got, want)) {
			t.Errorf("%s gives %s, want %s", in, got, want)
		}
	}
}
