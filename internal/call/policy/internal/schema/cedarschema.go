// Package schema builds Cedar schemas. Only it and package expr import cedar-go's x/exp
// packages. These are outside its promise of compatibility, so their changes affect only these
// places.
package schema

import (
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/schema"
	schemaast "github.com/cedar-policy/cedar-go/x/exp/schema/ast"
	"github.com/cedar-policy/cedar-go/x/exp/schema/resolved"
	"github.com/cedar-policy/cedar-go/x/exp/schema/validate"

	"palyra/internal/call/policy/internal/names"
)

type (
	// Type is a type of an attribute.
	Type = schemaast.IsType
	// Record is a record of attributes.
	Record = schemaast.RecordType
	// Attribute is an attribute with its type.
	Attribute = schemaast.Attribute
	// Set is a set.
	Set = schemaast.SetType
	// String is a text.
	String = schemaast.StringType
	// Long is a whole number of 64 bits.
	Long = schemaast.LongType
	// Bool is true or false.
	Bool = schemaast.BoolType

	// Resolved is a schema whose names are looked up.
	Resolved = resolved.Schema
	// ResolvedRecord is a record of a resolved schema.
	ResolvedRecord = resolved.RecordType
	// ResolvedEntity is an entity type of a resolved schema.
	ResolvedEntity = resolved.EntityType
	// Validator checks policies, entities and requests against a schema.
	Validator = validate.Validator
)

// NewValidator returns the strict validator of a schema.
func NewValidator(s *Resolved) *Validator { return validate.New(s, validate.WithStrict()) }

// Parse reads the fixed part of the vocabulary.
func Parse(name string, text []byte) (*schemaast.Schema, error) {
	var s schema.Schema
	s.SetFilename(name)
	if err := s.UnmarshalCedar(text); err != nil {
		return nil, err
	}
	return s.AST(), nil
}

// Resolve checks a schema and returns it resolved, with its text in
// Cedar's own form, which is the same for equal schemas.
func Resolve(in *schemaast.Schema) (*Resolved, []byte, error) {
	s := schema.NewSchemaFromAST(in)
	r, err := s.Resolve()
	if err != nil {
		return nil, nil, err
	}
	text, err := s.MarshalCedar()
	if err != nil {
		return nil, nil, err
	}
	return r, text, nil
}

// AddToolAction declares the action of one tool, whose context is the common
// one plus the tool's typed arguments.
func AddToolAction(s *schemaast.Schema, name types.String, common Record, args Record) {
	context := make(Record, len(common)+1)
	for k, v := range common {
		context[k] = v
	}
	context["args"] = Attribute{Type: args}
	principals := make([]schemaast.EntityTypeRef, 0, len(names.PrincipalTypes))
	for _, t := range names.PrincipalTypes {
		principals = append(principals, schemaast.EntityType(t))
	}
	parents := []schemaast.ParentRef{schemaast.ParentRefFromID(names.ToolGroup)}
	_, tool, _ := strings.Cut(strings.TrimPrefix(string(name), names.ToolPrefix), "/")
	if slices.Contains(names.UpstreamActions, tool) {
		parents = append(parents, schemaast.ParentRefFromID(types.String(tool)), schemaast.ParentRefFromID(names.UpstreamGroup))
	}
	s.Actions[name] = schemaast.Action{
		Parents: parents,
		AppliesTo: &schemaast.AppliesTo{
			Principals: principals,
			Resources:  []schemaast.EntityTypeRef{names.TypeTool},
			Context:    context,
		},
	}
}

// AddRecordType declares a common type.
func AddRecordType(s *schemaast.Schema, name string, fields Record) {
	s.CommonTypes[schemaast.Ident(name)] = schemaast.CommonType{Type: fields}
}

// CommonRecord returns the declared common type of that name.
func CommonRecord(s *schemaast.Schema, name string) Record {
	fields, _ := s.CommonTypes[schemaast.Ident(name)].Type.(Record)
	return fields
}
