// Package conformance runs the official conformance suite of MCP against a server, and against
// the same server behind the gateway. `make conformance` installs the pinned versions of the
// suite, and runs it without any network except loopback. A test fails if a scenario passes
// fewer checks through the gateway than directly.
package conformance
