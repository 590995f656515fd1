// Package vocabulary builds the Cedar schema of one installation. The schema declares the
// permissions, the facts, one action per tool and one count per role.
package vocabulary

import (
	_ "embed"
	"fmt"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/call/policy/internal/args"
	"palyra/internal/call/policy/internal/names"
	"palyra/internal/call/policy/internal/schema"
	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/tool"
)

//go:embed vocabulary.cedarschema
var permissions string

// Vocabulary is the schema of one installation. It MUST NOT be changed after Build.
type Vocabulary struct {
	Schema *schema.Resolved
	// Text is the schema in Cedar's own form, Digest its SHA-256.
	Text   []byte
	Digest string
	Check  *schema.Validator
	// Args are the types of each tool's input, by tool name.
	Args   map[string]*args.Type
	Opaque []args.Opaque
	Roles  []access.Role
	// Waiting are missing tools with a declared action.
	Waiting []string
}

// Build creates the schema. facts declares the context of calls, commits and injections in
// Cedar's schema language. Roles are all roles, the built-in ones included.
func Build(facts string, tools []tool.Descriptor, roles []access.Role, waiting []string) (*Vocabulary, error) {
	fixed, err := schema.Parse("vocabulary.cedarschema", []byte(permissions+facts))
	if err != nil {
		return nil, fmt.Errorf("the built-in vocabulary: %w", err)
	}
	v := &Vocabulary{Args: make(map[string]*args.Type, len(tools)), Roles: roles, Waiting: waiting}
	counts := make(schema.Record, len(roles))
	for _, r := range roles {
		counts[types.String(r)] = schema.Attribute{Type: schema.Long{}}
	}
	schema.AddRecordType(fixed, "ByRole", counts)
	common := schema.CommonRecord(fixed, "CallContext")
	for _, d := range tools {
		args, opaque, err := args.TypeOf(d)
		if err != nil {
			return nil, err
		}
		v.Args[d.Name] = args
		v.Opaque = append(v.Opaque, opaque...)
		schema.AddToolAction(fixed, types.String(names.ToolPrefix+d.Name), common, args.SchemaRecord())
	}
	for _, name := range waiting {
		schema.AddToolAction(fixed, types.String(names.ToolPrefix+name), common, schema.Record{})
	}
	v.Args[names.UnknownTool] = &args.Type{Kind: args.KindRecord}
	schema.AddToolAction(fixed, names.ToolPrefix+names.UnknownTool, common, schema.Record{})
	v.Schema, v.Text, err = schema.Resolve(fixed)
	if err != nil {
		return nil, fmt.Errorf("building the Cedar schema: %w", err)
	}
	v.Digest = canonical.Digest(v.Text)
	v.Check = schema.NewValidator(v.Schema)
	return v, nil
}
