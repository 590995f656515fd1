package cli

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// apiVersion is the version of the machine output. Fields are only ever added.
const apiVersion = "palyra.dev/v1"

// object is a JSON object whose members keep their order.
type object []member

type member struct {
	name  string
	value any
}

// MarshalJSON writes the members in their order.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := marshal(m.name)
		if err != nil {
			return nil, err
		}
		value, err := marshal(m.value)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// marshal is json.Marshal without the escapes for HTML.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// document puts the version and kind in front of a body.
func document(kind string, body object) object {
	return append(object{{"apiVersion", apiVersion}, {"kind", kind}}, body...)
}

// listDocument is one document around all records of a list.
func listDocument(kind string, items []object) object {
	list := make([]any, len(items))
	for i, item := range items {
		list[i] = item
	}
	return document(kind+"List", object{{"items", list}})
}

// protoObject is a message as the machine output shows it: field names as in
// the proto, enums as their short lower-case names, times in RFC 3339 UTC,
// durations as Go writes them, 64-bit integers as numbers, lists never null,
// and a field x_json as the JSON value x.
func protoObject(m proto.Message) object {
	return messageObject(m.ProtoReflect())
}

func messageObject(m protoreflect.Message) object {
	fields := m.Descriptor().Fields()
	out := make(object, 0, fields.Len())
	for i := range fields.Len() {
		f := fields.Get(i)
		if f.ContainingOneof() != nil && !m.Has(f) {
			continue
		}
		name := string(f.Name())
		if f.Kind() == protoreflect.BytesKind {
			name = strings.TrimSuffix(name, "_json")
		}
		out = append(out, member{name, fieldValue(m, f)})
	}
	return out
}

func fieldValue(m protoreflect.Message, f protoreflect.FieldDescriptor) any {
	if f.IsList() {
		list := m.Get(f).List()
		out := make([]any, list.Len())
		for i := range out {
			out[i] = scalar(f, list.Get(i))
		}
		return out
	}
	if f.Message() != nil && !m.Has(f) {
		return nil
	}
	return scalar(f, m.Get(f))
}

func scalar(f protoreflect.FieldDescriptor, v protoreflect.Value) any {
	switch f.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		switch known := v.Message().Interface().(type) {
		case *timestamppb.Timestamp:
			return stamp(known)
		case *durationpb.Duration:
			return known.AsDuration().String()
		}
		return messageObject(v.Message())
	case protoreflect.EnumKind:
		return enumName(f.Enum(), v.Enum())
	case protoreflect.BytesKind:
		return bytesValue(string(f.Name()), v.Bytes())
	case protoreflect.StringKind:
		return strings.ToValidUTF8(v.String(), "�")
	}
	return v.Interface()
}

// bytesValue embeds JSON as it is; other bytes are base64.
func bytesValue(name string, b []byte) any {
	if !strings.HasSuffix(name, "_json") {
		return base64.StdEncoding.EncodeToString(b)
	}
	if len(b) == 0 {
		return nil
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, b); err != nil {
		return base64.StdEncoding.EncodeToString(b)
	}
	return json.RawMessage(compact.Bytes())
}

func stamp(t *timestamppb.Timestamp) string {
	return t.AsTime().UTC().Format(time.RFC3339Nano)
}

// enumName is the value's name without the prefix that its type demands:
// APPROVAL_STATE_PENDING is "pending"; unspecified is "".
func enumName(e protoreflect.EnumDescriptor, n protoreflect.EnumNumber) string {
	if n == 0 {
		return ""
	}
	v := e.Values().ByNumber(n)
	if v == nil {
		return "unknown"
	}
	return strings.ToLower(strings.TrimPrefix(string(v.Name()), enumPrefix(e)))
}

// enumPrefix is what the zero value's name has before UNSPECIFIED.
func enumPrefix(e protoreflect.EnumDescriptor) string {
	return strings.TrimSuffix(string(e.Values().ByNumber(0).Name()), "UNSPECIFIED")
}

// short is enumName for a Go value of a generated enum.
func short(e protoreflect.Enum) string { return enumName(e.Descriptor(), e.Number()) }

// enumNames lists the short names of an enum, without unspecified.
func enumNames(e protoreflect.EnumDescriptor) []string {
	var names []string
	for i := range e.Values().Len() {
		if n := e.Values().Get(i).Number(); n != 0 {
			names = append(names, enumName(e, n))
		}
	}
	return names
}

// parseEnum finds a value by its short name.
func parseEnum[E protoreflect.Enum](flag, name string) (E, error) {
	var zero E
	e := zero.Descriptor()
	for i := range e.Values().Len() {
		if n := e.Values().Get(i).Number(); n != 0 && enumName(e, n) == name {
			if value, ok := zero.Type().New(n).(E); ok {
				return value, nil
			}
		}
	}
	return zero, usage("--%s %q: want one of %s", flag, name, strings.Join(enumNames(e), ", ")).
		WithRemedy("%s", nearestOf(name, enumNames(e)))
}
