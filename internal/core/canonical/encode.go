package canonical

import (
	"encoding"
	"encoding/base64"
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Shaped is implemented by a json.Marshaler whose MarshalJSON returns json.Marshal of its
// Shape. This package encodes the Shape directly.
type Shaped interface {
	json.Marshaler
	Shape() any
}

// encoder writes a Go value in RFC 8785 form in one pass. It is a fast path for the types of
// the gateway's own records. Its methods return false for other values: the caller then uses
// json.Marshal and rewrites its output, which also reports the defects of a value.
type encoder struct {
	rewriter // rewrites the JSON texts in the value
	depth    int
}

// encoders is a pool of encoders. Their output is copied before they return to it, and large
// encoders are not kept.
var encoders = sync.Pool{New: func() any { return new(encoder) }}

// inOnePass calls use with the RFC 8785 form of v, which is valid until use returns. It returns
// false, without calling use, for a value that requires json.Marshal.
func inOnePass(v any, use func(text []byte)) bool {
	const kept = 64 << 10
	e, ok := encoders.Get().(*encoder)
	if !ok || !e.any(reflect.ValueOf(v)) {
		return false // e is dropped, as its state is undefined
	}
	use(e.out)
	if cap(e.out)+cap(e.scratch) <= kept {
		e.out, e.scratch = e.out[:0], e.scratch[:0]
		encoders.Put(e)
	}
	return true
}

// encode writes a value of one type. It returns false if the value requires json.Marshal.
type encode func(e *encoder, v reflect.Value) bool

// encodes caches the encode function of each type.
var encodes sync.Map

func encodeOf(t reflect.Type) encode {
	known, ok := encodes.Load(t)
	if !ok {
		known, _ = encodes.LoadOrStore(t, newEncode(t))
	}
	made, _ := known.(encode)
	return made
}

// later defers encodeOf to the first use, because a type may contain itself.
func later(t reflect.Type) func() encode {
	return sync.OnceValue(func() encode { return encodeOf(t) })
}

var (
	rawType     = reflect.TypeFor[json.RawMessage]()
	numberType  = reflect.TypeFor[json.Number]()
	timeType    = reflect.TypeFor[time.Time]()
	jsonType    = reflect.TypeFor[json.Marshaler]()
	textType    = reflect.TypeFor[encoding.TextMarshaler]()
	shapedType  = reflect.TypeFor[Shaped]()
	zeroingType = reflect.TypeFor[interface{ IsZero() bool }]()
)

// newEncode makes the same checks as encoding/json, in the same order. A pointer to a type with
// a method for encoding is encoded like that type, except for nil.
func newEncode(t reflect.Type) encode {
	switch {
	case t == rawType:
		return (*encoder).raw
	case t == timeType:
		return (*encoder).time
	case t == numberType:
		return (*encoder).number
	case t.Kind() == reflect.Pointer:
		return pointerEncode(t)
	case t.Kind() == reflect.Interface && (t.Implements(jsonType) || t.Implements(textType)):
		return giveUp
	case t.Implements(jsonType) && shaped(t):
		return (*encoder).shape
	case t.Implements(jsonType):
		return (*encoder).marshaler
	case t.Implements(textType) && !reflect.PointerTo(t).Implements(jsonType):
		return (*encoder).textMarshaler
	case reflect.PointerTo(t).Implements(jsonType) || reflect.PointerTo(t).Implements(textType):
		return giveUp // the encoding depends on whether the value is addressable
	}
	return kindEncode(t)
}

func kindEncode(t reflect.Type) encode {
	switch t.Kind() {
	case reflect.Bool:
		return (*encoder).bool
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return (*encoder).int
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return (*encoder).uint
	case reflect.Float64:
		return (*encoder).float
	case reflect.String:
		return (*encoder).string
	case reflect.Interface:
		return (*encoder).inner
	case reflect.Struct:
		return structEncode(t)
	case reflect.Map:
		return mapEncode(t)
	case reflect.Slice:
		return sliceEncode(t)
	case reflect.Array:
		return arrayEncode(t)
	}
	return giveUp
}

func giveUp(*encoder, reflect.Value) bool { return false }

// any encodes a value by its dynamic type.
func (e *encoder) any(v reflect.Value) bool {
	if !v.IsValid() {
		return e.null()
	}
	return encodeOf(v.Type())(e, v)
}

func (e *encoder) null() bool {
	e.out = append(e.out, "null"...)
	return true
}

// deeper enters a level of nesting, and reports whether MaxDepth permits it. Pointers are
// levels, because a value may point to itself. The caller decrements depth, except on failure.
func (e *encoder) deeper() bool {
	e.depth++
	return e.depth <= MaxDepth
}

func pointerEncode(t reflect.Type) encode {
	elem := later(t.Elem())
	return func(e *encoder, v reflect.Value) bool {
		if v.IsNil() {
			return e.null()
		}
		if !e.deeper() || !elem()(e, v.Elem()) {
			return false
		}
		e.depth--
		return true
	}
}

func (e *encoder) inner(v reflect.Value) bool { return e.any(v.Elem()) }

func (e *encoder) bool(v reflect.Value) bool {
	e.out = strconv.AppendBool(e.out, v.Bool())
	return true
}

// exact bounds the integers that are written as they are: a double holds each smaller integer
// exactly and prints it without an exponent.
const exact = 1e15

func (e *encoder) int(v reflect.Value) bool {
	n := v.Int()
	e.out = strconv.AppendInt(e.out, n, 10)
	return -exact < n && n < exact
}

func (e *encoder) uint(v reflect.Value) bool {
	n := v.Uint()
	e.out = strconv.AppendUint(e.out, n, 10)
	return n < exact
}

// float returns false for NaN and infinities, for which encoding/json reports an error.
func (e *encoder) float(v reflect.Value) bool {
	f := v.Float()
	switch {
	case f == math.Trunc(f) && math.Abs(f) < exact:
		e.out = strconv.AppendInt(e.out, int64(f), 10) // -0 is 0
	case math.IsNaN(f) || math.IsInf(f, 0):
		return false
	default:
		e.out = append(e.out, jsontext.Float(f).String()...)
	}
	return true
}

// number writes a json.Number that is an integer.
func (e *encoder) number(v reflect.Value) bool {
	text := v.String()
	if text == "" {
		text = "0"
	}
	from := len(e.out)
	e.out = append(e.out, text...)
	return integerLength(e.out[from:]) == len(text)
}

func (e *encoder) string(v reflect.Value) bool {
	e.quote(v.String())
	return true
}

// quote writes a string. Like encoding/json, it writes a replacement character for each byte
// that is not valid UTF-8.
func (e *encoder) quote(s string) {
	e.out = append(e.out, '"')
	from := len(e.out)
	e.out = append(e.out, s...)
	if n := straight(e.out[from:]); n < len(s) {
		e.out = e.out[:from+n]
		e.crooked(s[n:])
	}
	e.out = append(e.out, '"')
}

// crooked writes the rest of a string, from the first byte that is not straight.
func (e *encoder) crooked(s string) {
	const hex = "0123456789abcdef"
	from := 0
	for n := 0; n < len(s); {
		b, size := s[n], 1
		if b >= utf8.RuneSelf {
			var r rune
			if r, size = utf8.DecodeRuneInString(s[n:]); r != utf8.RuneError {
				n += size
				continue
			}
		}
		if straightByte(b) {
			n++
			continue
		}
		e.out = append(e.out, s[from:n]...)
		n += size
		from = n
		switch i := strings.IndexByte("\b\f\n\r\t", b); {
		case b >= utf8.RuneSelf:
			e.out = utf8.AppendRune(e.out, utf8.RuneError)
		case b >= ' ':
			e.out = append(e.out, '\\', b)
		case i >= 0:
			e.out = append(e.out, '\\', "bfnrt"[i])
		default:
			e.out = append(e.out, '\\', 'u', '0', '0', hex[b>>4], hex[b&15])
		}
	}
	e.out = append(e.out, s[from:]...)
}

func (e *encoder) time(v reflect.Value) bool {
	t, _ := reflect.TypeAssert[time.Time](v)
	var err error
	e.out = append(e.out, '"')
	e.out, err = t.AppendText(e.out)
	e.out = append(e.out, '"')
	return err == nil
}

func (e *encoder) raw(v reflect.Value) bool {
	if v.IsNil() {
		return e.null()
	}
	return e.json(v.Bytes())
}

// json writes an existing JSON value.
func (e *encoder) json(text []byte) bool {
	if plain(text) {
		e.out = append(e.out, text...)
		return true
	}
	e.in = text
	whole := e.value(0) && len(e.in) == 0
	e.in = nil
	return whole
}

// method returns v as an interface: its address if v is addressable, which avoids a copy.
func method[T any](v reflect.Value) T {
	if v.CanAddr() {
		v = v.Addr()
	}
	m, _ := reflect.TypeAssert[T](v)
	return m
}

func (e *encoder) marshaler(v reflect.Value) bool {
	text, err := method[json.Marshaler](v).MarshalJSON()
	return err == nil && e.json(text)
}

func (e *encoder) textMarshaler(v reflect.Value) bool {
	text, err := method[encoding.TextMarshaler](v).MarshalText()
	e.quote(string(text))
	return err == nil
}

func (e *encoder) shape(v reflect.Value) bool {
	if !e.deeper() || !e.any(reflect.ValueOf(method[Shaped](v).Shape())) {
		return false
	}
	e.depth--
	return true
}

// shaped reports whether a type defines its own Shape. A type that embeds a Shaped struct could
// inherit the Shape of that struct.
func shaped(t reflect.Type) bool {
	if !t.Implements(shapedType) {
		return false
	}
	for i := range fieldsOf(t) {
		if f := t.Field(i); f.Anonymous && (f.Type.Implements(shapedType) || reflect.PointerTo(f.Type).Implements(shapedType)) {
			return false
		}
	}
	return true
}

func fieldsOf(t reflect.Type) int {
	if t.Kind() == reflect.Struct {
		return t.NumField()
	}
	return 0
}

func sliceEncode(t reflect.Type) encode {
	if t.Elem().Kind() == reflect.Uint8 {
		if p := reflect.PointerTo(t.Elem()); p.Implements(jsonType) || p.Implements(textType) {
			return giveUp
		}
		return (*encoder).bytes
	}
	list := arrayEncode(t)
	return func(e *encoder, v reflect.Value) bool {
		if v.IsNil() {
			return e.null()
		}
		return list(e, v)
	}
}

func (e *encoder) bytes(v reflect.Value) bool {
	if v.IsNil() {
		return e.null()
	}
	e.out = append(e.out, '"')
	e.out = base64.StdEncoding.AppendEncode(e.out, v.Bytes())
	e.out = append(e.out, '"')
	return true
}

func arrayEncode(t reflect.Type) encode {
	elem := later(t.Elem())
	return func(e *encoder, v reflect.Value) bool {
		if !e.deeper() {
			return false
		}
		e.out = append(e.out, '[')
		for i := range v.Len() {
			if i > 0 {
				e.out = append(e.out, ',')
			}
			if !elem()(e, v.Index(i)) {
				return false
			}
		}
		e.out = append(e.out, ']')
		e.depth--
		return true
	}
}

// entry is a member of a map.
type entry struct {
	name  string
	value reflect.Value
}

// mapEncode supports maps whose keys are ASCII strings: the order of their bytes equals the
// order of their UTF-16 code units.
func mapEncode(t reflect.Type) encode {
	if t.Key().Kind() != reflect.String {
		return giveUp
	}
	elem, list := later(t.Elem()), reflect.SliceOf(t.Elem())
	return func(e *encoder, v reflect.Value) bool {
		if v.IsNil() {
			return e.null()
		}
		entries, ok := entriesOf(v, list)
		if !ok || !e.deeper() {
			return false
		}
		e.out = append(e.out, '{')
		for i, m := range entries {
			if i > 0 {
				e.out = append(e.out, ',')
			}
			e.quote(m.name)
			e.out = append(e.out, ':')
			if !elem()(e, m.value) {
				return false
			}
		}
		e.out = append(e.out, '}')
		e.depth--
		return true
	}
}

// entriesOf returns the members of a map, sorted by name. It copies their values into a slice
// of the type list, which makes them addressable; no encode depends on that.
func entriesOf(v reflect.Value, list reflect.Type) (entries []entry, ok bool) {
	entries = make([]entry, 0, v.Len())
	values, key := reflect.MakeSlice(list, v.Len(), v.Len()), reflect.New(v.Type().Key()).Elem()
	for all := v.MapRange(); all.Next(); {
		key.SetIterKey(all)
		name := key.String()
		for i := range len(name) {
			if name[i] >= utf8.RuneSelf {
				return nil, false
			}
		}
		value := values.Index(len(entries))
		value.SetIterValue(all)
		entries = append(entries, entry{name, value})
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	return entries, true
}

// List returns a list, or an empty one in place of nil, so that it is encoded as [] and not as null.
func List[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
