package canonical

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"palyra/internal/core/must"
)

// twoSteps returns the text that Marshal must return: encoding/json, then the library.
func twoSteps(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encoding %T: %w", v, err)
	}
	if text, err = library(text); err != nil {
		return nil, fmt.Errorf("canonical form of %T: %w", v, err)
	}
	return text, nil
}

// agree compares Marshal and DigestOf with twoSteps.
func agree(t *testing.T, v any) {
	t.Helper()
	want, wantErr := twoSteps(v)
	got, err := Marshal(v)
	if !bytes.Equal(got, want) || fmt.Sprint(err) != fmt.Sprint(wantErr) {
		t.Fatalf("Marshal(%#v)\n= %q, %v\nwant %q, %v", v, got, err, want, wantErr)
	}
	digest, err := DigestOf(v)
	if fmt.Sprint(err) != fmt.Sprint(wantErr) || wantErr == nil && digest != Digest(want) {
		t.Fatalf("DigestOf(%#v) = %s, %v, want that of %q, %v", v, digest, err, want, wantErr)
	}
	if wantErr == nil && !Is(got) {
		t.Fatalf("%q is not said to be canonical", got)
	}
}

// These are the types of which values are made.
type (
	valueJSON   struct{ Text string }
	pointerJSON struct{ Text string }
	valueText   struct{ Text string }
	pointerText struct{ Text string }
	bothMixed   struct{ Text string } // text by value, JSON by pointer
	listJSON    []string
	mapText     map[string]int
	zeroValue   struct{ N int }
	zeroPointer struct{ N int }
	shapedOne   struct {
		B  int
		At time.Time
	}
	shapedByPointer struct{ A, B int }
	holdsShaped     struct {
		shapedOne
		More int
	}
	HoldsShaped struct {
		ShapedInner
		More int
	}
	ShapedInner struct{ Z, A int }
	Inner       struct {
		B int `json:"b"`
		A int `json:"a,omitempty"`
	}
	Hidden struct {
		Name string `json:"name"`
		Deep string `json:"deep"`
	}
	embeds struct {
		Zebra string
		Inner
		Last *int `json:"aaa,omitempty"`
	}
	conflicts struct {
		Hidden
		Name string `json:"name"`
	}
	annihilates struct {
		Hidden
		Other
	}
	Other      struct{ Name, Deep string }
	embedsPtr  struct{ *Inner }
	embedsTime struct {
		time.Time
		N int
	}
	embedsTwo struct {
		time.Time
		valueJSON
		N int
	}
	embedsTagged struct {
		Inner `json:"inner"`
		N     int
	}
	private struct{ B int }
	name    string
	byte2   byte
	textby  byte // an element of a list, without base64
	tree    struct {
		Left, Right *tree          `json:",omitempty"`
		More        []tree         `json:"more,omitempty"`
		Named       map[name]*tree `json:"named,omitempty"`
		V           any            `json:"v"`
	}
	zoo struct {
		Zulu    string          `json:"zulu"`
		A       string          `json:"a,omitempty"`
		Raw     json.RawMessage `json:"raw,omitempty"`
		RawToo  json.RawMessage `json:"raw2"`
		RawAt   *json.RawMessage
		Number  json.Number `json:"number"`
		Time    time.Time   `json:"time,omitzero"`
		TimeAt  *time.Time  `json:"time_at,omitempty"`
		Took    time.Duration
		I8      int8
		I64     int64
		U64     uint64
		F32     float32
		F64     float64
		B       bool
		Bytes   []byte
		Byte2s  []byte2
		Textbys []textby
		Array   [3]uint8
		Any     any
		Anys    []any
		ByName  map[string]any
		ByKind  map[name]string `json:",omitempty"`
		ByInt   map[int]string  `json:",omitempty"`
		ByText  map[valueText]int
		VJ      valueJSON
		VJs     []valueJSON
		PJ      pointerJSON
		PJAt    *pointerJSON
		PJs     []pointerJSON
		PJMap   map[string]pointerJSON
		VT      valueText
		VTAt    *valueText
		PT      pointerText
		PTs     []pointerText
		BM      bothMixed
		BMs     []bothMixed
		LJ      listJSON
		MT      mapText
		ZV      zeroValue   `json:"zv,omitzero"`
		ZVAt    *zeroValue  `json:"zv_at,omitzero"`
		ZP      zeroPointer `json:"zp,omitzero"`
		ZI      int         `json:"zi,omitzero"`
		ZS      []string    `json:"zs,omitzero"`
		Stringy int64       `json:"stringy,string"`
		Skipped int         `json:"-"`
		HTML    int         `json:"<&>"`
		Umlaut  int         `json:"ü"`
		private int
		Marsh   json.Marshaler
		Str     fmt.Stringer
		Tree    *tree
	}
)

func (v valueJSON) MarshalJSON() ([]byte, error)    { return marshalled(v.Text) }
func (p *pointerJSON) MarshalJSON() ([]byte, error) { return marshalled("p" + p.Text) }
func (v valueText) MarshalText() ([]byte, error)    { return texted(v.Text) }
func (p *pointerText) MarshalText() ([]byte, error) { return texted("p" + p.Text) }
func (b bothMixed) MarshalText() ([]byte, error)    { return texted(b.Text) }
func (b *bothMixed) MarshalJSON() ([]byte, error)   { return marshalled(b.Text) }
func (l listJSON) MarshalJSON() ([]byte, error)     { return json.Marshal(len(l)) }
func (m mapText) MarshalText() ([]byte, error)      { return texted(fmt.Sprint(len(m))) }
func (z zeroValue) IsZero() bool                    { return z.N%2 == 0 }
func (z *zeroPointer) IsZero() bool                 { return z.N%2 == 0 }
func (t textby) MarshalText() ([]byte, error)       { return texted(fmt.Sprint("t", byte(t))) }

func (s shapedOne) Shape() any {
	type plain shapedOne
	s.At = s.At.UTC()
	return plain(s)
}
func (s shapedOne) MarshalJSON() ([]byte, error)        { return json.Marshal(s.Shape()) }
func (s *shapedByPointer) Shape() any                   { return map[string]int{"sum": s.A + s.B} }
func (s *shapedByPointer) MarshalJSON() ([]byte, error) { return json.Marshal(s.Shape()) }
func (s ShapedInner) Shape() any                        { return []int{s.Z, s.A} }
func (s ShapedInner) MarshalJSON() ([]byte, error)      { return json.Marshal(s.Shape()) }
func (h HoldsShaped) MarshalJSON() ([]byte, error)      { return json.Marshal(h.More) }

// marshalled returns the text itself, which may or may not be JSON, or a string of it.
func marshalled(text string) ([]byte, error) {
	switch {
	case text == "error":
		return nil, errors.New("cannot")
	case strings.HasPrefix(text, "p"):
		return json.Marshal(text)
	}
	return []byte(text), nil
}

func texted(text string) ([]byte, error) {
	if text == "error" {
		return nil, errors.New("cannot")
	}
	return []byte(text), nil
}

var zooTypes = []reflect.Type{
	reflect.TypeFor[zoo](), reflect.TypeFor[*zoo](), reflect.TypeFor[tree](), reflect.TypeFor[any](), reflect.TypeFor[string](), reflect.TypeFor[json.RawMessage](),
	reflect.TypeFor[embeds](), reflect.TypeFor[conflicts](), reflect.TypeFor[annihilates](), reflect.TypeFor[embedsPtr](), reflect.TypeFor[embedsTime](),
	reflect.TypeFor[embedsTwo](), reflect.TypeFor[embedsTagged](), reflect.TypeFor[shapedOne](), reflect.TypeFor[*shapedOne](), reflect.TypeFor[shapedByPointer](),
	reflect.TypeFor[[]shapedByPointer](), reflect.TypeFor[HoldsShaped](), reflect.TypeFor[holdsShaped](), reflect.TypeFor[map[string]shapedOne](),
	reflect.TypeFor[map[string]json.RawMessage](), reflect.TypeFor[[]float64](), reflect.TypeFor[[]float32](), reflect.TypeFor[[]int64](), reflect.TypeFor[time.Time](),
	reflect.TypeFor[[]uint64](), reflect.TypeFor[map[string]string](), reflect.TypeFor[pointerJSON](), reflect.TypeFor[valueJSON](), reflect.TypeFor[*pointerText](),
}

// maker creates values from fuzzing data.
type maker struct {
	data  []byte
	depth int
}

func (m *maker) byte() byte {
	if len(m.data) == 0 {
		return 0
	}
	b := m.data[0]
	m.data = m.data[1:]
	return b
}

func (m *maker) uint() uint64 {
	var word [8]byte
	n := copy(word[:m.byte()%9], m.data)
	m.data = m.data[n:]
	return binary.LittleEndian.Uint64(word[:])
}

var someTexts = []string{
	"", "a", "<&>", "\u2028\u2029", "\ufffd", "é😀", "\x00\x01\x1f\x7f", "\b\f\n\r\t\"\\/", "\xff\xc0", "error", "null", "{}", "[1,2]", `{"b":1,"a":2}`, `{"a":1,"a":2}`, " 1",
	`"\u0041\ud83d\ude00"`, `"\ud800"`, "1.50", "1e400", "-0", "9007199254740993", "123456789012345", "1000000000000000", `{"é":1,"z":2}`, "eight by\"", "0123456789abcdefg<",
	strings.Repeat("[", 70) + strings.Repeat("]", 70), "tru", `"<>&\u003c"`, `"` + "\xff" + `"`, "[1,]", `{"a":{"c":1,"b":[]}}`, "12 ",
}

func (m *maker) text() string {
	switch kind := m.byte(); {
	case kind < 200:
		return someTexts[int(kind)%len(someTexts)]
	default:
		n := min(int(kind-200), len(m.data))
		text := string(m.data[:n])
		m.data = m.data[n:]
		return text
	}
}

func (m *maker) length() int {
	if m.depth > 6 {
		return 0
	}
	return int(m.byte() % 4)
}

// fill sets the settable parts of a value.
func (m *maker) fill(v reflect.Value) {
	if len(m.data) == 0 || !v.CanSet() {
		return
	}
	m.depth++
	defer func() { m.depth-- }()
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(m.byte()&1 > 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(m.uint()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		v.SetUint(m.uint())
	case reflect.Float32, reflect.Float64:
		v.SetFloat(m.float())
	case reflect.String:
		v.SetString(m.text())
	case reflect.Interface:
		m.fillInterface(v)
	case reflect.Struct:
		if v.Type() == timeType {
			v.Set(reflect.ValueOf(time.Unix(int64(m.uint())%(1<<38), int64(m.uint()%1e9)).In(time.FixedZone("", int(m.byte())*600))))
			return
		}
		for i := range v.NumField() {
			m.fill(v.Field(i))
		}
	case reflect.Pointer:
		if m.depth < 8 && m.byte()%3 > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			m.fill(v.Elem())
		}
	case reflect.Slice:
		m.fillSlice(v)
	case reflect.Array:
		for i := range v.Len() {
			m.fill(v.Index(i))
		}
	case reflect.Map:
		if m.byte()%4 == 0 {
			return
		}
		v.Set(reflect.MakeMap(v.Type()))
		for range m.length() {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			m.fill(key)
			m.fill(value)
			v.SetMapIndex(key, value)
		}
	}
}

func (m *maker) float() float64 {
	switch m.byte() % 4 {
	case 0:
		return float64(int64(m.uint()))
	case 1:
		return []float64{0, math.Copysign(0, -1), 1e15, 1e15 - 1, 1e21, 1e-7, 0.1, 1 << 53, math.NaN(), math.Inf(1), 999999999999999.9, 5e-324}[m.byte()%12]
	}
	return math.Float64frombits(m.uint())
}

func (m *maker) fillSlice(v reflect.Value) {
	if v.Type() == rawType || v.Type().Elem() == reflect.TypeFor[byte]() {
		if m.byte()%4 > 0 {
			v.Set(reflect.ValueOf([]byte(m.text())).Convert(v.Type()))
		}
		return
	}
	if m.byte()%4 == 0 {
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), m.length(), 4))
	for i := range v.Len() {
		m.fill(v.Index(i))
	}
}

func (m *maker) fillInterface(v reflect.Value) {
	if m.depth > 8 {
		return
	}
	var of reflect.Type
	switch v.Type() {
	case reflect.TypeFor[any]():
		of = zooTypes[int(m.byte())%len(zooTypes)]
	case jsonType:
		of = []reflect.Type{rawType, reflect.TypeFor[valueJSON](), reflect.TypeFor[*valueJSON](), timeType, reflect.TypeFor[shapedOne]()}[m.byte()%5]
	default:
		of = timeType
	}
	made := reflect.New(of).Elem()
	m.fill(made)
	if of.Kind() == reflect.Pointer && made.IsNil() {
		return // encoding/json calls a method on nil
	}
	v.Set(made)
}

// structOf returns a generated type: fields of zoo in another order, with other tags.
func (m *maker) structOf() reflect.Type {
	options := []string{"", ",omitempty", ",omitzero", ",string", ",omitempty,omitzero", ",unknown"}
	names := []string{"", "a", "b", "B", "é", "a b", "x-y", "<", "z_9", "a\\", "a\"b", "-"}
	zoo := reflect.TypeFor[zoo]()
	var fields []reflect.StructField
	for i := range m.byte() % 6 {
		f := zoo.Field(int(m.byte()) % zoo.NumField())
		if f.Type.NumMethod() > 0 && f.Type.Kind() == reflect.Interface || !f.IsExported() {
			continue
		}
		tag := names[int(m.byte())%len(names)] + options[int(m.byte())%len(options)]
		fields = append(fields, reflect.StructField{Name: fmt.Sprintf("F%d", i), Type: f.Type, Tag: reflect.StructTag(fmt.Sprintf("json:%q", tag))})
	}
	return reflect.StructOf(fields)
}

// made returns a value created from the bytes, addressable or not.
func made(data []byte) any {
	m := maker{data: data}
	of := m.structOf()
	if kind := m.byte(); kind < 192 {
		of = zooTypes[int(kind)%len(zooTypes)]
	}
	v := reflect.New(of)
	byAddress := m.byte()&1 > 0
	m.fill(v.Elem())
	if byAddress {
		return v.Interface()
	}
	return v.Elem().Interface()
}

// TestMarshalAgrees compares many values, the same ones each time.
func TestMarshalAgrees(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	short := 0
	for range 10_000 {
		data := make([]byte, r.IntN(400))
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		v := made(data)
		agree(t, v)
		if inOnePass(v, func([]byte) {}) {
			short++
		}
	}
	if short < 1000 {
		t.Errorf("only %d values took the short cut", short)
	}
	for _, text := range someTexts {
		for _, v := range []any{text, json.RawMessage(text), json.Number(text), valueJSON{text}, &pointerText{text}, map[string]string{text: text}, []byte(text)} {
			agree(t, v)
		}
	}
	agree(t, zoo{private: 1})
	agree(t, struct {
		A int `json:"a"`
		private
	}{1, private{2}})
	agree(t, nil)
	agree(t, make(chan int))
	agree(t, map[string]any{"f": func() {}})
	agree(t, complex(1, 2))
}

// A value that contains itself is refused.
func TestMarshalCycles(t *testing.T) {
	t.Parallel()
	ring := &tree{}
	ring.Left = ring
	list := []any{nil}
	list[0] = list
	for _, v := range []any{ring, list} {
		if out, err := Marshal(v); err == nil || !strings.Contains(err.Error(), "cycle") {
			t.Errorf("%.40q, %v", out, err)
		}
	}
	deep := any("x")
	for range 3 * MaxDepth {
		deep = []any{deep}
	}
	agree(t, deep)
}

// A returned text does not change later, and no part of one value appears in another.
func TestMarshalOwnsWhatItReturns(t *testing.T) {
	t.Parallel()
	first := must.Get(Marshal(map[string]string{"secret": strings.Repeat("s", 500)}))(t)
	was := bytes.Clone(first)
	for i := range 100 {
		if got := must.Get(Marshal(map[string]any{"n": i, "raw": json.RawMessage(`{"b":1,"a":2}`)}))(t); bytes.Contains(got, []byte("ss")) {
			t.Fatalf("%s", got)
		}
	}
	if !bytes.Equal(first, was) {
		t.Errorf("it became %s", first)
	}
}

// FuzzMarshal compares Marshal with encoding/json followed by the library.
func FuzzMarshal(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		data := make([]byte, 10+r.IntN(300))
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) { agree(t, made(data)) })
}
