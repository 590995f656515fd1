// Package dns is the name service of one sandboxed program. It sends no queries: an allowed name
// gets a synthetic address, by which its connections are later identified, and every other name
// does not exist. A query therefore carries no data out.
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

// Service answers the queries of one program. It is safe for concurrent use.
type Service struct {
	check func(egress.Host) string
	log   *egress.ConnectionLog
	pace  pace

	mu    sync.Mutex
	pool  pool
	noted map[refusal]bool
}

// New returns a service that resolves the names for which check returns no reason. The log gets an
// entry for every name: once when the program first gets an address of it, and once for each reason
// of refusal.
func New(check func(egress.Host) string, log *egress.ConnectionLog) *Service {
	return &Service{check: check, log: log, pool: newPool(), noted: map[refusal]bool{}}
}

const (
	// mostQuery is the size limit of a query in bytes, with room for options with the longest name.
	// Larger queries are not answered.
	mostQuery = 1232
	// patience is how long a connection may take for one query.
	patience = 10 * time.Second
)

// ServePackets answers datagrams until ctx ends, and closes conn. Above the permitted pace, the
// kernel drops datagrams that exceed its buffer.
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
			_, _ = conn.WriteTo(reply, from) // the client may have disconnected
		}
	}
}

// ServeConn answers on one connection (RFC 7766) until its client disconnects or is too slow, or
// ctx ends. It then closes the connection.
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

// readQuery reads a message that is preceded by its length.
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
