// Package catalogtest provides the conformance suite of catalog.Storage.
package catalogtest

import (
	"slices"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/exec/skill/catalog"
)

// RunStorage is the conformance suite of catalog.Storage.
func RunStorage(t *testing.T, open func(t *testing.T) catalog.Storage) {
	t.Helper()
	mine := catalog.Space{Skill: "notes", User: "user:ann"}
	others := map[string]catalog.Space{"another user": {Skill: "notes", User: "user:bob"}, "another skill": {Skill: "note", User: "user:ann"}, "a name across": {Skill: "notesuser", User: ":ann"}}
	t.Run("kept", func(t *testing.T) {
		s := open(t)
		must.Do(t, s.Put(t.Context(), mine, "a/1", []byte("one"), 100))
		must.Do(t, s.Put(t.Context(), mine, "a/1", []byte("two\x00"), 100))
		must.Do(t, s.Put(t.Context(), mine, "a/2", nil, 100))
		must.Do(t, s.Put(t.Context(), mine, "A%", []byte("x"), 100))
		if got := must.Get(s.Get(t.Context(), mine, "a/1"))(t); string(got) != "two\x00" {
			t.Errorf("%q", got)
		}
		if got := must.Get(s.Get(t.Context(), mine, "a/2"))(t); len(got) != 0 {
			t.Errorf("%q", got)
		}
		for prefix, want := range map[string][]string{"": {"A%", "a/1", "a/2"}, "a/": {"a/1", "a/2"}, "a/1x": nil, "A%": {"A%"}, "A_": nil} {
			if got := must.Get(s.List(t.Context(), mine, prefix))(t); !slices.Equal(got, want) {
				t.Errorf("%q: %q, want %q", prefix, got, want)
			}
		}
		must.Do(t, s.Delete(t.Context(), mine, "a/1"))
		must.Do(t, s.Delete(t.Context(), mine, "a/1"))
		if _, err := s.Get(t.Context(), mine, "a/1"); reason.Of(err) != reason.NotFound {
			t.Errorf("deleted: %v", err)
		}
	})
	t.Run("apart", func(t *testing.T) {
		s := open(t)
		must.Do(t, s.Put(t.Context(), mine, "k", []byte("mine"), 100))
		for name, other := range others {
			if got, err := s.Get(t.Context(), other, "k"); reason.Of(err) != reason.NotFound {
				t.Errorf("%s reads %q, %v", name, got, err)
			}
			if got := must.Get(s.List(t.Context(), other, ""))(t); len(got) > 0 {
				t.Errorf("%s lists %q", name, got)
			}
			must.Do(t, s.Delete(t.Context(), other, "k"))
			must.Do(t, s.Put(t.Context(), other, "k", []byte("theirs"), 100))
		}
		if got := must.Get(s.Get(t.Context(), mine, "k"))(t); string(got) != "mine" {
			t.Errorf("others changed it: %q", got)
		}
	})
	t.Run("quota", func(t *testing.T) {
		s := open(t)
		must.Do(t, s.Put(t.Context(), mine, "a", make([]byte, 9), 20))
		must.Do(t, s.Put(t.Context(), mine, "b", make([]byte, 9), 20))
		for name, err := range map[string]error{
			"another key":    s.Put(t.Context(), mine, "c", nil, 20),
			"a larger value": s.Put(t.Context(), mine, "a", make([]byte, 10), 20),
		} {
			if reason.Of(err) != reason.QuotaExceeded {
				t.Errorf("%s: %v", name, err)
			}
		}
		if got := must.Get(s.Get(t.Context(), mine, "a"))(t); len(got) != 9 {
			t.Errorf("a refused value is kept: %d bytes", len(got))
		}
		must.Do(t, s.Put(t.Context(), mine, "a", make([]byte, 9), 20))
		must.Do(t, s.Put(t.Context(), catalog.Space{Skill: "notes", User: "user:bob"}, "c", make([]byte, 19), 20))
	})
}
