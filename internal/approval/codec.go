package approval

import (
	"encoding/json"
	"fmt"

	"palyra/internal/canonical"
)

// EncodeRecord returns the stored form of r: RFC 8785 JSON without the live
// fields and without Request, which a store keeps beside it.
func EncodeRecord(r Record) ([]byte, error) { return canonical.Marshal(r.Stored()) }

// DecodeRecord reads the form of EncodeRecord.
func DecodeRecord(text, request []byte) (Record, error) {
	var r Record
	if err := json.Unmarshal(text, &r); err != nil {
		return Record{}, fmt.Errorf("decoding approval: %w", err)
	}
	if len(request) > 0 {
		r.Request = json.RawMessage(request)
	}
	return r, nil
}

// EncodeGrant returns the stored form of g, RFC 8785 JSON.
func EncodeGrant(g Grant) ([]byte, error) { return canonical.Marshal(g) }

// DecodeGrant reads the form of EncodeGrant.
func DecodeGrant(text []byte) (Grant, error) {
	var g Grant
	if err := json.Unmarshal(text, &g); err != nil {
		return Grant{}, fmt.Errorf("decoding grant: %w", err)
	}
	return g, nil
}
