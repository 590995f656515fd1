package passphrase_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/vault/passphrase"
)

// A sealed text opens only with its passphrase and its associated data.
func TestOpen(t *testing.T) {
	t.Parallel()
	phrase, about := []byte("correct horse"), []byte("about")
	good := must.Get(passphrase.Seal(phrase, []byte("the text"), about))(t)
	for name, c := range map[string]struct {
		change        func(*passphrase.Sealed)
		phrase, about []byte
		want          error
	}{
		"the control":          {},
		"another passphrase":   {phrase: []byte("correct horse "), want: passphrase.ErrWrong},
		"about something else": {about: []byte("abouT"), want: passphrase.ErrWrong},
		"a changed box":        {change: func(s *passphrase.Sealed) { s.Box[0] ^= 1 }, want: passphrase.ErrWrong},
		"a shorter box":        {change: func(s *passphrase.Sealed) { s.Box = s.Box[:3] }, want: passphrase.ErrWrong},
		"another salt":         {change: func(s *passphrase.Sealed) { s.Salt[0] ^= 1 }, want: passphrase.ErrWrong},
		"fewer rounds":         {change: func(s *passphrase.Sealed) { s.Time = 1 }, want: passphrase.ErrWrong},
		"no rounds":            {change: func(s *passphrase.Sealed) { s.Time = 0 }, want: passphrase.ErrForm},
		"rounds without end":   {change: func(s *passphrase.Sealed) { s.Time = 1 << 30 }, want: passphrase.ErrForm},
		"no memory":            {change: func(s *passphrase.Sealed) { s.MemoryKiB = 0 }, want: passphrase.ErrForm},
		"all the memory":       {change: func(s *passphrase.Sealed) { s.MemoryKiB = 1 << 30 }, want: passphrase.ErrForm},
		"no thread":            {change: func(s *passphrase.Sealed) { s.Threads = 0 }, want: passphrase.ErrForm},
		"no nonce":             {change: func(s *passphrase.Sealed) { s.Nonce = nil }, want: passphrase.ErrForm},
	} {
		s := *good
		s.Box, s.Salt = slices.Clone(good.Box), slices.Clone(good.Salt)
		if c.change != nil {
			c.change(&s)
		}
		if c.phrase == nil {
			c.phrase = phrase
		}
		if c.about == nil {
			c.about = about
		}
		text, err := s.Open(c.phrase, c.about)
		if !errors.Is(err, c.want) || (c.want == nil) != bytes.Equal(text, []byte("the text")) {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	if _, err := (*passphrase.Sealed)(nil).Open(phrase, about); !errors.Is(err, passphrase.ErrForm) {
		t.Errorf("nothing: %v", err)
	}
	if _, err := passphrase.Seal([]byte("short"), nil, nil); reason.Of(err) != reason.InvalidInput {
		t.Errorf("a short passphrase: %v", err)
	}
}
