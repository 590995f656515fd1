package egress

import (
	"net/netip"

	"palyra/internal/reason"
)

// Class says what an address is for.
type Class string

// The classes. Only Public is dialled without an allow rule that names the
// address itself.
const (
	Public      Class = "public"
	Private     Class = "private"
	Loopback    Class = "loopback"
	OwnAddress  Class = "own_interface"
	Reserved    Class = "reserved"
	Unspecified Class = "unspecified"
	LinkLocal   Class = "link_local"
	Multicast   Class = "multicast"
	Broadcast   Class = "broadcast"
	Metadata    Class = "metadata"
)

// unlockable reports whether an allow rule for the literal address helps.
// Nothing that a tool does needs the others.
func (c Class) unlockable() bool {
	return c == Private || c == Loopback || c == OwnAddress || c == Reserved
}

type block struct {
	prefix netip.Prefix
	class  Class
}

func blocks(class Class, prefixes ...string) []block {
	list := make([]block, 0, len(prefixes))
	for _, p := range prefixes {
		list = append(list, block{netip.MustParsePrefix(p), class})
	}
	return list
}

// special is searched in order. Sources: the IANA IPv4 and IPv6 Special-Purpose
// Address Registries (RFC 6890) and the address plans of the large clouds for
// their metadata services.
var special = func() []block {
	var all []block
	for _, list := range [][]block{
		blocks(Metadata, "169.254.169.254/32", "169.254.170.2/32", "169.254.170.23/32", "100.100.100.200/32",
			"168.63.129.16/32", "192.0.0.192/32", "fd00:ec2::254/128", "fd00:ec2::23/128", "fd20:ce::254/128"),
		blocks(Unspecified, "0.0.0.0/8", "::/128"),
		blocks(Loopback, "127.0.0.0/8", "::1/128"),
		blocks(LinkLocal, "169.254.0.0/16", "fe80::/10", "fec0::/10"),
		blocks(Broadcast, "255.255.255.255/32"),
		blocks(Multicast, "224.0.0.0/4", "ff00::/8"),
		blocks(Private, "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7", "64:ff9b:1::/48"),
		blocks(Reserved, "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24",
			"203.0.113.0/24", "240.0.0.0/4", "2001::/23", "2001:db8::/32", "3fff::/20"),
	} {
		all = append(all, list...)
	}
	return all
}()

// globalUnicast is the one IPv6 block that IANA has given to the internet.
var globalUnicast = netip.MustParsePrefix("2000::/3")

// Classify says what an address is for, and the block it lies in when it is
// not public. An IPv4 address inside an IPv6 address (mapped, compatible,
// NAT64 of RFC 6052, 6to4 of RFC 3056, ISATAP of RFC 5214) counts as itself.
func Classify(addr netip.Addr) (Class, netip.Prefix) {
	addr = addr.Unmap().WithZone("")
	if !addr.IsValid() {
		return Unspecified, netip.Prefix{}
	}
	for _, b := range special {
		if b.prefix.Contains(addr) {
			return b.class, b.prefix
		}
	}
	if addr.Is4() {
		return Public, netip.Prefix{}
	}
	if inner, ok := embedded(addr); ok {
		class, _ := Classify(inner)
		if class != Public {
			return class, netip.PrefixFrom(addr, 128)
		}
		return Public, netip.Prefix{}
	}
	if !globalUnicast.Contains(addr) {
		return Reserved, netip.PrefixFrom(addr, 128)
	}
	return Public, netip.Prefix{}
}

var (
	compatible = netip.MustParsePrefix("::/96")
	nat64      = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour  = netip.MustParsePrefix("2002::/16")
)

// embedded returns the IPv4 address that a router or kernel would take out of
// an IPv6 address.
func embedded(addr netip.Addr) (netip.Addr, bool) {
	b := addr.As16()
	last := netip.AddrFrom4([4]byte(b[12:16]))
	switch {
	case compatible.Contains(addr), nat64.Contains(addr):
		return last, true
	case sixToFour.Contains(addr):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	case b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe && (b[8] == 0 || b[8] == 2):
		return last, true
	}
	return netip.Addr{}, false
}

// CheckAddress refuses a host that is an address and may not be dialled. For a
// name there is nothing to say before it is resolved.
func (r Rules) CheckAddress(host Host, port uint16) error {
	addr, ok := host.Addr()
	if !ok {
		return nil
	}
	class, block := Classify(addr)
	if class == Public || class.unlockable() && r.unlocks(addr, block, port) {
		return nil
	}
	return reason.Errorf(reason.EgressDenied, "%s is not a public address (%s)", host, class)
}
