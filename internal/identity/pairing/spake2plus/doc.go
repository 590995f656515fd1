// Package spake2plus is SPAKE2+ of RFC 9383 with the ciphersuite
// P256-SHA256-HKDF-SHA256-HMAC-SHA256: two sides that know the same short
// secret agree on a strong key, and whoever does not know it tests one guess
// for each exchange that it takes part in, and none by listening.
//
// The prover is the side that was told the PIN (a device). The verifier is the
// side that holds its Record (the gateway). Three messages cross:
//
//	prover    Derive(pin), NewProver      shareP ->
//	verifier  Derive(pin).Record()        <- shareV, confirmV    NewVerifier(shareP)
//	prover    Finish(shareV, confirmV)    confirmP ->
//	verifier                                                     Finish(confirmP)
//
// The order is in the types: a verifier cannot exist before it has seen shareP,
// and a prover gives out confirmP only after it has checked confirmV. A prover
// and a verifier are for one exchange; their Finish works once.
//
// # What the caller has to do
//
//   - Count a guess when a verifier is made, whether the exchange ends or not:
//     confirmV has told the other side by then whether its guess was right.
//   - Give both sides the same Context, bound to the connection (TLS exporter)
//     and to the keys of both ends. A man in the middle has two connections, so
//     the contexts differ and the confirmations fail.
//   - Tell the other side nothing but "failed". Which error it was is for logs.
//
// # What is constant-time
//
// Arithmetic on secrets is: points by nistec, the reduction of the derived
// secrets modulo the group's order by bigmod, the comparison of confirmations by
// crypto/hmac. No secret is ever a math/big number. Not constant-time are: what
// depends on the lengths of PIN, salt, identities and context; Argon2id, which
// after the first half of its first pass reads memory at places that depend on
// the PIN; and everything that looks at
// messages alone, which are public. Whether a share cancels the password's part
// is told by an error, as a wrong confirmation is: both are one guess.
//
// Secrets are overwritten when a side ends, as far as Go allows: copies that the
// runtime, nistec or crypto/hmac made stay in memory until they are reused.
package spake2plus
