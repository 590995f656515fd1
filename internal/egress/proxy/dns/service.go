// Package dns is the name service of one sandboxed program. It asks nobody:
// a name that the program may reach gets an address that was made up for it, by
// which the connections to it are told apart later on, and every other name does
// not exist. So a question carries nothing out.
package dns

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"time"

	"palyra/internal/egress"
)

// Service answers the questions of one program. It is safe for concurrent use.
type Service struct {
	check func(egress.Host) string
	log   *egress.ConnectionLog
	pace  pace

	mu    sync.Mutex
	pool  pool
	noted map[refusal]bool
}

// New returns a service that knows the names for which check has no reason
// against them. The log gets an entry for every name: once when the program
// first learns an address of it, and once for each reason to refuse it.
func New(check func(egress.Host) string, log *egress.ConnectionLog) *Service {
	return &Service{check: check, log: log, pool: newPool(), noted: map[refusal]bool{}}
}

const (
	// mostQuery is the size of a question in bytes, with room for options
	// around the longest name. What is larger is left unanswered.
	mostQuery = 1232
	// patience is how long a connection may take for one question.
	patience = 10 * time.Second
)

// ServePackets answers datagrams until ctx ends, and closes conn. Of more than
// the pace allows, the kernel drops what it has no room for.
func (s *Service) ServePackets(ctx context.Context, conn net.PacketConn) error {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	query := make([]byte, mostQuery+1)
	for {
		n, from, err := conn.ReadFrom(query)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		case !s.pace.wait(ctx):
			return nil
		case n > mostQuery:
			continue
		}
		if reply := s.answer(query[:n]); reply != nil {
			_, _ = conn.WriteTo(reply, from) // who is gone needs no answer
		}
	}
}

// ServeConn answers on one connection (RFC 7766) until its client is done or
// too slow, or ctx ends, and closes it.
func (s *Service) ServeConn(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	for {
		if conn.SetDeadline(time.Now().Add(patience)) != nil {
			return
		}
		query, err := readQuery(conn)
		if err != nil || !s.pace.wait(ctx) {
			return
		}
		reply := s.answer(query)
		if reply == nil {
			return
		}
		framed := binary.BigEndian.AppendUint16(nil, uint16(len(reply))) // less than a datagram
		if _, err := conn.Write(append(framed, reply...)); err != nil {
			return
		}
	}
}

// readQuery reads a message with its length before it.
func readQuery(r io.Reader) ([]byte, error) {
	var size [2]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint16(size[:])
	if n > mostQuery {
		return nil, io.ErrShortBuffer
	}
	query := make([]byte, n)
	_, err := io.ReadFull(r, query)
	return query, err
}
