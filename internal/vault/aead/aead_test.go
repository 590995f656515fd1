package aead

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"

	"palyra/internal/core/must"
)

// TestOpen: sealed data opens with its key and its associated data, and does not open if any
// byte was changed.
func TestOpen(t *testing.T) {
	t.Parallel()
	key, other, plain, about := bytes.Repeat([]byte{1}, KeySize), bytes.Repeat([]byte{2}, KeySize), []byte("a secret"), []byte("of a test")
	box := must.Get(Seal(key, plain, about))(t)
	if len(box) != len(plain)+Overhead || bytes.Contains(box, plain) {
		t.Fatalf("box %x", box)
	}
	if again := must.Get(Seal(key, plain, about))(t); bytes.Equal(box, again) {
		t.Error("two boxes have one nonce")
	}
	for name, open := range map[string]func(key, box, about []byte) ([]byte, error){"Open": Open, "OpenInPlace": OpenInPlace} {
		if got := must.Get(open(key, bytes.Clone(box), about))(t); !bytes.Equal(got, plain) {
			t.Errorf("%s: %q", name, got)
		}
		for what, try := range map[string]func() ([]byte, error){
			"another key":   func() ([]byte, error) { return open(other, bytes.Clone(box), about) },
			"another thing": func() ([]byte, error) { return open(key, bytes.Clone(box), []byte("of another")) },
			"about nothing": func() ([]byte, error) { return open(key, bytes.Clone(box), nil) },
		} {
			if got, err := try(); !errors.Is(err, ErrOpen) || got != nil {
				t.Errorf("%s, %s: %q, %v", name, what, got, err)
			}
		}
		for i := range box {
			changed := bytes.Clone(box)
			changed[i] ^= 1
			if got, err := open(key, changed, about); !errors.Is(err, ErrOpen) || got != nil {
				t.Fatalf("%s, byte %d changed: %q, %v", name, i, got, err)
			}
			if got, err := open(key, bytes.Clone(box[:i]), about); !errors.Is(err, ErrOpen) || got != nil {
				t.Fatalf("%s, %d bytes: %q, %v", name, i, got, err)
			}
		}
	}
	was := bytes.Clone(box)
	must.Get(Open(key, box, about))(t)
	if !bytes.Equal(box, was) {
		t.Error("Open changes the box")
	}
	if _, err := Seal(key[:31], plain, nil); err == nil {
		t.Error("a short key is taken")
	}
}

// TestForm opens a box of an earlier version, because stores contain such boxes.
func TestForm(t *testing.T) {
	t.Parallel()
	key, box := bytes.Repeat([]byte{7}, KeySize), must.Get(hex.DecodeString("4064f699626bb2313ba25723f92226e7ba79f5590cce95ca6da03af4e9ce2c38c041558d62f7d9c0c528e3cd4aa79c199e6055cfad"))(t)
	if got := must.Get(Open(key, box, []byte("about")))(t); string(got) != "stored before" {
		t.Errorf("%q", got)
	}
}
