package secret

import (
	"errors"
	"io"
	"net/http"
	"strings"

	"palyra/internal/egress"
	"palyra/internal/reason"
)

// Scrub returns r with the placeholder in the place of every value that was
// used by then, in all its encodings, and across the borders of chunks. A byte
// is held back only as long as it may belong to a value.
func (x *Exchange) Scrub(r io.Reader) io.Reader {
	if x.Idle() {
		return r
	}
	return &scrubber{of: x, from: r}
}

// scrubber keeps what it read and not yet handed out in raw, and what it is
// about to hand out in out.
type scrubber struct {
	of   *Exchange
	from io.Reader
	raw  []byte
	out  []byte
	sent int
	err  error
}

const chunk = 32 << 10

func (s *scrubber) Read(p []byte) (int, error) {
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

// fill reads once and scrubs what can be.
func (s *scrubber) fill() {
	had := len(s.raw)
	if cap(s.raw)-had < chunk {
		s.raw = append(make([]byte, 0, 2*had+chunk), s.raw...)
	}
	n, err := s.from.Read(s.raw[had : had+chunk])
	s.raw, s.err = s.raw[:had+n], err
	s.out, s.sent = s.out[:0], 0
	done := 0
	s.out, done = s.of.finder.Load().scrub(s.out, s.raw, err != nil)
	s.raw = append(s.raw[:0], s.raw[done:]...)
}

// scrub appends b without values to out, up to where the next value may have
// begun, and returns how far it came. It wipes the values in b.
func (f *finder) scrub(out, b []byte, last bool) ([]byte, int) {
	if f == nil {
		return append(out, b...), len(b)
	}
	done := 0
	held := func() int {
		if last {
			return len(b)
		}
		return f.held(b, done)
	}
	hold := held()
	for {
		m, ok := f.find(b, done)
		if !ok || m.start >= hold {
			return append(out, b[done:hold]...), hold
		}
		out = append(out, b[done:m.start]...)
		out = append(out, f.placeholders[m.kind]...)
		clear(b[m.start:m.end])
		if done = m.end; done > hold {
			hold = held()
		}
	}
}

// ScrubText returns a text without values.
func (x *Exchange) ScrubText(s string) string {
	if x == nil {
		return s
	}
	f := x.finder.Load()
	if f == nil {
		return s
	}
	out, _ := f.scrub(nil, []byte(s), true)
	return string(out)
}

// ScrubHeader replaces values in the fields of a header, and drops a field
// whose name holds one.
func (x *Exchange) ScrubHeader(h http.Header) {
	if x == nil || x.finder.Load() == nil {
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
	if r.Body == nil || r.Body == http.NoBody || !secretive && x.finder.Load() == nil {
		return nil
	}
	if e := strings.ToLower(r.Header.Get("Content-Encoding")); e != "" && e != "identity" && secretive {
		return reason.Errorf(reason.EgressDenied, "%s encoded its answer although it was asked not to, so that it cannot be searched for secrets", t)
	}
	for _, name := range ofTheBody {
		r.Header.Del(name)
	}
	r.ContentLength = -1
	r.Body = &body{Reader: &trailing{Reader: x.Scrub(r.Body), of: x, response: r}, Closer: r.Body}
	return nil
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
