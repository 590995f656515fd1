package egress

import (
	"net/netip"

	"palyra/internal/core/reason"
)

// Class is the purpose of an address.
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

// unlockable reports whether an allow rule for the literal address takes effect. Tools have no use
// for the other classes.
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

// globalUnicast is the only IPv6 block that IANA has allocated to the internet.
var globalUnicast = netip.MustParsePrefix("2000::/3")

// Classify returns the purpose of an address, and its block if the address is not public. An
// IPv4 address embedded in an IPv6 address is classified too. If it is not public, its class
// applies if the outer address is public, or if a rule could unlock the outer address but not
// the inner one.
func Classify(addr netip.Addr) (Class, netip.Prefix) {
	addr = addr.Unmap().WithZone("")
	if !addr.IsValid() {
		return Unspecified, netip.Prefix{}
	}
	class, block := classifyOuter(addr)
	inner, ok := embedded(addr)
	if !ok {
		return class, block
	}
	innerClass, _ := Classify(inner)
	if innerClass != Public && (class == Public || class.unlockable() && !innerClass.unlockable()) {
		return innerClass, single(addr)
	}
	return class, block
}

// classifyOuter classifies the address without an embedded one. Outside the space that IANA has
// allocated to the internet, only the NAT64 prefix is public.
func classifyOuter(addr netip.Addr) (Class, netip.Prefix) {
	for _, b := range special {
		if b.prefix.Contains(addr) {
			return b.class, b.prefix
		}
	}
	if addr.Is4() || globalUnicast.Contains(addr) || nat64.Contains(addr) {
		return Public, netip.Prefix{}
	}
	return Reserved, single(addr)
}

// single returns the prefix that contains only one address.
func single(addr netip.Addr) netip.Prefix { return netip.PrefixFrom(addr, addr.BitLen()) }

// The forms of IPv6 that hold an IPv4 address.
var (
	compatible = netip.MustParsePrefix("::/96")           // RFC 4291 section 2.5.5.1
	translated = netip.MustParsePrefix("::ffff:0:0:0/96") // RFC 2765
	nat64      = netip.MustParsePrefix("64:ff9b::/96")    // RFC 6052
	localNAT64 = netip.MustParsePrefix("64:ff9b:1::/48")  // RFC 8215, as /96 of RFC 6052
	sixToFour  = netip.MustParsePrefix("2002::/16")       // RFC 3056
	teredo     = netip.MustParsePrefix("2001::/32")       // RFC 4380: the client, inverted
)

// embedded returns the IPv4 address that a router or kernel would extract from an IPv6 address.
// ISATAP (RFC 5214) is recognised by the last 64 bits.
func embedded(addr netip.Addr) (netip.Addr, bool) {
	addr = addr.Unmap()
	if !addr.Is6() || addr.IsLoopback() || addr.IsUnspecified() {
		return netip.Addr{}, false
	}
	b := addr.As16()
	last := [4]byte(b[12:])
	switch {
	case teredo.Contains(addr):
		for i := range last {
			last[i] ^= 0xff
		}
	case sixToFour.Contains(addr):
		last = [4]byte(b[2:6])
	case compatible.Contains(addr), translated.Contains(addr), nat64.Contains(addr), localNAT64.Contains(addr):
	case (b[8] == 0 || b[8] == 2) && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe:
	default:
		return netip.Addr{}, false
	}
	return netip.AddrFrom4(last), true
}

// CheckAddress refuses a host that is an address and may not be dialled. It accepts every name:
// names are checked after resolution.
func (r Rules) CheckAddress(host Host, port uint16) error {
	addr, ok := host.Addr()
	if !ok {
		return nil
	}
	if r.Gateway.Listens(addr, port, nil) {
		return reason.Errorf(reason.EgressDenied, "the gateway itself listens on %s", host.Join(port)).
			WithRemedy("Programs that the gateway runs must not call the gateway; no rule can permit it.")
	}
	class, block := Classify(addr)
	if class == Public || class.unlockable() && r.unlocks(addr, block, port) {
		return nil
	}
	return reason.Errorf(reason.EgressDenied, "%s is not a public address (%s)", host, class)
}
