package egress

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// dnsServer is a name server on the loopback interface, over UDP and TCP.
type dnsServer struct {
	resolver *net.Resolver
	// answers of a name, one list for each time that it is asked for; the last
	// one stays. A name that is not there does not exist, one without lists gets
	// no answer at all. "cname:" stands for an alias.
	answers map[string][]string

	mu    sync.Mutex
	asked map[dnsmessage.Question]int
}

func newDNSServer(t *testing.T, answers map[string][]string) *dnsServer {
	t.Helper()
	packets, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	streams, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		packets.Close()
		t.Fatal(err)
	}
	s := &dnsServer{answers: answers, asked: map[dnsmessage.Question]int{}}
	s.resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		to := packets.LocalAddr()
		if strings.HasPrefix(network, "tcp") {
			to = streams.Addr()
		}
		return new(net.Dialer).DialContext(ctx, network, to.String())
	}}
	var serving sync.WaitGroup
	serving.Go(func() { s.servePackets(packets) })
	serving.Go(func() { s.serveStreams(streams) })
	t.Cleanup(func() {
		packets.Close()
		streams.Close()
		serving.Wait()
	})
	return s
}

func (s *dnsServer) servePackets(conn net.PacketConn) {
	buffer := make([]byte, 4096)
	for {
		n, from, err := conn.ReadFrom(buffer)
		if err != nil {
			return
		}
		answer := s.answer(buffer[:n])
		if len(answer) > 1232 { // the client comes again by TCP
			answer = s.truncated(buffer[:n])
		}
		if answer != nil {
			_, _ = conn.WriteTo(answer, from)
		}
	}
}

func (s *dnsServer) serveStreams(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		var length [2]byte
		if _, err := io.ReadFull(conn, length[:]); err == nil {
			query := make([]byte, binary.BigEndian.Uint16(length[:]))
			if _, err := io.ReadFull(conn, query); err == nil {
				answer := s.answer(query)
				_, _ = conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...))
			}
		}
		conn.Close()
	}
}

func (s *dnsServer) truncated(query []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(query) != nil {
		return nil
	}
	m.Response, m.Truncated, m.Additionals = true, true, nil
	packed, _ := m.Pack()
	return packed
}

func (s *dnsServer) answer(query []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(query) != nil || len(m.Questions) != 1 {
		return nil
	}
	q := m.Questions[0]
	name := strings.TrimSuffix(q.Name.String(), ".")
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	s.mu.Lock()
	defer s.mu.Unlock()
	lists, known := s.answers[name]
	switch {
	case !known:
		m.RCode = dnsmessage.RCodeNameError
	case len(lists) == 0:
		return nil
	default:
		list := lists[min(s.asked[q], len(lists)-1)]
		m.Answers = records(q.Name, q.Type, strings.Fields(list))
	}
	s.asked[q]++
	packed, err := m.Pack()
	if err != nil {
		panic(err)
	}
	return packed
}

// records are the answers for one question, those for an alias after the alias.
func records(name dnsmessage.Name, kind dnsmessage.Type, list []string) []dnsmessage.Resource {
	var out []dnsmessage.Resource
	for _, text := range list {
		head := dnsmessage.ResourceHeader{Name: name, Class: dnsmessage.ClassINET, TTL: 1}
		if alias, ok := strings.CutPrefix(text, "cname:"); ok {
			to := dnsmessage.MustNewName(alias + ".")
			out = append(out, dnsmessage.Resource{Header: head, Body: &dnsmessage.CNAMEResource{CNAME: to}})
			name = to
			continue
		}
		addr := netip.MustParseAddr(text)
		switch {
		case kind == dnsmessage.TypeA && addr.Is4():
			out = append(out, dnsmessage.Resource{Header: head, Body: &dnsmessage.AResource{A: addr.As4()}})
		case kind == dnsmessage.TypeAAAA && addr.Is6():
			out = append(out, dnsmessage.Resource{Header: head, Body: &dnsmessage.AAAAResource{AAAA: addr.As16()}})
		}
	}
	return out
}

// questions is how often a name was asked for, by all types together.
func (s *dnsServer) questions(name string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for q, times := range s.asked {
		if q.Name.String() == name+"." {
			n += times
		}
	}
	return n
}
