// Package passkeytest is a software authenticator with its browser, for tests: ES256, attestation
// "none" or "packed" by the passkey itself. It can be configured to misbehave.
package passkeytest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/identity/passkey"
)

// AAGUID is the authenticator's model.
const AAGUID = "70616c79-7261-7465-7374-000000000001"

var aaguid = []byte("palyratest\x00\x00\x00\x00\x00\x01")

// Authenticator holds one passkey.
type Authenticator struct {
	ID  []byte
	key *ecdsa.PrivateKey
	// Count is the next counter in an answer. The authenticator increments it unless it is 0.
	Count uint32
	// Unverified clears the flag that the user was verified.
	Unverified bool
	// Origin and RPID are the values of the page. An empty RPID selects the value from the options.
	Origin, RPID string
	// Packed adds an attestation by the passkey itself, or by the maker if one is set.
	Packed bool
	Maker  *Maker
	// CrossOrigin means that the page was embedded in another.
	CrossOrigin bool
}

// New creates an authenticator for a page of an origin.
func New(t testing.TB, origin string) *Authenticator {
	t.Helper()
	a := &Authenticator{ID: make([]byte, 32), key: must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t), Origin: origin}
	must.Get(rand.Read(a.ID))(t)
	return a
}

// PublicKey returns the public key in the form that the gateway stores.
func (a *Authenticator) PublicKey(t testing.TB) []byte {
	t.Helper()
	return must.Get(x509.MarshalPKIXPublicKey(&a.key.PublicKey))(t)
}

// options are the parts of creation and request options that the authenticator reads.
type options struct {
	Challenge string `json:"challenge"`
	RPID      string `json:"rpId"`
	RP        struct {
		ID string `json:"id"`
	} `json:"rp"`
}

// Create answers creation options with a credential. Both are JSON (WebAuthn Level 3, section
// 5.1).
func (a *Authenticator) Create(t testing.TB, creation string) string {
	t.Helper()
	var o options
	must.Do(t, json.Unmarshal([]byte(creation), &o))
	client := a.client(t, "webauthn.create", o.Challenge)
	data := a.data(o.RP.ID, 1<<6)
	data = append(data, aaguid...)
	data = binary.BigEndian.AppendUint16(data, uint16(len(a.ID)))
	data = append(append(data, a.ID...), a.COSE(t)...)
	format, statement := "none", []byte{0xa0}
	if a.Packed {
		format = "packed"
		statement = cborMap(cborText("alg"), []byte{0x26}, cborText("sig"), cborBytes(a.sign(t, data, client)))
		if m := a.Maker; m != nil {
			chain := append([]byte{0x81}, cborBytes(m.leaf)...)
			statement = cborMap(cborText("alg"), []byte{0x26}, cborText("sig"), cborBytes(signWith(t, m.key, data, client)), cborText("x5c"), chain)
		}
	}
	object := cborMap(cborText("fmt"), cborText(format), cborText("attStmt"), statement, cborText("authData"), cborBytes(data))
	id := text(a.ID)
	return string(must.Get(json.Marshal(map[string]any{
		"id": id, "rawId": id, "type": "public-key", "clientExtensionResults": map[string]any{},
		"response": map[string]any{"clientDataJSON": text(client), "attestationObject": text(object), "transports": []string{"internal"}},
	}))(t))
}

// Get answers request options.
func (a *Authenticator) Get(t testing.TB, request string) passkey.Assertion {
	t.Helper()
	var o options
	must.Do(t, json.Unmarshal([]byte(request), &o))
	return a.Sign(t, o.RPID, must.Get(base64.RawURLEncoding.DecodeString(o.Challenge))(t))
}

// Sign answers a challenge.
func (a *Authenticator) Sign(t testing.TB, rpID string, challenge []byte) passkey.Assertion {
	t.Helper()
	client, data := a.client(t, "webauthn.get", text(challenge)), a.data(rpID, 0)
	return passkey.Assertion{CredentialID: a.ID, AuthenticatorData: data, ClientDataJSON: client, Signature: a.sign(t, data, client)}
}

func (a *Authenticator) client(t testing.TB, ceremony, challenge string) []byte {
	return must.Get(json.Marshal(map[string]any{"type": ceremony, "challenge": challenge, "origin": a.Origin, "crossOrigin": a.CrossOrigin}))(t)
}

func (a *Authenticator) data(rpID string, flags byte) []byte {
	if a.RPID != "" {
		rpID = a.RPID
	}
	if flags |= 1; !a.Unverified {
		flags |= 1 << 2
	}
	hash := sha256.Sum256([]byte(rpID))
	data := binary.BigEndian.AppendUint32(append(hash[:], flags), a.Count)
	if a.Count > 0 {
		a.Count++
	}
	return data
}

func (a *Authenticator) sign(t testing.TB, data, client []byte) []byte {
	return signWith(t, a.key, data, client)
}

func signWith(t testing.TB, key *ecdsa.PrivateKey, data, client []byte) []byte {
	hash := sha256.Sum256(client)
	digest := sha256.Sum256(append(append([]byte{}, data...), hash[:]...))
	return must.Get(ecdsa.SignASN1(rand.Reader, key, digest[:]))(t)
}

// COSE returns the public key as a COSE_Key (RFC 9053, section 7.1.1).
func (a *Authenticator) COSE(t testing.TB) []byte {
	point := must.Get(a.key.PublicKey.Bytes())(t) // 4, x, y
	return cborMap([]byte{0x01}, []byte{0x02}, []byte{0x03}, []byte{0x26}, []byte{0x20}, []byte{0x01},
		[]byte{0x21}, cborBytes(point[1:33]), []byte{0x22}, cborBytes(point[33:]))
}

func text(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// cborHead and the following functions encode the CBOR (RFC 8949) of a credential.
func cborHead(major byte, n int) []byte {
	switch {
	case n < 24:
		return []byte{major<<5 | byte(n)}
	case n < 256:
		return []byte{major<<5 | 24, byte(n)}
	}
	return []byte{major<<5 | 25, byte(n >> 8), byte(n)}
}

func cborBytes(b []byte) []byte { return append(cborHead(2, len(b)), b...) }
func cborText(s string) []byte  { return append(cborHead(3, len(s)), s...) }

// cborMap encodes a map of alternating keys and values.
func cborMap(parts ...[]byte) []byte {
	out := cborHead(5, len(parts)/2)
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}
