package egress

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"palyra/internal/core/reason"
)

// objection is the reason why an address is not dialled.
type objection struct {
	addr netip.Addr
	why  string // one of the reasons
	rule Rule
	text string
}

// drop is an address of a target that was dropped.
type drop struct {
	target Target
	addr   netip.Addr
}

// candidates removes the addresses that may not be dialled, and moves addresses that failed before
// to the end. If none is left, it returns one error for all.
func (d *Dialer) candidates(t Target, found []netip.Addr, e *Entry) ([]netip.Addr, error) {
	own, err := d.ownAddresses()
	if err != nil {
		e.Decide(VerdictDenied, ReasonAddressNotPublic, Rule{}, netip.Addr{})
		return nil, err
	}
	var safe []netip.Addr
	var dropped []objection
	for _, addr := range found {
		if o, ok := d.Rules.object(addr, t.Port, own); ok {
			dropped = append(dropped, o)
		} else {
			safe = append(safe, addr)
		}
	}
	if len(safe) > 0 {
		d.recordDropped(t, dropped, e)
		return d.order(safe), nil
	}
	last := len(dropped) - 1
	d.recordDropped(t, dropped[:last], e)
	o := dropped[last]
	e.Decide(VerdictDenied, o.why, o.rule, o.addr)
	return nil, o.err(t)
}

func (o objection) err(t Target) error {
	return reason.Errorf(reason.EgressDenied, "%s: its address %s", t, o.text)
}

// recordDropped records each address of a target once, regardless of the number of connections to
// the target.
func (d *Dialer) recordDropped(t Target, list []objection, e *Entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, o := range list {
		if d.dropped[drop{t, o.addr}] {
			continue
		}
		if d.dropped == nil {
			d.dropped = map[drop]bool{}
		}
		if len(d.dropped) < maxRemembered {
			d.dropped[drop{t, o.addr}] = true
		}
		e.beside(VerdictDenied, o.why, o.rule, o.addr)
	}
}

// order returns the addresses, with the ones to which a connection failed at the end.
func (d *Dialer) order(addrs []netip.Addr) []netip.Addr {
	d.mu.Lock()
	defer d.mu.Unlock()
	var last []netip.Addr
	first := slices.DeleteFunc(addrs, func(a netip.Addr) bool {
		if d.last[a] {
			last = append(last, a)
		}
		return d.last[a]
	})
	return append(first, last...)
}

// object returns the reason why an address may not be dialled, and false if it may. An address that
// embeds another is checked as both.
func (r Rules) object(addr netip.Addr, port uint16, own []netip.Addr) (objection, bool) {
	all := denoted(addr)
	if r.Gateway.Listens(addr, port, own) {
		return objection{addr, ReasonGateway, Rule{}, "is where the gateway itself listens"}, true
	}
	for _, a := range all {
		if i := find(r.Deny, HostOf(a), port); i >= 0 {
			return objection{addr, ReasonDeniedRule, r.Deny[i], "is denied"}, true
		}
	}
	class, block := Classify(addr)
	if class == Public && slices.ContainsFunc(all, func(a netip.Addr) bool { return slices.Contains(own, a) }) {
		class, block = OwnAddress, single(addr)
	}
	if class == Public || class.unlockable() && r.unlocks(addr, block, port) {
		return objection{}, false
	}
	return objection{addr, ReasonAddressNotPublic, Rule{}, fmt.Sprintf("is not public (%s)", class)}, true
}

// ownFor is how long the list of the machine's own addresses is cached: reading the list takes
// longer than the rest of a check.
const ownFor = time.Second

func (d *Dialer) ownAddresses() ([]netip.Addr, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.ownRead.IsZero() && time.Since(d.ownRead) < ownFor {
		return d.own, nil
	}
	list := d.Interfaces
	if list == nil {
		list = interfaceAddresses
	}
	own, err := list()
	if err != nil {
		return nil, reason.Errorf(reason.EgressDenied, "listing the machine's own addresses: %w", err)
	}
	d.own, d.ownRead = own, time.Now()
	return own, nil
}

func interfaceAddresses() ([]netip.Addr, error) {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	addrs := make([]netip.Addr, 0, len(list))
	for _, a := range list {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			addrs = append(addrs, prefix.Addr().Unmap())
		}
	}
	return addrs, nil
}

// checkNotOwn objects to a connection that reached this machine itself, although the address
// was not on an interface when the interfaces were listed: both ends then have the same
// address. It refuses this for public addresses, and for every address on which the gateway
// listens.
func (r Rules) checkNotOwn(conn net.Conn, t Target, addr netip.Addr) (objection, bool) {
	local, ok := conn.LocalAddr().(*net.TCPAddr)
	if !ok || local.AddrPort().Addr().Unmap() != addr {
		return objection{}, false
	}
	return r.object(addr, t.Port, []netip.Addr{addr})
}
