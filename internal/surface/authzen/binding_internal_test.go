package authzen

import (
	"encoding/json"
	"os"
	"testing"

	"palyra/internal/core/access"
	"palyra/internal/core/must"
)

// TestBindingHash: the hashes agree with the construction of the draft profile (Denial Binding
// Claims). Another program computed the vectors from the profile's text. They cover the cases
// of the profile's own vectors: an omitted actor, selected context members and none, absent and
// null members, numbers, and the order of arrays and names. Bulk requests are not covered,
// because this gateway refuses them.
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
	if len(vectors) != 11 || len(seen) != 10 { // an absent member equals an empty selection
		t.Errorf("%d vectors have %d answers", len(vectors), len(seen))
	}
}

// TestBindingTokens: a token opens only if this gateway signed it for itself.
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
