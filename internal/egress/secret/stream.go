package secret

import (
	"bytes"
	"crypto/sha256"
	"io"
	"strings"

	"palyra/internal/core/encoded"
)

// Scrub returns r with what is shown in the place of every value, in all its
// encodings, and across the borders of chunks.
//
// What is held back and when it is handed out never depends on what the values
// are: a program that has a host send guesses, with a pause after each, would
// learn from a guess that comes late that a value begins so. Held back is
// whatever follows the last byte that is in no form of any value, at most twice
// as much as the longest form of the longest value. All bytes below the space but
// NUL end it, so that lines are handed out as they come, and so does DEL; but the
// end of a line does not that may go on in the next one, since base64 is broken
// into lines. At the end and at an error everything is handed out. The lengths of
// the values show nowhere.
func (v *Values) Scrub(r io.Reader) io.Reader {
	if v == nil {
		return r
	}
	return newScrubbing(r, func() *Values { return v })
}

// Text returns a text without values.
func (v *Values) Text(s string) string {
	if v == nil {
		return s
	}
	if len(s) <= chunk {
		out, _ := v.scrub(nil, []byte(s), len(s))
		return string(out)
	}
	var out strings.Builder
	_, _ = io.Copy(&out, v.Scrub(strings.NewReader(s))) // neither fails
	return out.String()
}

// In reports whether a text has a value.
func (v *Values) In(r io.Reader) (bool, error) {
	with, without := sha256.New(), sha256.New()
	if _, err := io.Copy(without, v.Scrub(io.TeeReader(r, with))); err != nil {
		return false, err
	}
	return !bytes.Equal(with.Sum(nil), without.Sum(nil)), nil
}

// Scrubber is Scrub for texts that are handed to it in pieces, one text after
// the other.
type Scrubber struct {
	known func() *Values
	// raw is what was not yet handed out, out what is.
	raw, out []byte
}

// Scrubber returns one that has no text yet.
func (v *Values) Scrubber() *Scrubber { return &Scrubber{known: func() *Values { return v }} }

// Next takes the next piece of a text and returns what can be handed out, which
// is all that is left when it was the last one. It is good until the next call.
// The error is nil; a Watcher has others.
func (s *Scrubber) Next(piece []byte, last bool) ([]byte, error) {
	had := len(s.raw)
	s.raw = append(s.raw, piece...)
	s.settle(had, last)
	return s.out, nil
}

// settle scrubs what can be. The first had bytes were held back before.
func (s *Scrubber) settle(had int, last bool) {
	until := len(s.raw)
	if !last {
		until = settled(s.raw, had)
	}
	s.out = s.out[:0]
	v := s.known()
	if v != nil && until == 0 {
		return
	}
	done := 0
	s.out, done = v.scrub(s.out, s.raw, until)
	s.raw = append(s.raw[:0], s.raw[done:]...)
}

// scrubbing reads straight into what its Scrubber holds.
type scrubbing struct {
	Scrubber
	from io.Reader
	sent int
	err  error
}

func newScrubbing(from io.Reader, known func() *Values) *scrubbing {
	return &scrubbing{Scrubber: Scrubber{known: known}, from: from}
}

const chunk = 32 << 10

func (s *scrubbing) Read(p []byte) (int, error) {
	for s.sent == len(s.out) {
		if s.err != nil {
			return 0, s.err
		}
		if len(p) == 0 {
			return 0, nil
		}
		s.fill()
	}
	n := copy(p, s.out[s.sent:])
	s.sent += n
	return n, nil
}

// fill reads once.
func (s *scrubbing) fill() {
	had := len(s.raw)
	if cap(s.raw)-had < chunk {
		s.raw = append(make([]byte, 0, 2*had+chunk), s.raw...)
	}
	n, err := s.from.Read(s.raw[had : had+chunk])
	s.raw, s.err = s.raw[:had+n], err
	s.settle(had, err != nil)
	s.sent = 0
}

// settled returns how much of b is decided whatever comes after it. The first
// had bytes were held back before. Nothing is, as long as it may all be one form:
// what is held back is searched again, so it grows to twice the longest form
// before half of it is handed out, up to the end of a line if one is near.
func settled(b []byte, had int) int {
	for i := len(b) - 1; i >= had; i-- {
		if !formByte(b[i]) && !wraps(b, i) {
			return i + 1
		}
	}
	if len(b) < 2*longestForm {
		return 0
	}
	const near = 1000
	until := len(b) - longestForm + 1
	if line := bytes.LastIndexByte(b[until-near:until], '\n'); line >= 0 {
		return until - near + line + 1
	}
	return until
}

// longestDumpLine bounds the line that is looked at for a dump, in bytes: the 256 bytes that a
// line of xxd may show, their characters, offset and blanks have fewer.
const longestDumpLine = 1024

// wraps reports whether a byte is a line end within base64, hexadecimal,
// quoted-printable or a dump, as far as can be seen from what stands before it.
func wraps(b []byte, i int) bool {
	if b[i] == '\n' && i > 0 && b[i-1] == '\r' {
		i--
	}
	if b[i] != '\r' && b[i] != '\n' || i == 0 {
		return false
	}
	if b[i-1] == '=' {
		return true
	}
	line := b[max(0, i-encoded.WrapFrom):i]
	return len(line) == encoded.WrapFrom && (encoded.Dense(line) || encoded.SpacedHex(line)) || encoded.InDump(b[max(0, i-longestDumpLine):i])
}
