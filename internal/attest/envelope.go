package attest

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
)

// envelope is the DSSE envelope, read strictly.
type envelope struct {
	PayloadType string      `json:"payloadType"`
	Payload     string      `json:"payload"`
	Signatures  []signature `json:"signatures"`
}

type signature struct {
	KeyID string `json:"keyid"`
	Sig   string `json:"sig"`
}

// open reads the envelope and returns its payload and its one signature.
func open(text []byte) ([]byte, signature, error) {
	if len(text) > MaxEnvelope {
		return nil, signature{}, fmt.Errorf("envelope has %d bytes, the limit is %d", len(text), MaxEnvelope)
	}
	e, err := readEnvelope(text)
	if err != nil {
		return nil, signature{}, fmt.Errorf("reading envelope: %w", err)
	}
	if e.PayloadType != PayloadType {
		return nil, signature{}, fmt.Errorf("payload type is %q, want %q", e.PayloadType, PayloadType)
	}
	if len(e.Signatures) != 1 {
		return nil, signature{}, fmt.Errorf("envelope has %d signatures, want 1", len(e.Signatures))
	}
	payload, err := decode(e.Payload)
	if err != nil {
		return nil, signature{}, fmt.Errorf("payload: %w", err)
	}
	return payload, e.Signatures[0], nil
}

// readEnvelope reads the form that a notary writes by cutting it to pieces, and
// every other with the JSON library.
func readEnvelope(text []byte) (envelope, error) {
	if e, ok := cutEnvelope(string(text)); ok {
		return e, nil
	}
	var e envelope
	err := jsonv2.Unmarshal(text, &e, jsonv2.RejectUnknownMembers(true))
	return e, err
}

// cutEnvelope reads an envelope in RFC 8785 form with one signature and no
// escapes; ok is false for every other.
func cutEnvelope(text string) (e envelope, ok bool) {
	if strings.Contains(text, `\`) {
		return envelope{}, false
	}
	var s signature
	for _, member := range []struct {
		before string
		value  *string
	}{
		{`{"payload":"`, &e.Payload}, {`","payloadType":"`, &e.PayloadType},
		{`","signatures":[{"keyid":"`, &s.KeyID}, {`","sig":"`, &s.Sig},
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
	return e, text == `"}]}`
}

// plain reports whether a JSON string without escapes is in order as it is. The
// payload needs no such look: what is not base64 is refused later.
func plain(s string) bool {
	for _, c := range []byte(s) {
		if c < ' ' || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// preAuthentication is the text that a signature is over (DSSE, protocol
// section).
func preAuthentication(payloadType string, payload []byte) []byte {
	text := make([]byte, 0, len(payloadType)+len(payload)+64)
	text = append(text, "DSSEv1 "...)
	text = append(strconv.AppendInt(text, int64(len(payloadType)), 10), ' ')
	text = append(append(text, payloadType...), ' ')
	text = append(strconv.AppendInt(text, int64(len(payload)), 10), ' ')
	return append(text, payload...)
}

// decode reads standard base64 of which there is only one spelling: the
// decoder alone would skip line breaks.
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
