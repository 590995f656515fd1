package approval

import (
	"encoding/json"

	"palyra/internal/canonical"
	"palyra/internal/reason"
)

// EncodeRecord returns the stored form of r: RFC 8785 JSON without the live
// fields and without Request, which a store keeps beside it.
func EncodeRecord(r Record) ([]byte, error) { return canonical.Marshal(r.Stored()) }

// DecodeRecord reads the form of EncodeRecord.
func DecodeRecord(text, request []byte) (Record, error) {
	var r Record
	if err := json.Unmarshal(text, &r); err != nil {
		return Record{}, unreadable("approval", err)
	}
	if len(request) > 0 {
		r.Request = json.RawMessage(request)
	}
	return r, nil
}

// unreadable is a row that is not what was stored.
func unreadable(what string, err error) error {
	return reason.Errorf(reason.VerificationFailed, "a stored %s cannot be read: %w", what, err).
		WithRemedy("The store is damaged beside the journal. Keep the state directory, and restore a copy that verifies.")
}

// EncodeGrant returns the stored form of g, RFC 8785 JSON.
func EncodeGrant(g Grant) ([]byte, error) { return canonical.Marshal(g) }

// DecodeGrant reads the form of EncodeGrant.
func DecodeGrant(text []byte) (Grant, error) {
	var g Grant
	if err := json.Unmarshal(text, &g); err != nil {
		return Grant{}, unreadable("grant", err)
	}
	return g, nil
}
