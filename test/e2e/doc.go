// Package e2e tests the whole product as its users run it: the programs palyrad and palyra as
// processes, mutual TLS between them, grpcurl, and bubblewrap. Nothing is simulated. A case that
// this cannot reach, such as an approval without an answer, is tested in its package.
package e2e
