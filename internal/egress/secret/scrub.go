package secret

import (
	"errors"
	"io"
	"net/http"
	"strings"

	"palyra/internal/core/reason"
	"palyra/internal/egress"
)

// Scrub returns r with every value replaced by its placeholder; see Values.Scrub.
func (x *Exchange) Scrub(r io.Reader) io.Reader {
	if x.Idle() {
		return r
	}
	return newScrubbing(r, x.known)
}

// Scrubber returns a Scrubber without any text.
func (x *Exchange) Scrubber() *Scrubber { return &Scrubber{known: x.known} }

// ScrubText returns a text without values.
func (x *Exchange) ScrubText(s string) string { return x.known().Text(s) }

// ScrubHeader replaces values in the fields of a header, and drops a field whose name contains a
// value.
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

// ofTheBody lists headers that are invalid for a scrubbed body: its length and digests (RFC 9530,
// RFC 3230, RFC 1864).
var ofTheBody = []string{"Content-Length", "Content-Digest", "Repr-Digest", "Digest", "Content-Md5"}

// ScrubResponse scrubs an answer of a target: its headers now, its body and trailers as they
// arrive. The length of the body is then unknown. For the target of a secret, it refuses an
// encoding that it cannot decode.
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

// isEncoded reports whether a body has a content encoding. Several encodings may occur in one field
// and in several (RFC 9110 section 8.4).
func isEncoded(h http.Header) bool {
	for e := range strings.SplitSeq(strings.Join(h.Values("Content-Encoding"), ","), ",") {
		if e = strings.TrimSpace(e); e != "" && !strings.EqualFold(e, "identity") {
			return true
		}
	}
	return false
}

// trailing scrubs the trailers of an answer, which are available when its body has ended.
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
