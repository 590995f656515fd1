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

// retry observes TLS until the host has accepted the checked hello. Until then the host may request
// another hello (RFC 8446, section 4.1.4). The new hello may carry a different name, which must
// also be the target's.
type retry struct {
	target egress.Target
	// taken is true when no other hello can follow.
	taken atomic.Bool
	// answer is the beginning of the host's answer, until the answer is evaluated.
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
	// randomStart and randomEnd delimit the random of a server's hello at the start of a record.
	randomStart = recordHeader + 4 + 2
	randomEnd   = randomStart + 32
)

// retryRandom is the random of a server's hello that requests another hello from the client (RFC
// 8446, section 4.1.3).
const retryRandom = "cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c"

// heard processes the next bytes of the host's answer before the program receives them.
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

// heardReader reads from a host and passes the bytes to heard.
type heardReader struct {
	io.Reader
	retry *retry
}

func (l *heardReader) Read(b []byte) (int, error) {
	n, err := l.Reader.Read(b)
	l.retry.heard(b[:n])
	return n, err
}

// hellos is the TLS data from a program to a host. Each hello is checked before any of it is
// returned.
type hellos struct {
	from  io.Reader
	retry *retry
	// pending holds unchecked bytes, ready holds checked bytes. The next skip bytes belong to a
	// record without a hello.
	pending, ready []byte
	skip           int
	// checked counts the hellos.
	checked int
}

// Read returns checked data. Its errors are cuts and read errors.
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

// direct reports whether all further data passes without checks.
func (h *hellos) direct() bool {
	return h.retry.taken.Load() && len(h.pending) == 0 && len(h.ready) == 0
}

// judge releases the data that need not be held back.
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

// next checks the next hello once it is complete. A third hello is not allowed.
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

// watch makes the flow from a program check every hello, as long as the host's answers allow
// another one.
func (f *flow) watch(answers *retry) {
	said := &hellos{from: f.in, retry: answers}
	f.in, f.direct = said, said.direct
}
