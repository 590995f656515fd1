// Package e2e tests the whole product as its users run it: the programs palyrad and palyra as
// processes, mutual TLS between them, grpcurl, and bubblewrap. Nothing is simulated. Cases that
// this setup cannot reach, such as an approval without an answer, are tested in their packages.
package e2e
