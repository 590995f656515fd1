package args

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/cedar-policy/cedar-go/types"
	"github.com/go-json-experiment/json/jsontext"

	"palyra/internal/core/canonical"
)

// pointer is a path into the arguments, converted to text only when needed.
type pointer struct {
	up   *pointer
	name string
}

// String returns the JSON Pointer (RFC 6901), "/" for the whole.
func (p *pointer) String() string {
	if p == nil {
		return "/"
	}
	if p.up == nil {
		return "/" + pointerToken(p.name)
	}
	return p.up.String() + "/" + pointerToken(p.name)
}

// argReader converts arguments to a Cedar record by a Type. Undeclared members are kept by
// their JSON Pointers.
type argReader struct {
	dec  *jsontext.Decoder
	rest map[string]jsontext.Value
	// incomplete is set when a required property is missing.
	incomplete bool
	// values is false for a reader that only checks.
	values bool
}

// Values returns context.args and context.args_rest. The second is the canonical JSON of an
// object from JSON Pointer to value, or "" if everything was declared. The arguments are
// complete if they have all members that the type requires.
func Values(t *Type, args []byte) (values types.Record, rest types.String, complete bool, err error) {
	return read(t, args, true)
}

// Check is Values without context.args, which most policies do not read.
func Check(t *Type, args []byte) (rest types.String, complete bool, err error) {
	_, rest, complete, err = read(t, args, false)
	return rest, complete, err
}

func read(t *Type, args []byte, values bool) (object types.Record, rest types.String, complete bool, err error) {
	if len(args) == 0 {
		args = []byte("{}")
	}
	// A decoder reads a bytes.Buffer in place.
	r := &argReader{dec: jsontext.NewDecoder(bytes.NewBuffer(args)), values: values}
	value, err := r.read(t, nil)
	if err != nil {
		return object, "", false, err
	}
	if _, err := r.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return object, "", false, errors.New("arguments: text after the object")
	}
	if len(r.rest) > 0 {
		text, err := canonical.Marshal(r.rest)
		if err != nil {
			return object, "", false, err
		}
		rest = types.String(text)
	}
	object, built := value.(types.Record)
	if t.Kind != KindRecord || values && !built {
		return object, "", false, errors.New("arguments are not an object")
	}
	return object, rest, !r.incomplete, nil
}

func (r *argReader) read(t *Type, at *pointer) (types.Value, error) {
	switch t.Kind {
	case KindRecord:
		return r.record(t, at)
	case KindSet:
		return r.set(t, at)
	case KindOpaque:
		value, err := r.value(at)
		return types.String(value), err
	default:
		return r.scalar(t.Kind, at)
	}
}

func (r *argReader) scalar(kind Kind, at *pointer) (types.Value, error) {
	tok, err := r.dec.ReadToken()
	if err != nil {
		return nil, argError(at, err)
	}
	switch {
	case kind == KindString && tok.Kind() == '"':
		if !r.values {
			return nil, nil
		}
		return types.String(tok.String()), nil
	case kind == KindBool && (tok.Kind() == 't' || tok.Kind() == 'f'):
		return types.Boolean(tok.Bool()), nil
	case kind == KindLong && tok.Kind() == '0':
		return longValue(tok.String(), at)
	}
	return nil, argError(at, fmt.Errorf("a JSON %s where the tool's schema declares another type", tok.Kind()))
}

// longValue reads an integer of JSON Schema, which may be written 1.0 or 1e3.
func longValue(text string, at *pointer) (types.Value, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return types.Long(n), nil
	}
	const exact = 1 << 53
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f != float64(int64(f)) || f > exact || f < -exact {
		return nil, argError(at, errors.New("the integer does not fit 64 bits"))
	}
	return types.Long(int64(f)), nil
}

// value reads one JSON value in canonical form.
func (r *argReader) value(at *pointer) (jsontext.Value, error) {
	raw, err := r.dec.ReadValue()
	if err != nil {
		return nil, argError(at, err)
	}
	raw = raw.Clone()
	if err := raw.Canonicalize(); err != nil {
		return nil, argError(at, err)
	}
	return raw, nil
}

func (r *argReader) set(t *Type, at *pointer) (types.Value, error) {
	if err := r.open('[', at); err != nil {
		return nil, err
	}
	values := []types.Value{}
	for r.dec.PeekKind() != ']' {
		v, err := r.read(t.elem, at)
		if err != nil {
			return nil, err
		}
		if r.values {
			values = append(values, v)
		}
	}
	if _, err := r.dec.ReadToken(); err != nil {
		return nil, argError(at, err)
	}
	if !r.values {
		return nil, nil
	}
	return types.NewSet(values...), nil
}

func (r *argReader) record(t *Type, at *pointer) (types.Value, error) {
	if err := r.open('{', at); err != nil {
		return nil, err
	}
	var fields types.RecordMap
	if r.values {
		fields = make(types.RecordMap, len(t.Fields))
	}
	required := 0 // present required members, each once: the decoder rejects duplicates
	for r.dec.PeekKind() != '}' {
		declared, err := r.member(t, at, fields)
		if err != nil {
			return nil, err
		}
		if declared.Required {
			required++
		}
	}
	if _, err := r.dec.ReadToken(); err != nil {
		return nil, argError(at, err)
	}
	for _, f := range t.Fields {
		if f.Required {
			required--
		}
	}
	if required < 0 {
		r.incomplete = true
	}
	if !r.values {
		return nil, nil
	}
	return types.NewRecord(fields), nil
}

// member reads one member and returns its declared field; the zero field if it is undeclared.
func (r *argReader) member(t *Type, at *pointer, fields types.RecordMap) (Field, error) {
	tok, err := r.dec.ReadToken()
	if err != nil {
		return Field{}, argError(at, err)
	}
	name := tok.String()
	if f, ok := t.Fields[name]; ok {
		v, err := r.read(f.Typ, &pointer{at, name})
		if r.values {
			fields[types.String(name)] = v
		}
		return f, err
	}
	here := &pointer{at, name}
	v, err := r.value(here)
	if err != nil {
		return Field{}, err
	}
	if r.rest == nil {
		r.rest = make(map[string]jsontext.Value)
	}
	r.rest[here.String()] = v
	return Field{}, nil
}

func (r *argReader) open(kind jsontext.Kind, at *pointer) error {
	tok, err := r.dec.ReadToken()
	if err != nil {
		return argError(at, err)
	}
	if tok.Kind() != kind {
		return argError(at, fmt.Errorf("a JSON %s where the tool's schema declares another type", tok.Kind()))
	}
	return nil
}

func argError(at *pointer, err error) error {
	return fmt.Errorf("arguments at %s: %w", at, err)
}

// pointerToken escapes a name for a JSON Pointer (RFC 6901 section 3).
func pointerToken(name string) string {
	if !strings.ContainsAny(name, "~/") {
		return name
	}
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}
