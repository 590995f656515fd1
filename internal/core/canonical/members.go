package canonical

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"time"
)

// field is a member of a struct.
type field struct {
	index int
	// within is the path of field indexes below index, for a field of an embedded struct.
	within []int
	// name is quoted, and ends with the colon.
	name      []byte
	omitEmpty bool
	omitZero  func(reflect.Value) bool
	encode    func() encode
}

func structEncode(t reflect.Type) encode {
	fields, ok := membersOf(t, nil)
	if !ok {
		return giveUp
	}
	slices.SortFunc(fields, func(a, b field) int { return bytes.Compare(unquoted(a), unquoted(b)) })
	for i := 1; i < len(fields); i++ {
		if bytes.Equal(fields[i-1].name, fields[i].name) {
			return giveUp // one field hides the other, or they hide each other
		}
	}
	return func(e *encoder, v reflect.Value) bool {
		if !e.deeper() {
			return false
		}
		e.out = append(e.out, '{')
		first := true
		for i := range fields {
			f := &fields[i]
			member := v.Field(f.index)
			for _, n := range f.within {
				member = member.Field(n)
			}
			if f.omitEmpty && empty(member) || f.omitZero != nil && f.omitZero(member) {
				continue
			}
			if !first {
				e.out = append(e.out, ',')
			}
			first = false
			e.out = append(e.out, f.name...)
			if !f.encode()(e, member) {
				return false
			}
		}
		e.out = append(e.out, '}')
		e.depth--
		return true
	}
}

func unquoted(f field) []byte { return f.name[1 : len(f.name)-len(`":`)] }

// membersOf lists the members of a struct, whose index path in the outermost struct is at. ok
// is false if a rule of encoding/json applies that this package does not implement.
func membersOf(t reflect.Type, at []int) (fields []field, ok bool) {
	for i := range t.NumField() {
		sf := t.Field(i)
		tag := sf.Tag.Get("json")
		if tag == "-" || !sf.Anonymous && !sf.IsExported() {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		index := append(slices.Clone(at), i)
		if sf.Anonymous {
			if !sf.IsExported() || sf.Type.Kind() != reflect.Struct || tag != "" || len(at) >= MaxDepth {
				return nil, false
			}
			inner, ok := membersOf(sf.Type, index)
			if !ok {
				return nil, false
			}
			fields = append(fields, inner...)
			continue
		}
		f, ok := memberOf(sf, name, options)
		if !ok {
			return nil, false
		}
		f.index, f.within = index[0], index[1:]
		fields = append(fields, f)
	}
	return fields, true
}

// memberOf returns the member that represents an exported field.
func memberOf(sf reflect.StructField, name, options string) (f field, ok bool) {
	if name == "" {
		name = sf.Name
	}
	for _, c := range []byte(name) {
		if c != '_' && c != '-' && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') {
			return f, false
		}
	}
	f = field{name: []byte(`"` + name + `":`), encode: later(sf.Type)}
	for option := range strings.SplitSeq(options, ",") {
		switch option {
		case "":
		case "omitempty":
			f.omitEmpty = true
		case "omitzero":
			if f.omitZero = zeroOf(sf.Type); f.omitZero == nil {
				return f, false
			}
		default: // such as string
			return f, false
		}
	}
	return f, true
}

// zeroOf returns the function that reports whether a value is zero. It returns nil for types
// whose IsZero method encoding/json calls by other rules.
func zeroOf(t reflect.Type) func(reflect.Value) bool {
	switch {
	case t == timeType:
		return func(v reflect.Value) bool {
			at, _ := reflect.TypeAssert[time.Time](v)
			return at.IsZero()
		}
	case t.Kind() == reflect.Interface || t.Kind() == reflect.Pointer:
		if t.Implements(zeroingType) {
			return nil
		}
		return reflect.Value.IsZero
	case t.Implements(zeroingType):
		return func(v reflect.Value) bool { return method[interface{ IsZero() bool }](v).IsZero() }
	case reflect.PointerTo(t).Implements(zeroingType):
		return nil
	}
	return reflect.Value.IsZero
}

// empty reports whether encoding/json considers the value empty.
func empty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return v.Len() == 0
	case reflect.Struct:
		return false
	case reflect.Bool,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr,
		reflect.Float32, reflect.Float64, reflect.Interface, reflect.Pointer:
		return v.IsZero()
	}
	return false
}
