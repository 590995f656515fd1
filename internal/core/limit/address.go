package limit

import "net/netip"

// network is the prefix length of an IPv6 network: the holder of one address has all addresses of
// the network.
const network = 64

// Address returns the key under which the requests of an IP address count. IPv4 addresses count
// individually in any notation, and IPv6 addresses by their network of 64 bits. Any other text is a
// key as it is.
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
