package main

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"example.org/skills/host"
)

// book is an in-memory store.
type book map[string]string

func (b book) Get(key string) ([]byte, error) {
	text, there := b[key]
	if !there {
		return nil, host.ErrNoKey
	}
	return []byte(text), nil
}

func (b book) Put(key string, value []byte) error { b[key] = string(value); return nil }

func (b book) Delete(key string) error { delete(b, key); return nil }

func (b book) List(prefix string) ([]string, error) {
	keys := slices.Sorted(maps.Keys(b))
	return slices.DeleteFunc(keys, func(key string) bool { return !strings.HasPrefix(key, prefix) }), nil
}

func TestNotebook(t *testing.T) {
	kept := book{}
	for _, c := range []struct{ tool, in, want string }{
		{"read", `{}`, `{"titles":[]}`},
		{"write", `{"title": "milk", "text": "two litres"}`, `{"written":"milk"}`},
		{"write", `{"title": "bread", "text": "one"}`, `{"written":"bread"}`},
		{"read", `{}`, `{"titles":["bread","milk"]}`},
		{"read", `{"title": "milk"}`, `{"text":"two litres","written":"2026-01-02T03:04:05Z"}`},
		{"remove", `{"title": "milk"}`, `{"removed":"milk"}`},
		{"read", `{"title": "milk"}`, `the note "milk" does not exist`},
		{"burn", `{}`, `the tool "burn" does not exist`},
	} {
		var out strings.Builder
		err := serve(c.tool, kept, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), strings.NewReader(c.in), &out)
		got := strings.TrimSpace(out.String())
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s %s gives %s, want %s", c.tool, c.in, got, c.want)
		}
	}
}
