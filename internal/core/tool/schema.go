package tool

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"

	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
)

// Schema is a compiled JSON Schema (2020-12) of a tool's input. It is safe for
// concurrent use.
type Schema struct {
	resolved *jsonschema.Resolved
	// effort is the cost of a check.
	effort *effort
	// document is the schema as JSON.
	document any
}

// CompileSchema compiles the input schema of a tool. The schema must be a JSON object with type
// "object" and must not refer to anything outside itself. A reference must not lead back to
// itself without descending into the input, because validation would not end. Errors have the
// reason InvalidInput, or InputTooLarge for a schema larger than canonical.MaxSize.
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
	return compileChecked(text, document, &jsonschema.ResolveOptions{ValidateDefaults: true})
}

// CompileInput compiles the schema for calls of a tool (CheckedSchema).
func (d Descriptor) CompileInput() (*Schema, error) {
	if d.Executor != MCPUpstream {
		return CompileSchema(d.InputSchema)
	}
	text, err := d.CheckedSchema()
	if err != nil {
		return nil, err
	}
	var document any
	if err := json.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("reading the schema of %s: %w", d.Name, err)
	}
	return compileChecked(text, document, nil) // Checkable has resolved its references
}

// CheckedSchema returns the schema that calls are checked against. For tools of upstream
// servers, this is the part of the schema that can be checked here.
func (d Descriptor) CheckedSchema() (json.RawMessage, error) {
	if d.Executor != MCPUpstream {
		return d.InputSchema, nil
	}
	text, _, err := Checkable(d.InputSchema)
	return text, err
}

// compileChecked compiles a schema whose references were checked.
func compileChecked(text []byte, document any, options *jsonschema.ResolveOptions) (*Schema, error) {
	var root jsonschema.Schema
	if err := json.Unmarshal(text, &root); err != nil {
		return nil, reason.Errorf(reason.InvalidInput, "reading input schema: %w", err)
	}
	if root.Type != "object" {
		return nil, reason.Errorf(reason.InvalidInput, `input schema: the top level must have "type": "object"`)
	}
	resolved, err := root.Resolve(options)
	if err != nil {
		return nil, reason.Errorf(reason.InvalidInput, "resolving input schema: %w", err)
	}
	return &Schema{resolved: resolved, document: document, effort: (&efforts{root: document, places: map[string]*effort{}}).at("")}, nil
}

// validate checks a decoded value. Its error describes the first fault, with its JSON Pointer.
func (s *Schema) validate(value any) error {
	if err := s.affordable(value); err != nil {
		return err
	}
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

// checkKeys refuses keys that another decoder could interpret as different keys.
func (s *Schema) checkKeys(value any) error {
	c := &keyChecker{root: s.document, known: map[string]*members{}, left: mostSteps + mostStepsPerValue*valuesIn(value)}
	if found := c.check(value, []string{""}, ""); found != nil {
		return found.err()
	}
	return nil
}

// err returns the error for a fault.
func (f *fault) err() error {
	refused := reason.Errorf(cmp.Or(f.code, reason.InvalidInput), "%s: %s", pointerName(f.pointer), f.message).
		WithField("pointer", f.pointer)
	if f.remedy != "" {
		refused = refused.WithRemedy("%s", f.remedy)
	}
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
