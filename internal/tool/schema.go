package tool

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"

	"palyra/internal/canonical"
	"palyra/internal/reason"
)

// Schema is a compiled JSON Schema (2020-12) of a tool's input. It is safe for
// concurrent use.
type Schema struct {
	resolved *jsonschema.Resolved
	// plain says of most values that they fit; nil for a schema that is not plain.
	plain *plain
	// document is the schema as JSON, nil where no key can be unknown: plainly closed schemas
	// refuse unknown keys.
	document any
}

// CompileSchema compiles the input schema of a tool. The schema must be a JSON
// object with type "object", refer to nothing outside itself, and have no
// reference that leads back to itself without descending into the input: such
// a schema would never end. Errors carry reason.InvalidInput.
func CompileSchema(text json.RawMessage) (*Schema, error) {
	if len(text) > canonical.MaxSize {
		return nil, reason.Errorf(reason.InputTooLarge, "input schema is larger than %d bytes", canonical.MaxSize)
	}
	var document any
	if err := json.Unmarshal(text, &document); err != nil {
		return nil, reason.Errorf(reason.InvalidInput, "reading input schema: %w", err)
	}
	if err := checkReferences(document); err != nil {
		return nil, reason.Errorf(reason.InvalidInput, "input schema: %w", err)
	}
	var root jsonschema.Schema
	if err := json.Unmarshal(text, &root); err != nil {
		return nil, reason.Errorf(reason.InvalidInput, "reading input schema: %w", err)
	}
	if root.Type != "object" {
		return nil, reason.Errorf(reason.InvalidInput, `input schema: the top level must have "type": "object"`)
	}
	resolved, err := root.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
	if err != nil {
		return nil, reason.Errorf(reason.InvalidInput, "resolving input schema: %w", err)
	}
	top := root
	if top.Schema == draft2020 {
		top.Schema = ""
	}
	s := &Schema{resolved: resolved, plain: plainOf(&top)}
	if s.plain == nil || !s.plain.refusesUnknown() {
		s.document = document
	}
	return s, nil
}

// validate checks a decoded value and turns the first fault into an error that
// names its JSON Pointer.
func (s *Schema) validate(value any) error {
	if s.plain != nil && s.plain.fits(value) {
		return nil
	}
	return s.validateFully(value)
}

// validateFully is validate by the library.
func (s *Schema) validateFully(value any) error {
	err := s.resolved.Validate(value)
	if err == nil {
		return nil
	}
	found := explain(s.resolved.Schema(), value, "")
	if found == nil {
		found = &fault{message: plainError(err)}
	}
	return found.err()
}

// checkKeys refuses keys that another reader could take for others.
func (s *Schema) checkKeys(value any) error {
	if s.document == nil {
		return nil
	}
	c := &keyChecker{root: s.document, known: map[string]*members{}}
	if found := c.check(value, []string{""}, ""); found != nil {
		return found.err()
	}
	return nil
}

// err is the error for a fault.
func (f *fault) err() error {
	refused := reason.Errorf(cmp.Or(f.code, reason.InvalidInput), "%s: %s", pointerName(f.pointer), f.message).
		WithField("pointer", f.pointer)
	if f.hint != "" {
		refused = refused.WithRemedy("Did you mean %q?", f.hint)
	}
	return refused
}

func pointerName(pointer string) string {
	if pointer == "" {
		return "input"
	}
	return fmt.Sprintf("input at %s", pointer)
}
