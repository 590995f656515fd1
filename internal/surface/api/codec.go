package api

import (
	"errors"
	"fmt"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// codecs returns the codecs for protobuf and JSON requests. The protocol library decodes the
// request of a unary method before it calls any interceptor, and its error for a malformed
// request has no reason code. These codecs therefore never fail: they mark a malformed message,
// and the guard refuses it, with a reason, after it has checked credential, rate limit and
// permission.
func codecs() connect.HandlerOption {
	return connect.WithHandlerOptions(
		connect.WithCodec(wireForm{}),
		connect.WithCodec(strictJSON{"json"}), connect.WithCodec(strictJSON{"json; charset=utf-8"}))
}

// markField is the number of the field that marks a malformed message, the largest valid number. No
// message of the API has it, so the mark is an unknown field. A client cannot send it: both codecs
// drop or refuse unknown fields.
const markField = protowire.Number(1<<29 - 1)

// mark clears a message that did not decode, and stores the reason in it.
func mark(m proto.Message, why error) {
	proto.Reset(m)
	text := strings.TrimSpace(strings.TrimPrefix(why.Error(), "proto:"))
	field := protowire.AppendTag(nil, markField, protowire.BytesType)
	m.ProtoReflect().SetUnknown(protowire.AppendBytes(field, []byte(text)))
}

// unreadableMark returns the reason why a message did not decode.
func unreadableMark(m proto.Message) (why string, marked bool) {
	field := m.ProtoReflect().GetUnknown()
	number, kind, n := protowire.ConsumeTag(field)
	if n < 0 || number != markField || kind != protowire.BytesType {
		return "", false
	}
	text, n := protowire.ConsumeBytes(field[n:])
	return string(text), n >= 0
}

func messageOf(v any) (proto.Message, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is not a protobuf message", v)
	}
	return m, nil
}

// wireForm is the codec of the binary format.
type wireForm struct{}

// Name is part of the content type.
func (wireForm) Name() string { return "proto" }

// Marshal writes one message.
func (wireForm) Marshal(message any) ([]byte, error) {
	m, err := messageOf(message)
	if err != nil {
		return nil, err
	}
	return proto.Marshal(m)
}

// MarshalAppend is Marshal into a buffer of the protocol library.
func (wireForm) MarshalAppend(to []byte, message any) ([]byte, error) {
	m, err := messageOf(message)
	if err != nil {
		return nil, err
	}
	return proto.MarshalOptions{}.MarshalAppend(to, m)
}

// Unmarshal reads one message. Fields of a newer client are discarded.
func (wireForm) Unmarshal(data []byte, message any) error {
	m, err := messageOf(message)
	if err != nil {
		return err
	}
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, m); err != nil {
		mark(m, err)
	}
	return nil
}

// strictJSON is the codec of the JSON format. Unlike connect's own codec it refuses unknown
// members: ignoring a misspelled one would change the meaning of the request.
type strictJSON struct{ name string }

// Name is part of the content type.
func (c strictJSON) Name() string { return c.name }

// Marshal writes the standard JSON format.
func (c strictJSON) Marshal(message any) ([]byte, error) {
	m, err := messageOf(message)
	if err != nil {
		return nil, err
	}
	return protojson.Marshal(m)
}

// Unmarshal reads one message.
func (c strictJSON) Unmarshal(text []byte, message any) error {
	m, err := messageOf(message)
	if err != nil {
		return err
	}
	err = errors.New("the body is not a JSON object")
	if len(text) > 0 {
		err = protojson.Unmarshal(text, m)
	}
	if err != nil {
		mark(m, err)
	}
	return nil
}
