// Package e2e holds tests that drive the whole product as its users do: the
// programs palyrad and palyra as processes, mutual TLS between them, grpcurl,
// and bubblewrap. Nothing is faked. What cannot be reached in this way, such as
// an approval that nobody answers in time, is tested beside its package.
package e2e
