package main

import (
	"strings"
	"testing"

	"example.org/skills/host"
)

func TestWithoutAGrant(t *testing.T) {
	var out strings.Builder
	if err := serve(strings.NewReader(`{"path": "/x"}`), &out); err == nil || !strings.Contains(err.Error(), "no host was granted") {
		t.Errorf("%v %s", err, out.String())
	}
}

func TestAddress(t *testing.T) {
	for rule, want := range map[string]string{"api.example.org:443": "https://api.example.org/x", "api.example.org": "https://api.example.org/x", "localhost:8443": "https://localhost:8443/x"} {
		if got := address(rule, "/x"); got != want {
			t.Errorf("%s gives %s, want %s", rule, got, want)
		}
	}
}

func TestResult(t *testing.T) {
	if r := resultOf(host.Response{Status: 200, Content: `{"a":1}`}); string(r.JSON) != `{"a":1}` || r.Text != "" {
		t.Errorf("%+v", r)
	}
	if r := resultOf(host.Response{Status: 404, Content: "not here"}); r.JSON != nil || r.Text != "not here" {
		t.Errorf("%+v", r)
	}
}
