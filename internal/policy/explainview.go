package policy

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/canonical"
	"palyra/internal/tool"
)

// sight is one call as an explanation shows it: what policies evaluate, and
// the same without secrets.
type sight struct {
	set  *Set
	call *call
	env  evalEnv
	// context is what policy sees, shown the same without what tool.Redact hides.
	context, shown types.Record
	// files are those of a call that changes several.
	files []string
	args  types.Record
	rest  types.String
}

func (s *Set) viewCall(c *call, r Request) *sight {
	v := &sight{set: s, call: c}
	v.args, v.rest = s.argsWithoutSecrets(r)
	return v
}

// argsWithoutSecrets returns context.args and context.args_rest without
// secrets. A secret that is no text leaves arguments that do not fit their
// types: then all of them are hidden.
func (s *Set) argsWithoutSecrets(r Request) (types.Record, types.String) {
	clean, _, err := tool.Redact(r.Args, s.descriptor(r.Tool).SecretPaths)
	if err == nil {
		if values, rest, _, err := argumentValues(s.vocab.args[r.Tool], clean); err == nil {
			return values, rest
		}
	}
	hidden := make(types.RecordMap)
	for name := range s.vocab.args[r.Tool].fields {
		hidden[types.String(name)] = types.String(tool.Redaction)
	}
	return types.NewRecord(hidden), tool.Redaction
}

func (s *Set) descriptor(name string) tool.Descriptor {
	for _, d := range s.config.Tools {
		if d.Name == name {
			return d
		}
	}
	return tool.Descriptor{Name: name}
}

// see shows the call under one approval's facts.
func (v *sight) see(facts types.Record) {
	fields := v.call.contextOf(allAttributes)
	fields["approval"] = facts
	v.context = types.NewRecord(fields)
	clean := maps.Clone(fields)
	if v.call.has.has(attrArgs) {
		clean["args"], clean["args_rest"] = v.args, v.rest
	}
	v.shown = types.NewRecord(clean)
	v.env = v.call.env(v.context)
}

func (v *sight) contextJSON() json.RawMessage {
	text, err := canonical.Marshal(v.shown)
	if err != nil {
		return nil
	}
	clean, _, err := tool.Redact(text, nil)
	if err != nil {
		return nil
	}
	return clean
}

// maxShownValue is the longest value that an explanation shows, in
// characters.
const maxShownValue = 200

// valueText writes a value as Cedar does, bounded and without secrets.
func valueText(v types.Value) string {
	if v == nil {
		return ValueAbsent
	}
	text := []rune(tool.RedactText(cedarText(v)))
	if len(text) > maxShownValue {
		text = append(text[:maxShownValue-3], []rune("...")...)
	}
	return string(text)
}

// cedarText writes a value as Cedar does, with the elements of a set sorted.
func cedarText(v types.Value) string {
	set, ok := v.(types.Set)
	if !ok {
		return string(v.MarshalCedar())
	}
	var parts []string
	for e := range set.All() {
		parts = append(parts, cedarText(e))
	}
	slices.Sort(parts)
	return "[" + strings.Join(parts, ", ") + "]"
}

// valueAt returns what stands at a variable and attributes, without secrets;
// nil when nothing does.
func (v *sight) valueAt(chain []string) types.Value {
	var at types.Value
	switch chain[0] {
	case "principal":
		at = v.env.Principal
	case "action":
		at = v.env.Action
	case "resource":
		at = v.env.Resource
	default:
		at = v.shown
	}
	for _, name := range chain[1:] {
		at = attributeOf(at, types.String(name), v.env.Entities)
	}
	return at
}

// attributeOf returns an attribute of a record or an entity, nil for none.
func attributeOf(v types.Value, name types.String, entities types.EntityGetter) types.Value {
	record, ok := v.(types.Record)
	if uid, isEntity := v.(types.EntityUID); isEntity {
		var e types.Entity
		e, ok = entities.Get(uid)
		record = e.Attributes
	}
	if !ok {
		return nil
	}
	value, _ := record.Get(name)
	return value
}

// reads lists the places that an expression reads, each once, in the order of
// its text.
func reads(t *tree) [][]string {
	var list [][]string
	add := func(chain []string) {
		if !slices.ContainsFunc(list, func(c []string) bool { return slices.Equal(c, chain) }) {
			list = append(list, chain)
		}
	}
	t.walk(func(t *tree) bool {
		if chain := t.chain(); chain != nil {
			add(chain)
			return false
		}
		if has, ok := t.node.(nodeHas); ok {
			if chain := t.kids[0].chain(); chain != nil {
				add(append(chain, string(has.Value)))
				return false
			}
		}
		return true
	})
	return list
}

// inScope are the policies whose scope the call is in.
func (v *sight) inScope() candidates { return v.set.inScope(v.call.req) }
