package policy

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/call/policy/internal/args"
	"palyra/internal/call/policy/internal/expr"
	"palyra/internal/call/policy/internal/names"
	"palyra/internal/call/policy/internal/schema"
	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/tool"
)

//go:embed vocabulary.cedarschema
var vocabularyText []byte

// vocabulary is the schema of one installation: the fixed part, one action per pinned tool and
// one count per role.
type vocabulary struct {
	schema *schema.Resolved
	// text is the schema in Cedar's own form, digest its SHA-256.
	text   []byte
	digest string
	check  *schema.Validator
	// args are the types of each tool's input, by tool name.
	args   map[string]*args.Type
	opaque []args.Opaque
	roles  []access.Role
	// waiting are missing tools with a declared action.
	waiting []string
	// narrowed holds a validator per action scope (see forScope).
	narrowed map[string]*schema.Validator
}

// factTypes declares the context of calls, commits and injections, and its record types, from
// the table of facts.
func factTypes() string {
	declared := map[string][]string{}
	add := func(record, name string, f *Fact) {
		if f.optional() {
			name += "?"
		}
		declared[record] = append(declared[record], name+": "+f.PlainType())
	}
	for _, f := range contextFacts {
		if f.in&inCall != 0 && f.Name != "args" {
			add("CallContext", f.Name, f.Fact)
		}
		if f.in&inCommit != 0 {
			add("CommitContext", f.Name, f.Fact)
		}
		if f.in&inInjection != 0 {
			add("InjectionContext", f.Name, f.Fact)
		}
		for _, p := range f.parts {
			add(f.PlainType(), string(p.name), p.Fact)
		}
	}
	var b strings.Builder
	for _, record := range keysOf(declared) {
		fmt.Fprintf(&b, "type %s = { %s };\n", record, strings.Join(declared[record], ", "))
	}
	return b.String()
}

func buildVocabulary(tools []tool.Descriptor, roles []access.Role, waiting []string) (*vocabulary, error) {
	fixed, err := schema.Parse("vocabulary.cedarschema", append(slices.Clip(vocabularyText), factTypes()...))
	if err != nil {
		return nil, fmt.Errorf("the built-in vocabulary: %w", err)
	}
	v := &vocabulary{args: make(map[string]*args.Type, len(tools)), roles: roles, waiting: waiting, narrowed: make(map[string]*schema.Validator)}
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
		v.args[d.Name] = args
		v.opaque = append(v.opaque, opaque...)
		schema.AddToolAction(fixed, types.String(names.ToolPrefix+d.Name), common, args.SchemaRecord())
	}
	for _, name := range waiting {
		schema.AddToolAction(fixed, types.String(names.ToolPrefix+name), common, schema.Record{})
	}
	v.args[names.UnknownTool] = &args.Type{Kind: args.KindRecord}
	schema.AddToolAction(fixed, names.ToolPrefix+names.UnknownTool, common, schema.Record{})
	v.schema, v.text, err = schema.Resolve(fixed)
	if err != nil {
		return nil, fmt.Errorf("building the Cedar schema: %w", err)
	}
	v.digest = canonical.Digest(v.text)
	v.check = schema.NewValidator(v.schema)
	return v, nil
}

// allRoles returns the built-in roles and the declared ones, without duplicates.
func allRoles(declared []access.Role) []access.Role {
	roles := slices.Clone(access.BuiltinRoles)
	for _, r := range declared {
		if !slices.Contains(roles, r) {
			roles = append(roles, r)
		}
	}
	return roles
}

// forScope returns a validator that checks conditions only for the actions that the scope can
// match. Validation time grows with the number of actions in the schema, and most policies name
// one.
func (v *vocabulary) forScope(scope expr.ScopeNode) *schema.Validator {
	key, wanted := expr.ScopeActions(scope)
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
	out := schema.NewValidator(&narrow)
	v.narrowed[key] = out
	return out
}

// actionMatches reports whether an action is among the wanted ones or a member of one. Groups
// are not nested.
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

// actionNames lists the actions by name, sorted, without the placeholder for unknown tools.
func (v *vocabulary) actionNames() []string {
	var out []string
	for uid := range v.schema.Actions {
		name := string(uid.ID)
		if tool, _ := strings.CutPrefix(name, names.ToolPrefix); tool != names.UnknownTool && !slices.Contains(v.waiting, tool) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// Facts lists all facts, for docs/reference/facts.md.
func Facts() []Fact { return slices.Clone(facts[:]) }

// DescribedFacts returns the rows that a description of a call can set individually: records by
// their parts, and paths unchanged.
func DescribedFacts() []Fact {
	return slices.DeleteFunc(slices.Clone(facts[:]), func(f Fact) bool {
		return !f.Described() || f.HasParts() || f.Name == "path_folded"
	})
}

// Described reports whether a description of a call sets the fact. It does not set the data of
// the call itself or the time.
func (f *Fact) Described() bool {
	return f.at != nil && f.origin != ofCall && f.origin != ofClock
}

// Context returns the first context that has the fact.
func (f *Fact) Context() string {
	switch {
	case f.in&inCall != 0:
		return ContextCall
	case f.in&inCommit != 0:
		return ContextCommit
	}
	return ContextInjection
}

// Label is the name of the fact, with a question mark if it is optional.
func (f *Fact) Label() string {
	if f.optional() {
		return f.Name + "?"
	}
	return f.Name
}

// Shape describes the type: the name of a Cedar type, or "record".
func (f *Fact) Shape() string {
	kind := strings.TrimSuffix(f.PlainType(), "Facts")
	switch {
	case f.Type == "" || kind != f.PlainType() || kind == "ByRole":
		return "record"
	case strings.HasPrefix(kind, "Set<VoteFact"):
		return "Set of records"
	case strings.HasPrefix(kind, "Set<"):
		return "Set of String"
	}
	return kind
}

// Kind is "bound", "fresh" or "environment".
func (f *Fact) Kind() string { return f.kind.String() }

// Origin is the source of the fact.
func (f *Fact) Origin() string { return f.origin.String() }

// Description is the text of the fact, with its possible values, in Markdown.
func (f *Fact) Description() string {
	if f.Values == nil {
		return f.About
	}
	values := ": `" + strings.Join(f.Values, "`, `") + "`"
	return f.About + strings.ReplaceAll(values, ", ``", ", `\"\"`")
}

// HasParts reports whether the fact is a record whose parts have separate rows.
func (f *Fact) HasParts() bool {
	a := attributeOfName(types.String(f.Name))
	return a != 0 && contextFacts[a.index()].parts != nil
}

// OfCommit reports whether the fact belongs to change sets only.
func (f *Fact) OfCommit() bool { return f.origin == ofCommit }

// record returns the name of the record that contains the fact, or "".
func (f *Fact) record() string {
	name, _, inner := strings.Cut(f.Name, ".")
	if !inner {
		return ""
	}
	return name
}

// At returns a pointer to the fact in a request, or nil if the request lacks it. It first
// copies the containing record, so that other requests that share the record do not change.
func (f *Fact) At(r *Request) any {
	if f.at == nil || f.HasParts() {
		return nil
	}
	switch f.record() {
	case "exec":
		r.Facts.Exec = copyOf(r.Facts.Exec)
	case "external":
		r.Facts.External = copyOf(r.Facts.External)
	case "shell":
		r.Facts.Shell = copyOf(r.Facts.Shell)
	}
	if f.OfCommit() {
		r.Commit = copyOf(r.Commit)
	}
	return f.at(r)
}

func (o origin) String() string {
	return [...]string{"", "the call", "the caller", "planning", "the session", "the changes", "votes", "the clock"}[o]
}

func (w Way) String() string {
	return [...]string{"", "none", "the caller, by another argument", "the requester, by another reason", "approvers", "waiting"}[w]
}

func (k factKind) String() string { return [...]string{"", "bound", "fresh", "environment"}[k] }
