// Package attest creates and verifies attestations: signed statements about an execution, its
// decision, its isolation and its result.
//
// An attestation is an in-toto Statement v1 in a DSSE envelope, signed with Ed25519 by the
// gateway's notary key, whose certificate the gateway's own authority signed.
// docs/format/attestation.md is the specification. A Notary signs; Verify needs only the
// envelope and an exported KeySet, so it works offline and without trust in the daemon.
//
// A predicate holds only values that an executor reported and read back. Requested settings
// that were not achieved are always listed as downgrades.
package attest
