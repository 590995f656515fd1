package explain

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/call/policy"
	"palyra/internal/call/policy/internal/args"
	"palyra/internal/call/policy/internal/expr"
	"palyra/internal/core/canonical"
	"palyra/internal/core/tool"
)

// sight is one call for an explanation, with its context as evaluated and without secrets.
type sight struct {
	set  *policy.Set
	view policy.View
	call policy.Call
	env  expr.Env
	// request is the call for one file.
	request policy.Request
	// context is the context that policy evaluates; displayed is the same without the values that
	// tool.Redact hides.
	context, displayed types.Record
	// files are the files of a call that changes several.
	files []string
}

func newSight(s *policy.Set, c policy.Call, r policy.Request, files []string) *sight {
	v := &sight{set: s, view: s.View(), call: c, env: c.Env, request: r, files: files}
	v.context, _ = c.Env.Context.(types.Record)
	clean := v.context.Map()
	if _, ok := clean["args"]; ok {
		clean["args"], clean["args_rest"] = argsWithoutSecrets(v.view, r)
	}
	v.displayed = types.NewRecord(clean)
	return v
}

// argsWithoutSecrets returns context.args and context.args_rest without secrets. Redacting a secret
// that is not a text can leave arguments that do not fit their types. In that case all arguments
// are hidden.
func argsWithoutSecrets(v policy.View, r policy.Request) (types.Record, types.String) {
	declared := v.Arguments(r.Tool)
	clean, _, err := tool.Redact(r.Args, descriptor(v, r.Tool).SecretPaths)
	if err == nil {
		if values, rest, _, err := args.Values(declared, clean); err == nil {
			return values, rest
		}
	}
	hidden := make(types.RecordMap)
	for name := range declared.Fields {
		hidden[types.String(name)] = types.String(tool.Redaction)
	}
	return types.NewRecord(hidden), tool.Redaction
}

func descriptor(v policy.View, name string) tool.Descriptor {
	for _, d := range v.Config().Tools {
		if d.Name == name {
			return d
		}
	}
	return tool.Descriptor{Name: name}
}

func (v *sight) contextJSON() json.RawMessage {
	text, err := canonical.Marshal(v.displayed)
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

// valueText formats a value in Cedar syntax, bounded and without secrets.
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

// cedarText formats a value in Cedar syntax, with the elements of a set sorted.
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

// valueAt returns the value at a variable and attributes, without secrets; nil if it is
// missing.
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
		at = v.displayed
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
