package explain

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/call/policy"
	"palyra/internal/call/policy/internal/args"
	"palyra/internal/call/policy/internal/expr"
	"palyra/internal/core/canonical"
	"palyra/internal/core/tool"
)

// arguments finds the arguments of the calls of a tool that a caller can change.
type arguments struct {
	view policy.View
	tool string
	// schema checks changed arguments; compiled on first use.
	schema *tool.Schema
}

// at returns the place of an argument that the tool's schema declares.
func (a *arguments) at(chain []string) []place {
	at, required := a.view.Arguments(a.tool), true
	for _, step := range chain[2:] {
		field, ok := at.Fields[step]
		if !ok {
			return nil
		}
		at, required = field.Typ, field.Required
	}
	if len(chain) == 2 || at.Kind == args.KindRecord {
		return nil
	}
	p := place{chain: chain, optional: !required, usual: at.Choices}
	if p.usual == nil {
		p.usual = []string{"example", "other"}
	}
	p.set = func(r *policy.Request, v types.Value) error {
		args, err := withArgument(r.Args, chain[2:], at.Kind, v)
		if err == nil {
			r.Args, err = a.check(args)
		}
		return err
	}
	return []place{p}
}

// check returns the canonical form of arguments that fit the tool's schema.
func (a *arguments) check(args []byte) (json.RawMessage, error) {
	if a.schema == nil {
		d := descriptor(a.view, a.tool)
		if len(d.InputSchema) == 0 {
			d.InputSchema = json.RawMessage(`{"type":"object"}`)
		}
		schema, err := d.CompileInput()
		if err != nil {
			return nil, err
		}
		a.schema = schema
	}
	return a.schema.Check(args)
}

// withArgument returns arguments with another value at a place; nil removes it.
func withArgument(args []byte, chain []string, kind args.Kind, v types.Value) ([]byte, error) {
	all := map[string]any{}
	if err := decodeExact(args, &all); err != nil && len(args) > 0 {
		return nil, err
	}
	at := all
	for _, name := range chain[:len(chain)-1] {
		inner, ok := at[name].(map[string]any)
		if !ok {
			inner = map[string]any{}
			at[name] = inner
		}
		at = inner
	}
	last := chain[len(chain)-1]
	var err error
	if v == nil {
		delete(at, last)
	} else if at[last], err = jsonOf(kind, v, at[last]); err != nil {
		return nil, err
	}
	return canonical.Marshal(all)
}

// decodeExact keeps numbers in their original notation.
func decodeExact(text []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	return dec.Decode(into)
}

// jsonOf converts a Cedar value to JSON. A set becomes a list in the order of the list before.
func jsonOf(kind args.Kind, v types.Value, before any) (any, error) {
	switch v := v.(type) {
	case types.String:
		if kind != args.KindOpaque {
			return string(v), nil
		}
		var out any
		err := decodeExact([]byte(v), &out)
		return out, err
	case types.Long:
		return json.Number(v.String()), nil
	case types.Boolean:
		return bool(v), nil
	case types.Set:
		return listOf(v, before), nil
	default:
		return nil, errors.New("the value has no JSON form")
	}
}

// listOf converts a set of scalars to a list: retained elements in their old order, then the
// new ones.
func listOf(set types.Set, before any) []any {
	old, _ := before.([]any)
	out := []any{}
	for _, e := range expr.SortedElements(set) {
		if one, err := jsonOf(args.KindString, e, nil); err == nil {
			out = append(out, one)
		}
	}
	place := func(v any) int {
		if i := slices.Index(old, v); i >= 0 {
			return i
		}
		return len(old)
	}
	slices.SortStableFunc(out, func(a, b any) int { return place(a) - place(b) })
	return out
}
