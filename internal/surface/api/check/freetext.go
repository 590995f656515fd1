package check

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// Interceptor treats the messages of requests by the table. It stands behind the
// guard, so that nobody learns of it who may not call the method, and what it hands
// on was checked against the field rules.
type Interceptor struct{}

var _ connect.Interceptor = Interceptor{}

// WrapUnary treats the one request.
func (Interceptor) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		if !req.Spec().IsClient {
			if err := treat(req.Any()); err != nil {
				return nil, err
			}
		}
		return next(ctx, req)
	}
}

// WrapStreamingClient leaves clients alone.
func (Interceptor) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler treats every message received.
func (Interceptor) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		return next(ctx, treatedConn{conn})
	}
}

type treatedConn struct{ connect.StreamingHandlerConn }

// Receive reads a message. The error of a text that is refused is a *reason.Error,
// and the next message can still be read.
func (c treatedConn) Receive(message any) error {
	if err := c.StreamingHandlerConn.Receive(message); err != nil {
		return err
	}
	return treat(message)
}

func treat(message any) error {
	m, ok := message.(proto.Message)
	if !ok {
		return nil
	}
	return Treat(m)
}

// Treat changes the texts of a request as the table says, or refuses it with
// INVALID_INPUT, which does not tell the text. A text without a row, which no
// message of palyra.v1 has, is refused if it holds the form of a key.
func Treat(m proto.Message) error {
	var refused error
	m.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		refused = treatField(m.ProtoReflect(), field, value)
		return refused == nil
	})
	return refused
}

func treatField(m protoreflect.Message, field protoreflect.FieldDescriptor, value protoreflect.Value) error {
	if field.IsMap() {
		return nil // no request has one
	}
	if !field.IsList() {
		return treatValue(field, value, func(now string) { m.Set(field, protoreflect.ValueOfString(now)) })
	}
	for i := range value.List().Len() {
		err := treatValue(field, value.List().Get(i), func(now string) { value.List().Set(i, protoreflect.ValueOfString(now)) })
		if err != nil {
			return err
		}
	}
	return nil
}

// treatValue treats one value, and sets what becomes of it if that is another one.
func treatValue(field protoreflect.FieldDescriptor, value protoreflect.Value, set func(string)) error {
	switch field.Kind() {
	case protoreflect.MessageKind:
		return Treat(value.Message().Interface())
	case protoreflect.StringKind:
		text, err := treatText(field, value.String())
		if err == nil && text != value.String() {
			set(text)
		}
		return err
	}
	return nil
}

func treatText(field protoreflect.FieldDescriptor, text string) (string, error) {
	rule := rules[key(field)]
	if rule == Read {
		return text, nil
	}
	clean := tool.RedactText(text)
	if clean == text {
		return text, nil
	}
	switch rule {
	case Redacted:
		return clean, nil
	case Digested:
		return Digest(text), nil
	}
	return "", refusal(string(field.Name()))
}

// Names is the rule Refused for names that come as no request: those that somebody
// types on the gateway's host. what says which names they are.
func Names(what string, names ...string) error {
	for _, name := range names {
		if tool.RedactText(name) != name {
			return refusal(what)
		}
	}
	return nil
}

func refusal(what string) error {
	return reason.Errorf(reason.InvalidInput, "%s has the form of a key; it would be kept, and is refused", what).
		WithRemedy("Choose another text, and replace the key if it was shown to anybody.")
}

// Digest stands for an idempotency key that has the form of a key, so that a retry
// still finds the first request.
func Digest(text string) string {
	sum := sha256.Sum256([]byte("palyra idempotency key\x00" + text))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// key names a field in the table, such as FreezeRequest.reason.
func key(field protoreflect.FieldDescriptor) string {
	name := string(field.FullName())
	message := strings.LastIndexByte(name, '.')
	return name[strings.LastIndexByte(name[:message], '.')+1:]
}
