package authzen

import (
	"encoding/json"
	"os"
	"testing"

	"palyra/internal/core/access"
	"palyra/internal/core/must"
)

// TestBindingHash: the construction of the draft profile (Denial Binding Claims), by
// answers that another program computed from its text. They cover what the profile's own
// vectors are said to cover, but for bulk requests, which this gateway does not take:
// the actor left out, members of the context chosen and none chosen, one that is absent
// and one that is null, numbers, and the order of arrays and of names.
func TestBindingHash(t *testing.T) {
	t.Parallel()
	var vectors []struct {
		ID      string
		Request evaluation
		Members []string `json:"binding_context_members"`
		Hash    string   `json:"binding_hash"`
	}
	must.Do(t, json.Unmarshal(must.Get(os.ReadFile("testdata/binding-hash.json"))(t), &vectors))
	seen := map[string]string{}
	for _, v := range vectors {
		got := must.Get(bindingHash(v.Request, v.Members))(t)
		if got != v.Hash {
			t.Errorf("%s: %s, want %s", v.ID, got, v.Hash)
		}
		seen[got] = v.ID
	}
	if len(vectors) != 11 || len(seen) != 10 { // an absent member is as an empty selection
		t.Errorf("%d vectors have %d answers", len(vectors), len(seen))
	}
}

// TestBindingTokens: only what this gateway signed for itself opens.
func TestBindingTokens(t *testing.T) {
	t.Parallel()
	s, other := must.Get(newSigner("a"))(t), must.Get(newSigner("a"))(t)
	token := must.Get(s.sign(bound{Hash: "h", Caller: access.Agent("edge")}))(t)
	if b, err := s.open(token); err != nil || b.Hash != "h" || b.Caller != access.Agent("edge") {
		t.Errorf("control: %+v, %v", b, err)
	}
	elsewhere := *s
	elsewhere.gateway = "b"
	for name, open := range map[string]func() (bound, error){
		"another key":      func() (bound, error) { return other.open(token) },
		"another audience": func() (bound, error) { return elsewhere.open(token) },
		"changed":          func() (bound, error) { return s.open(token[:len(token)-4] + "AAAA") },
		"alg none":         func() (bound, error) { return s.open("eyJhbGciOiJub25lIn0.e30.") },
		"nothing":          func() (bound, error) { return s.open("") },
	} {
		if b, err := open(); err == nil {
			t.Errorf("%s: %+v", name, b)
		}
	}
}
