package canonical

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"palyra/internal/core/text"
)

// ErrSpelling is returned for an object key that differs only in case from a field's name.
var ErrSpelling = errors.New("object key differs only in case from one that is read")

// Read is json.Unmarshal for external text: a member matches a field only by its exact name.
// encoding/json matches the names of struct fields without regard to case, and the last match
// wins. It would read {"action":"decline","ACTION":"accept"} as accept, where other parsers
// read decline. The errors are those from Names and json.Unmarshal. Read has no size limit.
func Read(text []byte, into any) error {
	if err := Names(text, into); err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// Names checks the keys of a JSON value against the type of as, as encoding/json would decode
// it. In an object for a struct, it refuses a key that differs only in case (simple case
// folding) from the name of a field. It also refuses duplicate keys in objects for structs and
// maps. Unknown keys are permitted. Values for an interface or json.RawMessage are not checked.
func Names(text []byte, as any) error {
	dec := jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	return checkNames(dec, reflect.TypeOf(as))
}

func checkNames(dec *jsontext.Decoder, t reflect.Type) error {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	kind := dec.PeekKind()
	switch {
	case t == nil:
	case kind == '{' && (t.Kind() == reflect.Struct || t.Kind() == reflect.Map):
		return checkObject(dec, t)
	case kind == '[' && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array):
		return checkArray(dec, t.Elem())
	}
	if err := dec.SkipValue(); err != nil {
		return syntaxError(err)
	}
	return nil
}

func checkArray(dec *jsontext.Decoder, of reflect.Type) error {
	if _, err := dec.ReadToken(); err != nil {
		return syntaxError(err)
	}
	for kind := dec.PeekKind(); kind != ']' && kind != 0; kind = dec.PeekKind() {
		if err := checkNames(dec, of); err != nil {
			return err
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return syntaxError(err)
	}
	return nil
}

func checkObject(dec *jsontext.Decoder, t reflect.Type) error {
	if _, err := dec.ReadToken(); err != nil {
		return syntaxError(err)
	}
	seen := map[string]bool{}
	for kind := dec.PeekKind(); kind != '}' && kind != 0; kind = dec.PeekKind() {
		token, err := dec.ReadToken()
		if err != nil {
			return syntaxError(err)
		}
		name := token.String()
		if seen[name] {
			return fmt.Errorf("%w %q", ErrDuplicateKey, text.Ellipsis(name, 80))
		}
		seen[name] = true
		member, err := memberType(t, name)
		if err != nil {
			return err
		}
		if err := checkNames(dec, member); err != nil {
			return err
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return syntaxError(err)
	}
	return nil
}

// memberType returns the type of a member of an object for a t, or nil for a member that is not
// read.
func memberType(t reflect.Type, name string) (reflect.Type, error) {
	if t.Kind() == reflect.Map {
		return t.Elem(), nil
	}
	names := namesOf(t)
	if f, exact := names.types[name]; exact {
		return f, nil
	}
	if read, folds := names.folded[Fold(name)]; folds {
		return nil, fmt.Errorf("%w: %q, where %q is read", ErrSpelling, text.Ellipsis(name, 80), read)
	}
	return nil, nil
}

// fieldNames are the JSON names of a struct's fields.
type fieldNames struct {
	types  map[string]reflect.Type
	folded map[string]string
}

var knownNames sync.Map // of reflect.Type to *fieldNames

func namesOf(t reflect.Type) *fieldNames {
	known, there := knownNames.Load(t)
	if !there {
		n := &fieldNames{types: map[string]reflect.Type{}, folded: map[string]string{}}
		n.add(t, nil)
		known, _ = knownNames.LoadOrStore(t, n)
	}
	names, _ := known.(*fieldNames) // nothing else is stored
	return names
}

// add adds the fields of a struct, with fields of embedded structs last: a less deep field of the
// same name hides them. above contains the enclosing types, for a type that embeds itself.
func (n *fieldNames) add(t reflect.Type, above []reflect.Type) {
	if slices.Contains(above, t) {
		return
	}
	var embedded []reflect.Type
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		name, _, _ := strings.Cut(tag, ",")
		in := f.Type
		if in.Kind() == reflect.Pointer {
			in = in.Elem()
		}
		switch {
		case tag == "-":
		case f.Anonymous && name == "" && in.Kind() == reflect.Struct:
			embedded = append(embedded, in)
		case f.IsExported():
			if name == "" {
				name = f.Name
			}
			if _, hidden := n.types[name]; !hidden {
				n.types[name], n.folded[Fold(name)] = f.Type, name
			}
		}
	}
	for _, in := range embedded {
		n.add(in, append(above, t))
	}
}

// Fold returns the same text for names that are equal under simple case folding of Unicode
// (CaseFolding.txt).
func Fold(name string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			least = min(least, next)
		}
		return least
	}, name)
}
