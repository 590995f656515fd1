// Package socks implements the server side of a SOCKS 5 handshake (RFC 1928) for CONNECT without
// authentication.
package socks

import (
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"slices"
	"syscall"

	"palyra/internal/core/reason"
	"palyra/internal/egress"
)

// Constants of RFC 1928.
const (
	version        = 5
	noMethod       = 0xff
	withoutMethod  = 0
	connect        = 1
	addressIPv4    = 1
	addressName    = 3
	addressIPv6    = 4
	succeeded      = 0
	generalFailure = 1
	notAllowed     = 2
	hostUnreached  = 4
	refused        = 5
	noSuchCommand  = 7
	noSuchAddress  = 8
)

// refusal is the error of a refused handshake, with the reply code for the client.
type refusal struct {
	word byte
	err  error
}

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

func refuse(word byte, format string, args ...any) error {
	return &refusal{word, reason.Errorf(reason.InvalidInput, "SOCKS: "+format, args...)}
}

// Accept performs the handshake up to the request and returns the requested target; the caller must
// then call Reply. It reads no byte beyond the request. A refused client has already received its
// answer, if one is defined. Errors carry reason.InvalidInput or reason.HostInvalid if they are the
// client's fault. The deadline of rw limits a slow client.
func Accept(rw io.ReadWriter) (egress.Target, error) {
	if err := greet(rw); err != nil {
		return egress.Target{}, err
	}
	target, err := request(rw)
	if reason.Of(err) == reason.HostInvalid || errors.As(err, new(*refusal)) {
		err = errors.Join(err, Reply(rw, err))
	}
	return target, err
}

// greet negotiates the method. It accepts only the method without authentication.
func greet(rw io.ReadWriter) error {
	start, err := read(rw, 2)
	if err != nil {
		return err
	}
	if start[0] != version {
		return reason.Errorf(reason.InvalidInput, "SOCKS: the client speaks version %d, want %d", start[0], version)
	}
	methods, err := read(rw, int(start[1]))
	if err != nil {
		return err
	}
	answer := []byte{version, withoutMethod}
	var refused error
	if !slices.Contains(methods, withoutMethod) {
		answer[1] = noMethod
		refused = reason.Errorf(reason.InvalidInput, "SOCKS: the client requires authentication")
	}
	_, err = rw.Write(answer)
	return errors.Join(refused, err)
}

// request reads the whole request before it checks it, so that the client receives the answer.
func request(r io.Reader) (egress.Target, error) {
	head, err := read(r, 4)
	if err != nil {
		return egress.Target{}, err
	}
	kind := head[3]
	size, err := addressSize(r, kind)
	if err != nil {
		return egress.Target{}, err
	}
	rest, err := read(r, size+2)
	if err != nil {
		return egress.Target{}, err
	}
	port := binary.BigEndian.Uint16(rest[size:])
	switch {
	case head[0] != version || head[2] != 0:
		return egress.Target{}, refuse(generalFailure, "the request is malformed")
	case head[1] != connect:
		return egress.Target{}, refuse(noSuchCommand, "command %d is not CONNECT", head[1])
	case port == 0:
		return egress.Target{}, refuse(notAllowed, "port 0 cannot be connected to")
	}
	host, err := hostOf(kind, rest[:size])
	if err != nil {
		return egress.Target{}, err
	}
	return egress.Target{Host: host, Port: port}, nil
}

func addressSize(r io.Reader, kind byte) (int, error) {
	switch kind {
	case addressIPv4:
		return 4, nil
	case addressIPv6:
		return 16, nil
	case addressName:
		length, err := read(r, 1)
		return int(length[0]), err
	}
	return 0, refuse(noSuchAddress, "addresses of kind %d are not known", kind)
}

func hostOf(kind byte, text []byte) (egress.Host, error) {
	if kind == addressName {
		return egress.CanonicalHost(string(text))
	}
	addr, _ := netip.AddrFromSlice(text) // 4 or 16 bytes
	return egress.HostOf(addr), nil
}

func read(r io.Reader, n int) ([]byte, error) {
	b := make([]byte, n)
	_, err := io.ReadFull(r, b)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return b, err
}

// Reply sends the client the result of its request; nil means connected.
func Reply(w io.Writer, err error) error {
	// Clients do not use the bound address.
	_, failed := w.Write([]byte{version, word(err), 0, addressIPv4, 0, 0, 0, 0, 0, 0})
	return failed
}

func word(err error) byte {
	var r *refusal
	switch {
	case err == nil:
		return succeeded
	case errors.As(err, &r):
		return r.word
	case errors.Is(err, syscall.ECONNREFUSED):
		return refused
	}
	switch reason.Of(err) {
	case reason.EgressDenied, reason.HostInvalid:
		return notAllowed
	case reason.FetchFailed:
		return hostUnreached
	}
	return generalFailure
}
