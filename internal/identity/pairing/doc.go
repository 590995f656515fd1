// Package pairing lets a machine get its certificate over the network, from a
// gateway that lets nobody in without one. An operator makes a code; the machine
// (the candidate) and the gateway (the host) turn the code into a shared key by
// SPAKE2+ (RFC 9383), bound to the TLS connection that they speak over; both show
// the same six digits; and a person who can see both allows it by an approval.
//
// Four steps cross, of which the first three are on one connection:
//
//	Begin    which code is open, its salt, the gateway's CA
//	Prove    the candidate's share, commitment and certificate request; the
//	         gateway's share and confirmation. A guess is counted here
//	Confirm  the candidate's confirmation, and the number that it committed to.
//	         The code is used up, and people are asked
//	Collect  the certificate, once somebody allowed it
//
// docs/pairing.md draws them, with every field. Everything is in memory: a restart
// of the gateway ends all codes and every pairing that nobody allowed yet.
package pairing
