//go:build linux

package attack

import (
	"encoding/binary"
	"net/netip"
	"strings"
)

// These are the record types that the name server answers.
const (
	typeA    = 1
	typeTXT  = 16
	typeAAAA = 28
)

// answer returns the name server's reply to a query, or nil if it does not reply. It reads
// names as the C library does, up to the first zero byte.
func (w *world) answer(q []byte) []byte {
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
	if _, s := w.zone(name); s != nil && strings.Contains(name, "leak") {
		s.hit(forbidden, "the name server was asked for "+name)
	}
	var records [][]byte
	for _, addr := range w.lookup(name, kind) {
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
		r = append(r, 0, 1, 0, 0, 0, 0) // class IN, TTL 0
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
