package secret

import (
	"errors"
	"io"
	"net/http"
	"strings"

	"palyra/internal/egress"
	"palyra/internal/reason"
)

// Scrub returns r with the placeholder in the place of every value, in all its
// encodings, and across the borders of chunks.
//
// What is held back and when it is handed out never depends on what the values
// are: a program that has a host send guesses, with a pause after each, would
// learn from a guess that comes late that a value begins so. Held back is
// whatever follows the last byte that is in no form of any value, at most as
// much as the longest form of the longest value less one byte. All bytes below
// the space but NUL end it, so that lines are handed out as they come, and so
// do DEL and all that is not ASCII. At the end and at an error everything is
// handed out. The lengths of the values show nowhere.
func (x *Exchange) Scrub(r io.Reader) io.Reader {
	if x.Idle() {
		return r
	}
	return &scrubbing{Scrubber: Scrubber{of: x}, from: r}
}

// Scrubber is Scrub for texts that are handed to it in pieces, one text after
// the other.
type Scrubber struct {
	of *Exchange
	// raw is what was not yet handed out, out what is.
	raw, out []byte
}

// Scrubber returns one that has no text yet.
func (x *Exchange) Scrubber() *Scrubber { return &Scrubber{of: x} }

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
	done := 0
	s.out, done = s.of.known().scrub(s.out[:0], s.raw, until)
	s.raw = append(s.raw[:0], s.raw[done:]...)
}

// scrubbing reads straight into what its Scrubber holds.
type scrubbing struct {
	Scrubber
	from io.Reader
	sent int
	err  error
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
// had bytes were held back before.
func settled(b []byte, had int) int {
	for i := len(b) - 1; i >= had; i-- {
		if !formByte(b[i]) {
			return i + 1
		}
	}
	return max(0, len(b)-longestForm+1)
}

// scrub appends b without values to out, up to until or the end of a value that
// begins before it, and returns how far it came. It wipes the values in b.
func (f *finder) scrub(out, b []byte, until int) ([]byte, int) {
	if f == nil {
		return append(out, b...), len(b)
	}
	done := 0
	for {
		m, ok := f.find(b, done, until)
		if !ok {
			until = max(done, until)
			return append(out, b[done:until]...), until
		}
		out = append(out, b[done:m.start]...)
		out = append(out, f.placeholders[m.kind]...)
		clear(b[m.start:m.end])
		done = m.end
	}
}

// ScrubText returns a text without values.
func (x *Exchange) ScrubText(s string) string {
	f := x.known()
	if f == nil {
		return s
	}
	out, _ := f.scrub(nil, []byte(s), len(s))
	return string(out)
}

// ScrubHeader replaces values in the fields of a header, and drops a field
// whose name holds one.
func (x *Exchange) ScrubHeader(h http.Header) {
	if x.known() == nil {
		return
	}
	for name, values := range h {
		if x.ScrubText(name) != name {
			delete(h, name)
			continue
		}
		for i, v := range values {
			values[i] = x.ScrubText(v)
		}
	}
}

// ofTheBody are headers that say of a body what is not true when it was
// scrubbed: its length and digests (RFC 9530, RFC 3230, RFC 1864).
var ofTheBody = []string{"Content-Length", "Content-Digest", "Repr-Digest", "Digest", "Content-Md5"}

// ScrubResponse has an answer of a target scrubbed: its headers now, its body
// and its trailers as they come. The length of the body is unknown then. From a
// target that a secret is for, it refuses an encoding that it cannot look into.
func (x *Exchange) ScrubResponse(r *http.Response, t egress.Target) error {
	if x.Idle() {
		return nil
	}
	x.ScrubHeader(r.Header)
	x.ScrubHeader(r.Trailer)
	secretive := x.sentTo(t)
	if r.Body == nil || r.Body == http.NoBody || !secretive && x.known() == nil {
		return nil
	}
	if secretive && isEncoded(r.Header) {
		return reason.Errorf(reason.EgressDenied, "%s encoded its answer although it was asked not to, so that it cannot be searched for secrets", t)
	}
	for _, name := range ofTheBody {
		r.Header.Del(name)
	}
	r.ContentLength = -1
	r.Body = &body{Reader: &trailing{Reader: x.Scrub(r.Body), of: x, response: r}, Closer: r.Body}
	return nil
}

// isEncoded reports whether a body has another encoding than none. Several may
// stand in one field and in several (RFC 9110 section 8.4).
func isEncoded(h http.Header) bool {
	for e := range strings.SplitSeq(strings.Join(h.Values("Content-Encoding"), ","), ",") {
		if e = strings.TrimSpace(e); e != "" && !strings.EqualFold(e, "identity") {
			return true
		}
	}
	return false
}

// trailing scrubs the trailers of an answer, which are there when its body has
// ended.
type trailing struct {
	io.Reader
	of       *Exchange
	response *http.Response
}

func (t *trailing) Read(p []byte) (int, error) {
	n, err := t.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		t.of.ScrubHeader(t.response.Trailer)
	}
	return n, err
}
