package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/canonical"
	"palyra/internal/tool"
)

// argument returns the place of an argument that the tool's schema declares.
func (s solver) argument(chain []string) (spot, bool) {
	name := s.trial.request.Tool
	at, required := s.trial.set.vocab.args[name], true
	for _, step := range chain[2:] {
		f, ok := at.fields[step]
		if !ok {
			return spot{}, false
		}
		at, required = f.typ, f.required
	}
	sorts := map[argKind]spotSort{
		argOpaque: sortString, argString: sortString, argLong: sortLong, argBool: sortBool, argSet: sortSet,
		argRecord: sortRecord,
	}
	p := spot{
		chain: chain, sort: sorts[at.kind], optional: !required, low: -1 << 53, high: 1 << 53,
		usual: choicesOf(s.trial.set.descriptor(name).InputSchema, chain[2:]),
	}
	p.set = func(r *Request, v types.Value) bool {
		args, err := withArgument(r.Args, chain[2:], at.kind, v)
		if err != nil || len(chain) == 2 {
			return false
		}
		r.Args, err = s.search.checkedArgs(args)
		return err == nil
	}
	return p, true
}

// checkedArgs is the canonical form of arguments that the tool's schema takes.
func (f *search) checkedArgs(args []byte) (json.RawMessage, error) {
	if f.schema == nil {
		text := f.set.descriptor(f.from.Request.Tool).InputSchema
		if len(text) == 0 {
			text = json.RawMessage(`{"type":"object"}`)
		}
		schema, err := tool.CompileSchema(text)
		if err != nil {
			return nil, err
		}
		f.schema = schema
	}
	return f.schema.Check(args)
}

// choicesOf returns the texts that a schema lists for a place, and an example
// where it lists none.
func choicesOf(schema json.RawMessage, chain []string) []string {
	for _, name := range chain {
		var s jsonSchema
		if json.Unmarshal(schema, &s) != nil {
			return nil
		}
		schema = s.Properties[name]
	}
	var s jsonSchema
	if json.Unmarshal(schema, &s) != nil {
		return nil
	}
	var out []string
	for _, v := range s.Enum {
		var text string
		if json.Unmarshal(v, &text) == nil {
			out = append(out, text)
		}
	}
	if out == nil {
		out = []string{"example", "other"}
	}
	return out
}

// argumentsRest is context.args_rest, which can only be emptied.
func (s solver) argumentsRest(chain []string) spot {
	declared := s.trial.set.vocab.args[s.trial.request.Tool]
	return spot{chain: chain, sort: sortString, usual: []string{""}, set: func(r *Request, v types.Value) bool {
		args, err := decoded(r.Args)
		if err != nil || v != types.String("") {
			return false
		}
		dropUndeclared(declared, args)
		text, err := canonical.Marshal(args)
		if err != nil {
			return false
		}
		r.Args, err = s.search.checkedArgs(text)
		return err == nil
	}}
}

func dropUndeclared(t *argType, args map[string]any) {
	for name, value := range args {
		f, ok := t.fields[name]
		if !ok {
			delete(args, name)
			continue
		}
		if inner, ok := value.(map[string]any); ok && f.typ.kind == argRecord {
			dropUndeclared(f.typ, inner)
		}
	}
}

func decoded(args []byte) (map[string]any, error) {
	if len(args) == 0 {
		return map[string]any{}, nil
	}
	dec := json.NewDecoder(bytes.NewReader(args))
	dec.UseNumber()
	var out map[string]any
	err := dec.Decode(&out)
	return out, err
}

// withArgument returns arguments with another value at a place, nil for none.
func withArgument(args []byte, chain []string, kind argKind, v types.Value) ([]byte, error) {
	all, err := decoded(args)
	if err != nil || len(chain) == 0 {
		return nil, errors.Join(err, errors.New("the arguments cannot be changed"))
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
	if v == nil {
		delete(at, last)
	} else if at[last], err = jsonOf(kind, v, at[last]); err != nil {
		return nil, err
	}
	return canonical.Marshal(all)
}

// jsonOf is the JSON of a Cedar value; a set becomes a list that keeps the
// order of the one before.
func jsonOf(kind argKind, v types.Value, before any) (any, error) {
	switch v := v.(type) {
	case types.String:
		if kind != argOpaque {
			return string(v), nil
		}
		var out any
		dec := json.NewDecoder(bytes.NewReader([]byte(v)))
		dec.UseNumber()
		err := dec.Decode(&out)
		return out, err
	case types.Long:
		return json.Number(v.String()), nil
	case types.Boolean:
		return bool(v), nil
	case types.Set:
		return listOf(v, before)
	default:
		return nil, errors.New("the value has no JSON form")
	}
}

// listOf is a set as a list: what stays in its old order, then what is new.
func listOf(set types.Set, before any) (any, error) {
	elements := set.Slice()
	old, _ := before.([]any)
	place := func(v types.Value) int {
		one, _ := jsonOf(argString, v, nil)
		i := slices.Index(old, one)
		if i < 0 {
			return len(old)
		}
		return i
	}
	slices.SortFunc(elements, func(a, b types.Value) int {
		if d := place(a) - place(b); d != 0 {
			return d
		}
		return bytes.Compare(a.MarshalCedar(), b.MarshalCedar())
	})
	out := make([]any, 0, len(elements))
	for _, e := range elements {
		one, err := jsonOf(argString, e, nil)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}
