// Package pairing lets a machine get its certificate over the network from a gateway that refuses
// machines without one. An operator creates a code. The machine (the candidate) and the gateway
// (the host) derive a shared key from the code with SPAKE2+ (RFC 9383), bound to their TLS
// connection. Both display the same six digits, and a person who can see both allows the pairing by
// an approval.
//
// It has four steps, of which the first three use one connection:
//
//	Begin    which code is open, its salt, the gateway's CA
//	Prove    the candidate's share, commitment and certificate request; the
//	         gateway's share and confirmation. A guess is counted here
//	Confirm  the candidate's confirmation, and the number that it committed to.
//	         The code is used up, and people are asked
//	Collect  the certificate, once the pairing is approved
//
// docs/pairing.md shows them with every field. Everything is in memory: a restart of the gateway
// ends all codes and all pairings without approval.
//
// The steps are calls and not one stream, because streams of strangers would stay open while people
// think. The exporter label is our own, as RFC 8446 requires of protocols; the label of RFC 9266 is
// for protocols without one. A member may approve a device of its own: a second person adds nothing
// against a holder of another device. The device is created by Collect, so that an abandoned
// pairing leaves none.
package pairing
