package proxy

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"sync/atomic"

	"palyra/internal/egress"
	"palyra/internal/egress/proxy/hello"
)

// retry watches TLS that is passed on until the host has taken the hello that
// was checked. Until then it may ask for another one (RFC 8446, section 4.1.4),
// and some take the name out of that: it has to be the target's, too.
type retry struct {
	target egress.Target
	// taken is true when there can be no other hello any more.
	taken atomic.Bool
	// answer is how the host's answer begins, until it has told that.
	answer []byte
	told   bool
}

// The records and messages of TLS (RFC 8446, sections 4 and 5.1).
const (
	recordHeader    = 5
	recordCipher    = 20 // change_cipher_spec
	recordAlert     = 21
	recordHandshake = 22
	recordData      = 23
	serverHello     = 2
	// The random of a server's hello, in a record of its own.
	randomStart = recordHeader + 4 + 2
	randomEnd   = randomStart + 32
)

// retryRandom is the random of a server's hello that asks for another one of
// the client (RFC 8446, section 4.1.3).
const retryRandom = "cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c"

// heard takes the next bytes of the host's answer, before the program gets them.
func (r *retry) heard(b []byte) {
	if r.told {
		return
	}
	r.answer = append(r.answer, b...)
	for len(r.answer) >= recordHeader && r.answer[0] == recordAlert { // a warning
		n := recordHeader + recordSize(r.answer)
		if len(r.answer) < n {
			return
		}
		r.answer = r.answer[n:]
	}
	if len(r.answer) < randomEnd {
		return
	}
	r.told = true
	hi := r.answer[0] == recordHandshake && recordSize(r.answer) >= randomEnd-recordHeader && r.answer[recordHeader] == serverHello
	r.taken.Store(hi && hex.EncodeToString(r.answer[randomStart:randomEnd]) != retryRandom)
	r.answer = nil
}

func recordSize(header []byte) int { return int(header[3])<<8 | int(header[4]) }

// heardReader is what a host says, and heard.
type heardReader struct {
	io.Reader
	retry *retry
}

func (l *heardReader) Read(b []byte) (int, error) {
	n, err := l.Reader.Read(b)
	l.retry.heard(b[:n])
	return n, err
}

// hellos is what a program says to a host by TLS, each hello checked before any
// of it is handed out.
type hellos struct {
	from  io.Reader
	retry *retry
	// pending is not judged yet, ready is. Skip more bytes belong to a record that
	// holds no hello.
	pending, ready []byte
	skip           int
	// checked counts the hellos.
	checked int
}

// Read returns what was judged. Its errors are cuts and those of reading.
func (h *hellos) Read(b []byte) (int, error) {
	for len(h.ready) == 0 {
		if h.retry.taken.Load() && len(h.pending) == 0 {
			return h.from.Read(b)
		}
		more := make([]byte, mostAtOnce)
		n, err := h.from.Read(more)
		h.pending = append(h.pending, more[:n]...)
		if n == 0 && err != nil {
			return 0, err
		}
		if err := h.judge(); err != nil {
			return 0, err
		}
	}
	n := copy(b, h.ready)
	h.ready = h.ready[n:]
	return n, nil
}

// direct reports whether everything goes through unseen from now on.
func (h *hellos) direct() bool {
	return h.retry.taken.Load() && len(h.pending) == 0 && len(h.ready) == 0
}

// judge makes ready what needs not be held any longer.
func (h *hellos) judge() error {
	for len(h.pending) > 0 {
		switch {
		case h.retry.taken.Load():
			h.pass(len(h.pending))
		case h.skip > 0:
			n := min(h.skip, len(h.pending))
			h.skip -= n
			h.pass(n)
		case len(h.pending) < recordHeader:
			return nil
		case h.pending[0] == recordCipher, h.pending[0] == recordAlert, h.pending[0] == recordData:
			h.skip = recordHeader + recordSize(h.pending)
		case h.pending[0] != recordHandshake:
			return denied(egress.ReasonBadTLS)
		case len(h.pending) < recordHeader+recordSize(h.pending):
			return nil
		default:
			whole, err := h.next()
			if err != nil || !whole {
				return err
			}
		}
	}
	return nil
}

func (h *hellos) pass(n int) {
	h.ready = append(h.ready, h.pending[:n]...)
	h.pending = h.pending[n:]
}

// next checks the next hello, once it is whole. There is no third.
func (h *hellos) next() (whole bool, err error) {
	said, raw, err := hello.Read(bytes.NewReader(h.pending), hello.Most)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return false, nil
	case err != nil:
		return false, denied(egress.ReasonBadTLS)
	}
	if err := checkName(said, h.retry.target); err != nil {
		return false, err
	}
	if h.checked++; h.checked == 2 {
		h.retry.taken.Store(true)
	}
	h.pass(len(raw))
	return true, nil
}

// watch has every hello of the flow from a program checked, as long as the
// host's answers leave room for one.
func (f *flow) watch(answers *retry) {
	said := &hellos{from: f.in, retry: answers}
	f.in, f.direct = said, said.direct
}
