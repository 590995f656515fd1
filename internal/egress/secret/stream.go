package secret

import (
	"bytes"
	"crypto/sha256"
	"io"
	"strings"

	"palyra/internal/core/encoded"
)

// Scrub returns r with every value replaced, in all its encodings and across chunk borders.
//
// The buffering and its timing never depend on the values. Otherwise a program could make a
// host send guesses with a pause after each, and a delayed guess would reveal the beginning of
// a value. The buffer holds the bytes after the last byte that occurs in no form of any value,
// at most twice the longest form of the longest value. Every control character except NUL,
// including DEL, ends a form, so lines are passed on as they arrive. A line end does not end a
// form that may continue in the next line, because base64 is broken into lines. At the end of
// the stream and at an error everything is passed on. The lengths of the values are not
// observable.
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

// In reports whether a text contains a value.
func (v *Values) In(r io.Reader) (bool, error) {
	with, without := sha256.New(), sha256.New()
	if _, err := io.Copy(without, v.Scrub(io.TeeReader(r, with))); err != nil {
		return false, err
	}
	return !bytes.Equal(with.Sum(nil), without.Sum(nil)), nil
}

// Scrubber is Scrub for texts that are passed to it in pieces, one text after the other.
type Scrubber struct {
	known func() *Values
	// raw holds bytes not yet returned, out the returned ones.
	raw, out []byte
}

// Scrubber returns a Scrubber without any text.
func (v *Values) Scrubber() *Scrubber { return &Scrubber{known: func() *Values { return v }} }

// Next takes the next piece of a text and returns the bytes that can be passed on, or all
// remaining ones for the last piece. They are valid until the next call. The error is always
// nil; it exists because Watcher has the same method.
func (s *Scrubber) Next(piece []byte, last bool) ([]byte, error) {
	had := len(s.raw)
	s.raw = append(s.raw, piece...)
	s.settle(had, last)
	return s.out, nil
}

// settle scrubs the bytes that can be decided. The first had bytes were buffered before.
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

// scrubbing reads directly into the buffer of its Scrubber.
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

// settled returns the number of bytes of b that no later byte can affect. The first had bytes were
// buffered before. It is 0 as long as all of b may be one form. The buffer is searched again each
// time, so it grows to twice the longest form before half of it is passed on, up to a nearby end of
// line.
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

// longestDumpLine is the maximum length, in bytes, of a line that is inspected as part of a dump. A
// line of xxd is shorter: it shows at most 256 bytes with their characters, offset and blanks.
const longestDumpLine = 1024

// wraps reports whether a byte is a line end within base64, hexadecimal, quoted-printable or a
// dump, judged by the preceding bytes.
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
