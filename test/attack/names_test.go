//go:build linux

package attack

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
)

// nameServer is the one of the world, by UDP and TCP. It reads names as the C
// library does, up to the first zero byte.
type nameServer struct {
	world   *world
	address string
	packets net.PacketConn
	streams net.Listener
	busy    sync.WaitGroup
}

func newNameServer(w *world) (*nameServer, error) {
	var last error
	for range 20 { // another may have the same number for TCP
		packets, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		streams, err := net.Listen("tcp", packets.LocalAddr().String())
		if err != nil {
			last = errors.Join(err, packets.Close())
			continue
		}
		n := &nameServer{world: w, address: packets.LocalAddr().String(), packets: packets, streams: streams}
		n.busy.Go(n.servePackets)
		n.busy.Go(n.serveStreams)
		return n, nil
	}
	return nil, last
}

func (n *nameServer) close() error {
	err := errors.Join(n.packets.Close(), n.streams.Close())
	n.busy.Wait()
	return err
}

func (n *nameServer) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, n.address)
	}}
}

func (n *nameServer) servePackets() {
	buffer := make([]byte, 65536)
	for {
		k, from, err := n.packets.ReadFrom(buffer)
		if err != nil {
			return
		}
		if answer := n.answer(buffer[:k]); answer != nil {
			_, _ = n.packets.WriteTo(answer, from)
		}
	}
}

func (n *nameServer) serveStreams() {
	for {
		conn, err := n.streams.Accept()
		if err != nil {
			return
		}
		n.busy.Go(func() {
			defer conn.Close()
			size := make([]byte, 2)
			for {
				if _, err := io.ReadFull(conn, size); err != nil {
					return
				}
				message := make([]byte, binary.BigEndian.Uint16(size))
				if _, err := io.ReadFull(conn, message); err != nil {
					return
				}
				answer := n.answer(message)
				if answer == nil {
					return
				}
				_, _ = conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...))
			}
		})
	}
}

// The record types that are answered.
const (
	typeA    = 1
	typeTXT  = 16
	typeAAAA = 28
)

// answer is the reply to a query, nil where it is none.
func (n *nameServer) answer(q []byte) []byte {
	if len(q) < 12 {
		return nil
	}
	var labels []string
	i := 12
	for i < len(q) && q[i] != 0 && i+1+int(q[i]) < len(q) {
		labels = append(labels, string(q[i+1:i+1+int(q[i])]))
		i += 1 + int(q[i])
	}
	if i+5 > len(q) {
		return nil
	}
	name, _, _ := strings.Cut(strings.Join(labels, "."), "\x00")
	kind := binary.BigEndian.Uint16(q[i+1:])
	if _, s := n.world.zone(name); s != nil && strings.Contains(name, "leak") {
		s.hit(forbidden, "the name server was asked for "+name)
	}
	var records [][]byte
	for _, addr := range n.world.lookup(name, kind) {
		if addr.Is4() && kind == typeA || addr.Is6() && kind == typeAAAA {
			records = append(records, addr.AsSlice())
		}
	}
	if kind != typeA && kind != typeAAAA {
		kind, records = typeTXT, [][]byte{append([]byte{byte(len(canary))}, canary...)}
	}
	return reply(q[:i+5], kind, records)
}

// reply repeats the question and adds the records.
func reply(question []byte, kind uint16, records [][]byte) []byte {
	r := append([]byte{}, question...)
	r[2], r[3] = 0x81, 0x80 // an answer, recursion available
	clear(r[4:12])
	r[5], r[7] = 1, byte(len(records))
	for _, data := range records {
		r = append(r, 0xc0, 12) // the name of the question
		r = binary.BigEndian.AppendUint16(r, kind)
		r = append(r, 0, 1, 0, 0, 0, 0) // class IN, to be kept for no time
		r = binary.BigEndian.AppendUint16(r, uint16(len(data)))
		r = append(r, data...)
	}
	return r
}

func addresses(list ...string) []netip.Addr {
	var all []netip.Addr
	for _, s := range list {
		all = append(all, netip.MustParseAddr(s))
	}
	return all
}
