package limit

import "net/netip"

// network is how many bits of an IPv6 address name a network: whoever has one
// address has all of the network's.
const network = 64

// Address is the key under which the requests of an IP address count. IPv4 addresses
// count by themselves, however they are written, and IPv6 addresses by their network
// of 64 bits. What is no IP address is a key as it is.
func Address(address string) string {
	a, err := netip.ParseAddr(address)
	if err != nil {
		return address
	}
	a = a.Unmap()
	if a.Is4() || a.IsLoopback() {
		return a.String()
	}
	zone := a.Zone()
	p, err := a.WithZone("").Prefix(network)
	switch {
	case err != nil:
		return address
	case zone != "":
		return p.String() + "%" + zone
	}
	return p.String()
}
