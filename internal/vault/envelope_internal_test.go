package vault

import (
	"errors"
	"testing"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/must"
)

// A value opens only with the reference and version for which it was sealed.
func TestValueIsBound(t *testing.T) {
	t.Parallel()
	key := must.Get(newKey())(t)
	ref, past := Ref{"user:ann", "smtp"}, Past{Version: 3, At: time.Unix(1000, 0), By: access.User("ann")}
	box := must.Get(sealValue(key, ref, past, []byte("value")))(t)
	if got, err := openValue(key, ref, past, box); err != nil || string(got) != "value" {
		t.Fatalf("%q, %v", got, err)
	}
	other := must.Get(newKey())(t)
	for name, open := range map[string]func() ([]byte, error){
		"another scope":    func() ([]byte, error) { return openValue(key, Ref{"user:bob", "smtp"}, past, box) },
		"another key":      func() ([]byte, error) { return openValue(key, Ref{"user:ann", "imap"}, past, box) },
		"another version":  func() ([]byte, error) { return openValue(key, ref, Past{2, past.At, past.By}, box) },
		"another time":     func() ([]byte, error) { return openValue(key, ref, Past{3, time.Unix(1001, 0), past.By}, box) },
		"another author":   func() ([]byte, error) { return openValue(key, ref, Past{3, past.At, access.User("bob")}, box) },
		"another data key": func() ([]byte, error) { return openValue(other, ref, past, box) },
	} {
		if got, err := open(); !errors.Is(err, errOpen) || got != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	again := must.Get(sealValue(key, ref, past, []byte("value")))(t)
	if string(again) == string(box) {
		t.Error("the same value seals to the same bytes")
	}
}

func TestMetadataAreBound(t *testing.T) {
	t.Parallel()
	key := must.Get(newKey())(t)
	m := Secret{Ref: Ref{"global", "a"}, Version: 2, Note: "note", Hosts: []string{"h:443"}, Header: "Authorization", Versions: []Past{{Version: 2}}}
	text, seal, err := sealMetadata(key, m)
	must.Do(t, err)
	record := Record{Ref: m.Ref, Metadata: text, Seal: seal, Newest: 2}
	if got, err := openMetadata(key, record); err != nil || got.Note != "note" {
		t.Fatalf("%+v, %v", got, err)
	}
	for name, change := range map[string]func(*Record){
		"of another scope":   func(r *Record) { r.Ref.Scope = "user:ann" },
		"of another key":     func(r *Record) { r.Ref.Key = "b" },
		"of another version": func(r *Record) { r.Newest = 1 },
		"without a seal":     func(r *Record) { r.Seal = nil },
		"with other text":    func(r *Record) { r.Metadata = append([]byte(" "), r.Metadata...) },
	} {
		changed := record
		change(&changed)
		if _, err := openMetadata(key, changed); !errors.Is(err, errOpen) {
			t.Errorf("metadata %s: %v", name, err)
		}
	}
}

func TestParseAbout(t *testing.T) {
	t.Parallel()
	ref := Ref{"user:ann", "smtp"}
	if got, n, err := ParseAbout(About(ref, 12)); got != ref || n != 12 || err != nil {
		t.Errorf("%v, %d, %v", got, n, err)
	}
	for _, about := range []string{"", "secret\x00a", "result\x00a\x00b\x001", "secret\x00a\x00b\x00c"} {
		if _, _, err := ParseAbout(about); err == nil {
			t.Errorf("%q is about a secret", about)
		}
	}
}
