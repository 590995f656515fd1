package tool

import (
	"encoding/json"
	"errors"

	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
)

// Check reads the JSON input of a call strictly, checks it against the schema
// and returns its canonical form (RFC 8785). No input at all means the empty
// object. Errors are reason errors: InvalidInput with the JSON Pointer of the
// fault in the field "pointer", which may be a key that differs from a property only in
// case, or the way in which the text itself is wrong
// (DuplicateKey, NumberNotExact, InvalidUTF8, InputTooLarge, InputTooDeep).
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

// CheckResult is Check for what a tool returned, whose keys are compared exactly.
func (s *Schema) CheckResult(raw []byte) error {
	_, _, err := s.read(raw)
	return err
}

// read returns a text that fits the schema in canonical form, and its value.
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

// InputError gives the errors of package canonical their reason.
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
