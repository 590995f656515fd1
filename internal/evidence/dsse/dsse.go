// Package dsse signs payloads and reads signed payloads: DSSE envelopes with one Ed25519 signature,
// read strictly. It is a leaf.
//
// Source: DSSE v1.0.2, protocol and envelope (secure-systems-lab/dsse).
package dsse

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
)

// envelope is the DSSE envelope.
type envelope struct {
	PayloadType string      `json:"payloadType"`
	Payload     string      `json:"payload"`
	Signatures  []signature `json:"signatures"`
}

// signature is one signature of an envelope.
type signature struct {
	KeyID string `json:"keyid"`
	Sig   string `json:"sig"`
}

// The fixed text of an envelope with one signature, in RFC 8785 form: the parts before each of its
// strings, and the part after the last.
const (
	beforePayload = `{"payload":"`
	beforeType    = `","payloadType":"`
	beforeKeyID   = `","signatures":[{"keyid":"`
	beforeSig     = `","sig":"`
	afterSig      = `"}]}`
)

// Sign returns the envelope of a payload in RFC 8785 form. signer holds an Ed25519 key. The
// payload type and the key id MUST be ASCII without characters that JSON escapes.
func Sign(payloadType string, payload []byte, keyID string, signer crypto.Signer) ([]byte, error) {
	for _, s := range []string{payloadType, keyID} {
		if !plain(s) || strings.ContainsAny(s, `"\`) {
			return nil, fmt.Errorf("%q cannot be used in an envelope", s)
		}
	}
	sig, err := signer.Sign(rand.Reader, preAuthentication(payloadType, payload), crypto.Hash(0))
	if err != nil {
		return nil, err
	}
	const around = len(beforePayload + beforeType + beforeKeyID + beforeSig + afterSig)
	encoding := base64.StdEncoding
	text := make([]byte, 0, around+encoding.EncodedLen(len(payload))+len(payloadType)+len(keyID)+encoding.EncodedLen(len(sig)))
	text = encoding.AppendEncode(append(text, beforePayload...), payload)
	text = append(append(text, beforeType...), payloadType...)
	text = append(append(text, beforeKeyID...), keyID...)
	text = encoding.AppendEncode(append(text, beforeSig...), sig)
	return append(text, afterSig...), nil
}

// KeyID returns the key's OpenSSH fingerprint, "SHA256:" and base64. Verifiers built with
// go-securesystemslib assign that id to a bare public key and skip signatures with another id.
// The digest covers the key type and the key, each preceded by its length (RFC 8709 section 4).
func KeyID(public ed25519.PublicKey) string {
	const kind = "ssh-ed25519"
	text := append(binary.BigEndian.AppendUint32(nil, uint32(len(kind))), kind...)
	text = append(binary.BigEndian.AppendUint32(text, uint32(len(public))), public...)
	sum := sha256.Sum256(text)
	return "SHA256:" + base64.RawStdEncoding.EncodeToString(sum[:])
}

// Opened is an envelope with a valid form. Its signature is unverified before Verify.
type Opened struct {
	Payload []byte
	// KeyID is the id of the signing key according to the envelope.
	KeyID string

	payloadType, sig string
}

// Open reads an envelope of at most the given size in bytes, with one signature over a payload of
// the given type.
func Open(text []byte, payloadType string, most int) (Opened, error) {
	if len(text) > most {
		return Opened{}, fmt.Errorf("envelope has %d bytes, the limit is %d", len(text), most)
	}
	e, err := read(text)
	if err != nil {
		return Opened{}, fmt.Errorf("reading envelope: %w", err)
	}
	if e.PayloadType != payloadType {
		return Opened{}, fmt.Errorf("payload type is %q, want %q", e.PayloadType, payloadType)
	}
	if len(e.Signatures) != 1 {
		return Opened{}, fmt.Errorf("envelope has %d signatures, want 1", len(e.Signatures))
	}
	payload, err := decode(e.Payload)
	if err != nil {
		return Opened{}, fmt.Errorf("payload: %w", err)
	}
	return Opened{payload, e.Signatures[0].KeyID, payloadType, e.Signatures[0].Sig}, nil
}

// Verify checks the signature by a key.
func (o Opened) Verify(public ed25519.PublicKey) error {
	raw, err := decode(o.sig)
	if err != nil {
		return fmt.Errorf("signature: %w", err)
	}
	if !ed25519.Verify(public, preAuthentication(o.payloadType, o.Payload), raw) {
		return errors.New("the signature does not match the payload")
	}
	return nil
}

// read parses an envelope in RFC 8785 form by cutting the text, and any other envelope with the
// JSON library.
func read(text []byte) (envelope, error) {
	if e, ok := cut(string(text)); ok {
		return e, nil
	}
	var e envelope
	err := jsonv2.Unmarshal(text, &e, jsonv2.RejectUnknownMembers(true))
	return e, err
}

// cut parses an envelope in RFC 8785 form with one signature and no escapes. ok is false for any
// other text.
func cut(text string) (e envelope, ok bool) {
	if strings.Contains(text, `\`) {
		return envelope{}, false
	}
	var s signature
	for _, member := range []struct {
		before string
		value  *string
	}{
		{beforePayload, &e.Payload}, {beforeType, &e.PayloadType}, {beforeKeyID, &s.KeyID}, {beforeSig, &s.Sig},
	} {
		if text, ok = strings.CutPrefix(text, member.before); !ok {
			return envelope{}, false
		}
		n := strings.IndexByte(text, '"')
		if n < 0 || member.value != &e.Payload && !plain(text[:n]) {
			return envelope{}, false
		}
		*member.value, text = text[:n], text[n:]
	}
	e.Signatures = []signature{s}
	return e, text == afterSig
}

// plain reports whether a JSON string without escapes is valid unchanged. The payload does not
// need this check: invalid base64 is rejected later.
func plain(s string) bool {
	for _, c := range []byte(s) {
		if c < ' ' || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// preAuthentication returns the text that the signature covers (DSSE, protocol section).
func preAuthentication(payloadType string, payload []byte) []byte {
	text := make([]byte, 0, len(payloadType)+len(payload)+64)
	text = append(text, "DSSEv1 "...)
	text = append(strconv.AppendInt(text, int64(len(payloadType)), 10), ' ')
	text = append(append(text, payloadType...), ' ')
	text = append(strconv.AppendInt(text, int64(len(payload)), 10), ' ')
	return append(text, payload...)
}

// decode decodes standard base64 in its only canonical encoding. The decoder itself would
// ignore line breaks.
func decode(text string) ([]byte, error) {
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("not standard base64: %w", err)
	}
	if base64.StdEncoding.EncodedLen(len(raw)) != len(text) {
		return nil, errors.New("not standard base64: line breaks in it")
	}
	return raw, nil
}
