package inside

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"strconv"
	"testing"
)

func messages() map[string]func() Message {
	return map[string]func() Message{
		"spec":    func() Message { return new(Spec) },
		"order":   func() Message { return new(Order) },
		"report":  func() Message { return new(Report) },
		"attempt": func() Message { return new(Attempt) },
	}
}

// fill sets every field to a non-zero value.
func fill(v reflect.Value, r *rand.Rand) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), r)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), r)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1+r.IntN(3), 3))
		for i := range v.Len() {
			fill(v.Index(i), r)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range 1 + r.IntN(3) {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(key, r)
			fill(value, r)
			v.SetMapIndex(key, value)
		}
	case reflect.String:
		v.SetString("\x00ü" + strconv.Itoa(r.IntN(1_000_000)))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(-1 - r.Int64())
	case reflect.Uint16:
		v.SetUint(1 + r.Uint64N(1<<16-1))
	default: // any other kind panics
		v.SetUint(1 + r.Uint64N(1<<32-1))
	}
}

// The decoder reads every field that the encoder writes.
func TestEveryFieldTravels(t *testing.T) {
	t.Parallel()
	for name, empty := range messages() {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(50) {
				sent := empty()
				fill(reflect.ValueOf(sent).Elem(), rand.New(rand.NewPCG(seed, 1)))
				got := empty()
				if err := Decode(Encode(sent), got); err != nil || !reflect.DeepEqual(got, sent) {
					t.Fatalf("%v; sent\n%+v, got\n%+v", err, sent, got)
				}
			}
			got := empty()
			if err := Decode(Encode(empty()), got); err != nil || !reflect.DeepEqual(got, empty()) {
				t.Errorf("the empty message: %v, %+v", err, got)
			}
		})
	}
}

// A message that is truncated, extended, or encoded differently is refused.
func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	for name, empty := range messages() {
		t.Run(name, func(t *testing.T) {
			full := empty()
			fill(reflect.ValueOf(full).Elem(), rand.New(rand.NewPCG(1, 1)))
			whole := Encode(full)
			for n := range whole {
				if Decode(whole[:n], empty()) == nil {
					t.Errorf("%d of %d bytes are taken", n, len(whole))
				}
			}
			if Decode(append(whole, 0), empty()) == nil {
				t.Error("one byte more is taken")
			}
		})
	}
	word := func(w ...uint64) []byte {
		c := new(coder)
		for _, w := range w {
			c.word(w)
		}
		return c.bytes
	}
	const huge = 1<<64 - 1
	for name, c := range map[string]struct {
		text []byte
		into Message
	}{
		"a flag of 2":           {word(2, 0), new(Attempt)},
		"a length beyond all":   {word(1, huge), new(Attempt)},
		"a length of one more":  {append(word(1, 2), 'x'), new(Attempt)},
		"a list beyond all":     {word(0, huge), new(Spec)},
		"a list without bytes":  {word(0, 1<<30), new(Spec)},
		"a number of 33 bits":   {word(0, 0, 1<<32, 0), part(func(c *coder) { new(Operand).code(c) })},
		"a map out of order":    {append(append(append(word(2, 1), 'b'), append(word(7, 1), 'a')...), word(7)...), part(func(c *coder) { table(new(map[string]uint64), c) })},
		"a map with twins":      {append(append(append(word(2, 1), 'a'), append(word(7, 1), 'a')...), word(7)...), part(func(c *coder) { table(new(map[string]uint64), c) })},
		"nothing where a list":  {word(0), part(func(c *coder) { list(new([]string), c, text); number(new(int), c) })},
		"a pointer of no sense": {word(3), part(func(c *coder) { var p *Landlock; optional(&p, c, (*Landlock).code) })},
	} {
		if Decode(c.text, c.into) == nil {
			t.Errorf("%s is taken", name)
		}
	}
	sorted := append(append(append(word(2, 1), 'a'), append(word(7, 1), 'b')...), word(7)...)
	var m map[string]uint64
	if err := Decode(sorted, part(func(c *coder) { table(&m, c) })); err != nil || len(m) != 2 { // control
		t.Errorf("a map in order: %v, %v", err, m)
	}
}

// part is a message of a few fields.
type part func(*coder)

func (p part) code(c *coder) { p(c) }

// An accepted message is encoded to the same bytes again: each message has exactly one
// encoding, without unused bytes.
func FuzzDecode(f *testing.F) {
	for _, empty := range messages() {
		full := empty()
		fill(reflect.ValueOf(full).Elem(), rand.New(rand.NewPCG(1, 1)))
		f.Add(Encode(full))
		f.Add(Encode(empty()))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for name, empty := range messages() {
			m := empty()
			if Decode(text, m) == nil && !bytes.Equal(Encode(m), text) {
				t.Errorf("%s: %x is written as %x", name, text, Encode(m))
			}
		}
	})
}
