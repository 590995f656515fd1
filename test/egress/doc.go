// Package egress runs the clients that programs are made of inside the real
// sandbox, with a grant for some hosts: curl, wget, git, Python, Node.js, npm,
// pip, Go and Java. Whether they know of proxies or not, all of them have to
// reach the hosts that are allowed, over IPv4 and IPv6, and nothing else. The
// world outside is a name server and servers on loopback, for which the daemon's
// side takes made-up public addresses; every connection that leaves a sandbox
// for anywhere else is seen and fails the test. What the daemon recorded of a
// run is compared with what the program did.
package egress
