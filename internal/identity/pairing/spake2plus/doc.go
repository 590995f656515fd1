// Package spake2plus is SPAKE2+ of RFC 9383 with the ciphersuite
// P256-SHA256-HKDF-SHA256-HMAC-SHA256: two sides that know the same short secret agree on a
// strong key. A side that does not know the secret can test one guess in each exchange, and
// none by listening.
//
// The prover is the side that received the PIN (a device). The verifier is the side that holds
// the PIN's Record (the gateway). An exchange has three messages:
//
//	prover    Derive(pin), NewProver      shareP ->
//	verifier  Derive(pin).Record()        <- shareV, confirmV    NewVerifier(shareP)
//	prover    Finish(shareV, confirmV)    confirmP ->
//	verifier                                                     Finish(confirmP)
//
// The types enforce the order: a verifier is created from shareP, and a prover returns confirmP
// only after it has checked confirmV. A prover and a verifier are for one exchange: Finish
// succeeds at most once.
//
// # Requirements for the caller
//
//   - Count a guess when a verifier is created, whether the exchange ends or not:
//     confirmV has then already revealed to the other side whether its guess was right.
//   - Give both sides the same Context, bound to the connection (TLS exporter)
//     and to the keys of both ends. A man in the middle has two connections, so
//     the contexts differ and the confirmations fail.
//   - Send the other side only "failed". The specific error is for logs.
//
// # Constant-time operations
//
// Arithmetic on secrets is constant-time: points by nistec, the reduction of the derived
// secrets modulo the group's order by bigmod, the comparison of confirmations by crypto/hmac.
// No secret is ever a math/big number. The following operations are not constant-time:
// operations that depend on the lengths of PIN, salt, identities and context; Argon2id, which
// after the first half of its first pass reads memory at addresses that depend on the PIN; and
// all processing of messages, which are public. An error reveals whether a share cancels the
// password's part, just as a wrong confirmation does: both are one guess.
//
// Secrets are overwritten when a side has finished, as far as Go permits. Copies made by the
// runtime, nistec or crypto/hmac remain in memory until it is reused.
//
// # Source of the code
//
// No widely used Go library of RFC 9383 is known. The group is the implementation of the
// standard library, which its author exports as filippo.io/nistec; crypto/elliptic is
// deprecated for such use and not constant-time. The rest is the RFC's arithmetic, compared
// with its vectors.
package spake2plus
