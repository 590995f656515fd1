// Package attest makes and checks attestations: signed statements of what ran,
// under which decision, in which isolation, with which result.
//
// An attestation is an in-toto Statement v1 in a DSSE envelope, signed with
// Ed25519 by the gateway's notary key, whose certificate the gateway's own
// authority signed. docs/format/attestation.md is the specification. A Notary
// signs; Verify needs nothing but the envelope and an exported KeySet, so it
// works offline and without trust in the daemon.
//
// A predicate holds only what an executor reported and read back. What was
// asked for and not reached is always listed as a downgrade.
package attest
