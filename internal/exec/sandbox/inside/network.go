package inside

import "slices"

// Network is the way out of a sandbox whose tool may reach some hosts. In a
// network namespace that leads nowhere, palyra-init makes every address a local
// one, listens where a tool may want to connect, hands the listeners to palyrad
// and keeps none: what a tool connects to is accepted outside.
type Network struct {
	// Outside is the inode number of palyrad's network namespace, which must be
	// another one.
	Outside uint64
	// Ports are those of every address, ascending and without repeats.
	Ports []uint16
}

// Ports on 127.0.0.1 for tools that ask for names, or that know a proxy.
const (
	NamesPort = 53 // UDP and TCP
	SOCKSPort = 1080
	HTTPPort  = 3128
)

// Bounds of a Network.
const (
	MaxPorts     = 64
	MaxListeners = 4 + MaxPorts
)

// Families of addresses, as a Report has them.
const (
	IPv4 = "ipv4"
	IPv6 = "ipv6"
)

// Valid reports whether Ports are ascending, without 0 and repeats, and at most
// MaxPorts.
func (n Network) Valid() bool {
	for i, port := range n.Ports {
		if port == 0 || i > 0 && port <= n.Ports[i-1] {
			return false
		}
	}
	return len(n.Ports) <= MaxPorts
}

// Listener is one socket. It listens at 127.0.0.1, or Everywhere.
type Listener struct {
	Port       uint16
	UDP        bool
	Everywhere bool
}

// Listeners are all of n, in the order in which they are handed out. A port has
// one TCP listener: if the name service's port 53 is also in Ports, the one that is
// Everywhere serves both. Two on one port would need SO_REUSEPORT, and with it the
// tool, which is the same user, could open a third and take connections.
func (n Network) Listeners() []Listener {
	list := []Listener{{Port: NamesPort, UDP: true}}
	for _, port := range []uint16{NamesPort, HTTPPort, SOCKSPort} {
		if !slices.Contains(n.Ports, port) {
			list = append(list, Listener{Port: port})
		}
	}
	for _, port := range n.Ports {
		list = append(list, Listener{Port: port, Everywhere: true})
	}
	return list
}
