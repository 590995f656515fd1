package dns

import (
	"crypto/rand"
	"encoding/binary"
	"net/netip"

	"palyra/internal/egress"
)

// mostNames limits the names for which a program can get addresses.
const mostNames = 4096

// pool permanently assigns every name one address of each family. Both have the same number:
// one in 198.18.0.0/15, which is reserved for benchmark tests and not routed (RFC 2544), and
// one in a prefix of fd00::/8 (RFC 4193). The prefix, and the first number in 198.18.0.0/15,
// are random, so that an address in real use is mistaken for a name only with a small
// probability.
type pool struct {
	// hosts are the assigned names; the number of a host is its index plus one.
	hosts   []egress.Host
	numbers map[egress.Host]uint32

	begin   uint32
	prefix6 netip.Prefix
}

const bits6 = 96

var prefix4 = netip.MustParsePrefix("198.18.0.0/15")

// most4 is the last number with an address in prefix4; it is also used as a mask.
const most4 = 1<<17 - 1

func newPool() pool {
	var random [16]byte
	_, _ = rand.Read(random[:]) // it never fails
	random[0] = 0xfd
	prefix, _ := netip.AddrFrom16(random).Prefix(bits6) // it has that many bits
	return pool{numbers: map[egress.Host]uint32{}, begin: binary.BigEndian.Uint32(random[12:]) & most4, prefix6: prefix}
}

// number returns the number of a host, and whether it is new; 0 if the limit is reached.
func (p *pool) number(h egress.Host) (n uint32, isNew bool) {
	if n, ok := p.numbers[h]; ok {
		return n, false
	}
	if len(p.hosts) == mostNames {
		return 0, false
	}
	p.hosts = append(p.hosts, h)
	n = uint32(len(p.hosts)) // at most mostNames
	p.numbers[h] = n
	return n, true
}

// addresses returns the addresses of a number. In 198.18.0.0/15 the last address is followed by
// the first.
func (p *pool) addresses(n uint32) (netip.Addr, netip.Addr) {
	a, b := prefix4.Addr().As4(), p.prefix6.Addr().As16()
	binary.BigEndian.PutUint32(a[:], binary.BigEndian.Uint32(a[:])|(p.begin+n)&most4)
	binary.BigEndian.PutUint32(b[12:], n)
	return netip.AddrFrom4(a), netip.AddrFrom16(b)
}

// lookup returns the host of an address. It is the inverse of addresses.
func (p *pool) lookup(addr netip.Addr) (egress.Host, bool) {
	addr = addr.Unmap()
	var n uint32
	switch {
	case prefix4.Contains(addr):
		a := addr.As4()
		n = (binary.BigEndian.Uint32(a[:]) - p.begin) & most4
	case p.prefix6.Contains(addr):
		a := addr.As16()
		n = binary.BigEndian.Uint32(a[12:])
	}
	if n == 0 || uint64(n) > uint64(len(p.hosts)) {
		return egress.Host{}, false
	}
	return p.hosts[n-1], true
}

// Lookup returns the name of an address, and false for an unassigned address.
func (s *Service) Lookup(addr netip.Addr) (egress.Host, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pool.lookup(addr)
}

// addresses returns the addresses of a name, new ones for a new name, and false if the limit of
// names is reached.
func (s *Service) addresses(h egress.Host) (netip.Addr, netip.Addr, bool) {
	s.mu.Lock()
	n, isNew := s.pool.number(h)
	s.mu.Unlock()
	if isNew {
		s.note(h, egress.VerdictAllowed, "")
	}
	v4, v6 := s.pool.addresses(n)
	return v4, v6, n != 0
}

// refusal is a refused name with the reason.
type refusal struct {
	host   egress.Host
	reason string
}

// refuse records a refused name once, although a resolver asks for addresses of both families and
// retries. An invalid host has no name in the log.
func (s *Service) refuse(h egress.Host, reason string) {
	s.mu.Lock()
	r := refusal{h, reason}
	known := s.noted[r]
	if len(s.noted) < mostNames {
		s.noted[r] = true
	}
	s.mu.Unlock()
	if !known {
		s.note(h, egress.VerdictDenied, reason)
	}
}

func (s *Service) note(h egress.Host, verdict, reason string) {
	e := s.log.Begin(egress.LegName, egress.Target{Host: h})
	e.Decide(verdict, reason, egress.Rule{}, netip.Addr{})
	e.End()
}
