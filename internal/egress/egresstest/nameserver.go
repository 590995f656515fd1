// Package egresstest provides a name server for tests of outgoing connections.
package egresstest

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"palyra/internal/core/must"
)

// mostPacket is the maximum size of a UDP response. A longer response is truncated, and the client
// repeats the query over TCP.
const mostPacket = 1232

// NameServer answers by UDP and TCP on one port of the loopback interface.
type NameServer struct {
	packets net.PacketConn
	streams net.Listener
	answer  func(query []byte) []byte
	serving sync.WaitGroup
}

// NewNameServer starts a name server that serves until the test ends. answer returns the response
// to a query, or nil to send none. It MUST be safe for concurrent use.
func NewNameServer(t testing.TB, answer func(query []byte) []byte) *NameServer {
	t.Helper()
	s := &NameServer{answer: answer}
	var err error
	for range 20 { // another process may use the port for TCP
		s.packets = must.Get(net.ListenPacket("udp4", "127.0.0.1:0"))(t)
		if s.streams, err = net.Listen("tcp4", s.Address()); err == nil {
			break
		}
		s.packets.Close()
	}
	must.Do(t, err)
	s.serving.Go(s.servePackets)
	s.serving.Go(func() { s.serveStreams(t.Context()) })
	t.Cleanup(func() {
		s.packets.Close()
		s.streams.Close()
		s.serving.Wait()
	})
	return s
}

// Address returns the address of the server.
func (s *NameServer) Address() string { return s.packets.LocalAddr().String() }

// Resolver returns a resolver that queries only this server.
func (s *NameServer) Resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, s.Address())
	}}
}

func (s *NameServer) servePackets() {
	buffer := make([]byte, 65536)
	for {
		n, from, err := s.packets.ReadFrom(buffer)
		if err != nil {
			return
		}
		answer := s.answer(buffer[:n])
		if len(answer) > mostPacket {
			answer = truncated(answer)
		}
		if answer != nil {
			_, _ = s.packets.WriteTo(answer, from)
		}
	}
}

// serveStreams serves connections until the listener is closed. Remaining connections end with ctx.
func (s *NameServer) serveStreams(ctx context.Context) {
	for {
		conn, err := s.streams.Accept()
		if err != nil {
			return
		}
		s.serving.Go(func() {
			defer conn.Close()
			defer context.AfterFunc(ctx, func() { conn.Close() })()
			for s.serveStream(conn) == nil {
			}
		})
	}
}

// serveStream serves one query, which is preceded by its length (RFC 1035 section 4.2.2).
func (s *NameServer) serveStream(conn net.Conn) error {
	var length [2]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return err
	}
	query := make([]byte, binary.BigEndian.Uint16(length[:]))
	if _, err := io.ReadFull(conn, query); err != nil {
		return err
	}
	answer := s.answer(query)
	if answer == nil {
		return io.EOF
	}
	_, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...))
	return err
}

// truncated returns a response without its answers and with the truncation bit set.
func truncated(answer []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(answer) != nil {
		return nil
	}
	m.Truncated, m.Answers, m.Additionals = true, nil, nil
	packed, err := m.Pack()
	if err != nil {
		return nil
	}
	return packed
}
