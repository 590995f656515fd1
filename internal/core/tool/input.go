package tool

import (
	"encoding/json"
	"errors"

	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
)

// Check parses the JSON input of a call strictly, checks it against the schema and returns its
// canonical form (RFC 8785). Empty input means the empty object. Errors are reason errors. For
// an input that does not fit the schema, the code is InvalidInput and the field "pointer" is
// the JSON Pointer of the fault. A key that differs from a property only in case is such a
// fault. For malformed text, the code is DuplicateKey, NumberNotExact, InvalidUTF8,
// InputTooLarge, InputTooDeep or InvalidInput.
func (s *Schema) Check(raw []byte) (json.RawMessage, error) {
	text, value, err := s.read(raw)
	if err != nil {
		return nil, err
	}
	if err := s.checkKeys(value); err != nil {
		return nil, err
	}
	return text, nil
}

// CheckResult checks the result of a tool against the schema. Unlike Check, it treats a key
// that differs from a property only in case as a different key.
func (s *Schema) CheckResult(raw []byte) error {
	_, _, err := s.read(raw)
	return err
}

// read returns the canonical form of a text that fits the schema, and its value.
func (s *Schema) read(raw []byte) (text json.RawMessage, value any, err error) {
	if len(raw) == 0 {
		raw = []byte("{}")
	}
	if text, err = canonical.JSON(raw); err != nil {
		return nil, nil, InputError(err)
	}
	if err := json.Unmarshal(text, &value); err != nil {
		return nil, nil, reason.Errorf(reason.InvalidInput, "reading input: %w", err)
	}
	if err := s.validate(value); err != nil {
		return nil, nil, err
	}
	return text, value, nil
}

// InputError wraps an error of package canonical with its reason code.
func InputError(err error) error {
	code := reason.InvalidInput
	switch {
	case errors.Is(err, canonical.ErrTooLarge):
		code = reason.InputTooLarge
	case errors.Is(err, canonical.ErrTooDeep):
		code = reason.InputTooDeep
	case errors.Is(err, canonical.ErrDuplicateKey):
		code = reason.DuplicateKey
	case errors.Is(err, canonical.ErrUTF8), errors.Is(err, canonical.ErrNUL):
		code = reason.InvalidUTF8
	case errors.Is(err, canonical.ErrNumber):
		code = reason.NumberNotExact
	}
	return reason.Errorf(code, "reading input: %w", err)
}
