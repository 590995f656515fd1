package printer

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

// ApiVersion is the version of the machine output. Fields are only ever added.
const ApiVersion = "palyra.dev/v1"

// Object is a JSON object that preserves the order of its members.
type Object []Member

// Member is a name with its value. It is an alias, so that every package can write an object as
// {{"name", value}, ...}.
type Member = struct {
	Name  string
	Value any
}

// MarshalJSON writes the members in their order.
func (o Object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := Marshal(m.Name)
		if err != nil {
			return nil, err
		}
		value, err := Marshal(m.Value)
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

// Marshal is json.Marshal without HTML escapes.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Document puts the version and kind in front of a body.
func Document(kind string, body Object) Object {
	return append(Object{{"apiVersion", ApiVersion}, {"kind", kind}}, body...)
}

// listDocument is one document around all records of a list.
func listDocument(kind string, items []Object) Object {
	list := make([]any, len(items))
	for i, item := range items {
		list[i] = item
	}
	return Document(kind+"List", Object{{"items", list}})
}

// ProtoObject converts a message for machine output. Field names are as in the proto, and enums
// are their short lower-case names. Times are in RFC 3339 UTC, durations in Go's format, and
// 64-bit integers are numbers. Lists are never null, and a field x_json is the JSON value x.
func ProtoObject(m proto.Message) Object {
	return messageObject(m.ProtoReflect())
}

func messageObject(m protoreflect.Message) Object {
	fields := m.Descriptor().Fields()
	out := make(Object, 0, fields.Len())
	for i := range fields.Len() {
		f := fields.Get(i)
		if f.ContainingOneof() != nil && !m.Has(f) {
			continue
		}
		name := string(f.Name())
		if f.Kind() == protoreflect.BytesKind {
			name = strings.TrimSuffix(name, "_json")
		}
		out = append(out, Member{name, fieldValue(m, f)})
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
			return Stamp(known)
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

// Stamp is a time for machines.
func Stamp(t *timestamppb.Timestamp) string {
	return t.AsTime().UTC().Format(time.RFC3339Nano)
}
