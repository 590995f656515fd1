// Package egress runs common clients of programs inside the real sandbox, with a grant for some
// hosts: curl, wget, git, Python, Node.js, npm, pip, Go and Java. With or without proxy support,
// each must reach the allowed hosts, over IPv4 and IPv6, and no others. The hosts are a name server
// and servers on loopback, to which the daemon's side maps made-up public addresses. Every other
// connection that leaves a sandbox is detected and fails the test. The daemon's record of a run is
// compared with the actions of the program.
package egress
