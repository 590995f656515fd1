package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/cedar-policy/cedar-go/types"
	"github.com/go-json-experiment/json/jsontext"

	"palyra/internal/canonical"
)

func cedarString[T ~string](s T) types.String { return types.String(s) }

// argReader turns arguments into a Cedar record along an argType. What the
// type does not declare is kept by its JSON Pointer.
type argReader struct {
	dec  *jsontext.Decoder
	rest map[string]jsontext.Value
}

// argumentValues returns context.args and context.args_rest. The second is
// the canonical JSON of an object from JSON Pointer to value, or "" when
// everything was declared.
func argumentValues(t *argType, args []byte) (types.Record, types.String, error) {
	if len(args) == 0 {
		args = []byte("{}")
	}
	r := &argReader{dec: jsontext.NewDecoder(bytes.NewReader(args))}
	value, err := r.read(t, "")
	if err != nil {
		return types.Record{}, "", err
	}
	if _, err := r.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return types.Record{}, "", errors.New("arguments: text after the object")
	}
	rest, err := r.restText()
	if err != nil {
		return types.Record{}, "", err
	}
	record, ok := value.(types.Record)
	if !ok {
		return types.Record{}, "", errors.New("arguments are not an object")
	}
	return record, rest, nil
}

func (r *argReader) restText() (types.String, error) {
	if len(r.rest) == 0 {
		return "", nil
	}
	text, err := canonical.Marshal(r.rest)
	return types.String(text), err
}

func (r *argReader) read(t *argType, path string) (types.Value, error) {
	switch t.kind {
	case argRecord:
		return r.record(t, path)
	case argSet:
		return r.set(t, path)
	case argOpaque:
		return r.opaque(path)
	default:
		return r.scalar(t.kind, path)
	}
}

func (r *argReader) scalar(kind argKind, path string) (types.Value, error) {
	tok, err := r.dec.ReadToken()
	if err != nil {
		return nil, argError(path, err)
	}
	switch {
	case kind == argString && tok.Kind() == '"':
		return types.String(tok.String()), nil
	case kind == argBool && (tok.Kind() == 't' || tok.Kind() == 'f'):
		return types.Boolean(tok.Bool()), nil
	case kind == argLong && tok.Kind() == '0':
		return longValue(tok.String(), path)
	}
	return nil, argError(path, fmt.Errorf("a JSON %s where the tool's schema declares another type", tok.Kind()))
}

// longValue reads an integer of JSON Schema, which may be written 1.0 or 1e3.
func longValue(text, path string) (types.Value, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return types.Long(n), nil
	}
	const exact = 1 << 53
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f != float64(int64(f)) || f > exact || f < -exact {
		return nil, argError(path, errors.New("the integer does not fit 64 bits"))
	}
	return types.Long(int64(f)), nil
}

func (r *argReader) opaque(path string) (types.Value, error) {
	value, err := r.value(path)
	return types.String(value), err
}

// value reads one JSON value in canonical form.
func (r *argReader) value(path string) (jsontext.Value, error) {
	raw, err := r.dec.ReadValue()
	if err != nil {
		return nil, argError(path, err)
	}
	raw = raw.Clone()
	if err := raw.Canonicalize(); err != nil {
		return nil, argError(path, err)
	}
	return raw, nil
}

func (r *argReader) set(t *argType, path string) (types.Value, error) {
	if err := r.open('[', path); err != nil {
		return nil, err
	}
	values := []types.Value{}
	for r.dec.PeekKind() != ']' {
		v, err := r.read(t.elem, path)
		if err != nil {
			return nil, err
		}
		values = append(values, v)
	}
	if _, err := r.dec.ReadToken(); err != nil {
		return nil, argError(path, err)
	}
	return types.NewSet(values...), nil
}

func (r *argReader) record(t *argType, path string) (types.Value, error) {
	if err := r.open('{', path); err != nil {
		return nil, err
	}
	fields := make(types.RecordMap, len(t.fields))
	for r.dec.PeekKind() != '}' {
		if err := r.member(t, path, fields); err != nil {
			return nil, err
		}
	}
	if _, err := r.dec.ReadToken(); err != nil {
		return nil, argError(path, err)
	}
	return types.NewRecord(fields), nil
}

func (r *argReader) member(t *argType, path string, fields types.RecordMap) error {
	tok, err := r.dec.ReadToken()
	if err != nil {
		return argError(path, err)
	}
	name := tok.String()
	f, ok := t.fields[name]
	if ok {
		v, err := r.read(f.typ, path+"/"+pointerToken(name))
		fields[types.String(name)] = v
		return err
	}
	at := path + "/" + pointerToken(name)
	v, err := r.value(at)
	if err != nil {
		return err
	}
	if r.rest == nil {
		r.rest = make(map[string]jsontext.Value)
	}
	r.rest[at] = v
	return nil
}

func (r *argReader) open(kind jsontext.Kind, path string) error {
	tok, err := r.dec.ReadToken()
	if err != nil {
		return argError(path, err)
	}
	if tok.Kind() != kind {
		return argError(path, fmt.Errorf("a JSON %s where the tool's schema declares another type", tok.Kind()))
	}
	return nil
}

func argError(path string, err error) error {
	if path == "" {
		path = "/"
	}
	return fmt.Errorf("arguments at %s: %w", path, err)
}
