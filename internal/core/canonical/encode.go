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

// Shaped is implemented by a json.Marshaler that is written as another value: its
// MarshalJSON returns json.Marshal of its Shape. Here, that value is encoded in place.
type Shaped interface {
	json.Marshaler
	Shape() any
}

// encoder writes a Go value in RFC 8785 form in one pass. It is a fast path for json.Marshal and
// rewriting its output, for the types of the gateway's own records. If it returns false, the slow
// path is used: only that reports the defect of a value.
type encoder struct {
	rewriter // of the texts that stand in the value
	depth    int
}

// encoders are for use again. What one wrote is copied before it is given back, and
// one that has become large is not kept.
var encoders = sync.Pool{New: func() any { return new(encoder) }}

// inOnePass calls use with the RFC 8785 form of v, which is good until use returns. It
// returns false, and calls nothing, for a value that takes json.Marshal.
func inOnePass(v any, use func(text []byte)) bool {
	const kept = 64 << 10
	e, ok := encoders.Get().(*encoder)
	if !ok || !e.any(reflect.ValueOf(v)) {
		return false // e may be in the middle of anything
	}
	use(e.out)
	if cap(e.out)+cap(e.scratch) <= kept {
		e.out, e.scratch = e.out[:0], e.scratch[:0]
		encoders.Put(e)
	}
	return true
}

// encode writes the value of one type.
type encode func(e *encoder, v reflect.Value) bool

// encodes has the encode of each type that was seen.
var encodes sync.Map

func encodeOf(t reflect.Type) encode {
	known, ok := encodes.Load(t)
	if !ok {
		known, _ = encodes.LoadOrStore(t, newEncode(t))
	}
	made, _ := known.(encode)
	return made
}

// later is encodeOf when it is first used: a type may have itself in it.
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

// newEncode asks what encoding/json asks, in its order. A pointer to what can be
// encoded by a method is the same as that, but for nil.
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
		return giveUp // it depends on whether the value has an address
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

// any encodes a value by the type that it has.
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

// deeper counts a level of nesting in, pointers among them: a value may point at
// itself. The caller counts it out, unless that gives up.
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

// exact is the limit of the integers that are written as they are: below, a double
// holds each, and prints it without an exponent.
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

// float leaves infinities, which have no form, to encoding/json.
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

// number writes an integer that was read.
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

// quote writes a string. Like encoding/json it writes a replacement character for
// each byte that is not UTF-8.
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

// crooked writes what stands in a string that is not straight.
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

// method is what v has the methods of a type by: its address, if it has one, which
// spares a copy.
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

// shaped reports whether a type defines its own encoding. An embedded struct, whose methods the
// type inherits, may differ.
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

// mapEncode knows maps whose keys are strings in ASCII: their bytes and their UTF-16
// code units have the same order.
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

// entriesOf returns the members of a map by their names. Their values stand in one list
// of a type, which has an address; no encode asks whether they had one before.
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
