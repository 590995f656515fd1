package policy

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/access"
	"palyra/internal/canonical"
	"palyra/internal/tool"
)

//go:embed vocabulary.cedarschema
var vocabularyText []byte

// vocabulary is the schema of one installation: the fixed part, one action
// per pinned tool and one count per role.
type vocabulary struct {
	schema *resolvedSchema
	// text is the schema in Cedar's own form, digest its SHA-256.
	text   []byte
	digest string
	check  *validator
	// args are the types of each tool's input, by tool name.
	args   map[string]*argType
	opaque []Opaque
	roles  []access.Role
	// narrowed holds a validator per action scope (see forScope).
	narrowed map[string]*validator
}

// factTypes declares the context of calls and commits, with the records in it,
// as the table of facts has them.
func factTypes() string {
	declared := map[string][]string{}
	add := func(record, name string, f *Fact) {
		if f.optional() {
			name += "?"
		}
		declared[record] = append(declared[record], name+": "+f.plainType())
	}
	for _, f := range contextFacts {
		if f.in&inCall != 0 && f.Name != "args" {
			add("CallContext", f.Name, f.Fact)
		}
		if f.in&inCommit != 0 {
			add("CommitContext", f.Name, f.Fact)
		}
		for _, p := range f.parts {
			add(f.plainType(), string(p.name), p.Fact)
		}
	}
	var b strings.Builder
	for _, record := range keysOf(declared) {
		fmt.Fprintf(&b, "type %s = { %s };\n", record, strings.Join(declared[record], ", "))
	}
	return b.String()
}

func buildVocabulary(tools []tool.Descriptor, roles []access.Role) (*vocabulary, error) {
	fixed, err := parseSchema("vocabulary.cedarschema", append(slices.Clip(vocabularyText), factTypes()...))
	if err != nil {
		return nil, fmt.Errorf("the built-in vocabulary: %w", err)
	}
	v := &vocabulary{args: make(map[string]*argType, len(tools)), roles: roles, narrowed: make(map[string]*validator)}
	counts := make(schemaRecord, len(roles))
	for _, r := range roles {
		counts[types.String(r)] = schemaAttribute{Type: schemaLong{}}
	}
	addRecordType(fixed, "ByRole", counts)
	common := commonRecord(fixed, "CallContext")
	for _, d := range tools {
		args, opaque, err := typeArguments(d)
		if err != nil {
			return nil, err
		}
		v.args[d.Name] = args
		v.opaque = append(v.opaque, opaque...)
		addToolAction(fixed, types.String(toolPrefix+d.Name), common, args.schemaRecord())
	}
	v.args[unknownTool] = &argType{kind: argRecord}
	addToolAction(fixed, toolPrefix+unknownTool, common, schemaRecord{})
	v.schema, v.text, err = resolveSchema(fixed)
	if err != nil {
		return nil, fmt.Errorf("building the Cedar schema: %w", err)
	}
	v.digest = canonical.Digest(v.text)
	v.check = newValidator(v.schema)
	return v, nil
}

// allRoles returns the built-in roles and the declared ones, each once.
func allRoles(declared []access.Role) []access.Role {
	roles := slices.Clone(access.BuiltinRoles)
	for _, r := range declared {
		if !slices.Contains(roles, r) {
			roles = append(roles, r)
		}
	}
	return roles
}

// forScope returns a validator that checks conditions only for the actions
// that the scope can match. Validation of a policy takes time with the number
// of actions in the schema, and most policies name one.
func (v *vocabulary) forScope(scope scopeNode) *validator {
	key, wanted := scopeActions(scope)
	if wanted == nil {
		return v.check
	}
	if cached, ok := v.narrowed[key]; ok {
		return cached
	}
	narrow := *v.schema
	narrow.Actions = maps.Clone(v.schema.Actions)
	for uid, action := range narrow.Actions {
		if !v.actionMatches(uid, wanted) {
			action.AppliesTo = nil
			narrow.Actions[uid] = action
		}
	}
	out := newValidator(&narrow)
	v.narrowed[key] = out
	return out
}

// scopeActions returns the actions that a scope names, nil for all.
func scopeActions(scope scopeNode) (key string, actions []types.EntityUID) {
	switch s := scope.(type) {
	case scopeEq:
		return "== " + s.Entity.String(), []types.EntityUID{s.Entity}
	case scopeIn:
		return "in " + s.Entity.String(), []types.EntityUID{s.Entity}
	case scopeInSet:
		var b strings.Builder
		b.WriteString("in [")
		for _, e := range s.Entities {
			b.WriteString(e.String())
			b.WriteByte(',')
		}
		if s.Entities == nil {
			return b.String(), []types.EntityUID{}
		}
		return b.String(), s.Entities
	default:
		return "", nil
	}
}

// actionMatches reports whether an action is one of the wanted ones or a
// member of one. Groups have no groups above them.
func (v *vocabulary) actionMatches(uid types.EntityUID, wanted []types.EntityUID) bool {
	if slices.Contains(wanted, uid) {
		return true
	}
	for parent := range v.schema.Actions[uid].Entity.Parents.All() {
		if slices.Contains(wanted, parent) {
			return true
		}
	}
	return false
}

// actionNames lists the actions by name, sorted, without the stand-in for
// unknown tools.
func (v *vocabulary) actionNames() []string {
	var names []string
	for uid := range v.schema.Actions {
		if name := string(uid.ID); name != toolPrefix+unknownTool {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
