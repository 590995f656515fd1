// Package conformance runs the official conformance suite of MCP against a server, and
// against the same server behind the gateway. `make conformance` does it: it installs the
// pinned versions of the suite, and no network is there but loopback. A scenario that
// passes fewer checks through the gateway than directly is lost, and a test's error.
package conformance
