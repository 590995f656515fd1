package inside

import "slices"

// Network gives the tool of a sandbox access to some hosts. The network namespace has no route to
// other networks. palyra-init makes every address a local one, listens at the allowed ports and
// offers the listeners to palyrad. The tool receives none of them, and its connections are
// accepted outside.
type Network struct {
	// Outside is the inode number of palyrad's network namespace, which must be a different one.
	Outside uint64
	// Ports are the allowed ports of every address, ascending and without duplicates.
	Ports []uint16
	// Offline leaves the addresses of the namespace as they are: palyrad only answers names, with
	// refusals. It needs no capability to add routes.
	Offline bool
}

// Ports on 127.0.0.1 for name resolution and for tools that use a proxy.
const (
	NamesPort = 53 // UDP and TCP
	SOCKSPort = 1080
	HTTPPort  = 3128
)

// Limits of a Network.
const (
	MaxPorts     = 64
	MaxListeners = 4 + MaxPorts
)

// Address families, as in a Report.
const (
	IPv4 = "ipv4"
	IPv6 = "ipv6"
)

// Valid reports whether Ports are ascending, without 0 and duplicates, and at most MaxPorts.
func (n Network) Valid() bool {
	for i, port := range n.Ports {
		if port == 0 || i > 0 && port <= n.Ports[i-1] {
			return false
		}
	}
	return len(n.Ports) <= MaxPorts
}

// Listener is one socket. It listens at 127.0.0.1, or at every address if Everywhere is set.
type Listener struct {
	Port       uint16
	UDP        bool
	Everywhere bool
}

// Listeners returns all listeners of n, in the order in which they are passed. A port has one
// TCP listener. If port 53 of the name service is also in Ports, the listener at every address
// serves both. Two listeners on one port would need SO_REUSEPORT. The tool, which runs as the
// same user, could then open a third listener and take connections.
func (n Network) Listeners() []Listener {
	list := []Listener{{Port: NamesPort, UDP: true}}
	services := []uint16{NamesPort, HTTPPort, SOCKSPort}
	if n.Offline {
		services = services[:1]
	}
	for _, port := range services {
		if !slices.Contains(n.Ports, port) {
			list = append(list, Listener{Port: port})
		}
	}
	for _, port := range n.Ports {
		list = append(list, Listener{Port: port, Everywhere: true})
	}
	return list
}
