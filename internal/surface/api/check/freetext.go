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

// Interceptor applies the table of text rules to the texts of requests. It runs behind the guard,
// so that callers without permission cannot probe it. The guard has already checked the field rules
// of each message.
type Interceptor struct{}

var _ connect.Interceptor = Interceptor{}

// WrapUnary treats the request of a unary method.
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

// WrapStreamingClient does nothing: the interceptor is for handlers.
func (Interceptor) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler treats every received message.
func (Interceptor) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		return next(ctx, treatedConn{conn})
	}
}

type treatedConn struct{ connect.StreamingHandlerConn }

// Receive reads a message. For a refused text the error is a *reason.Error, and the next message
// can still be read.
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

// Treat changes the texts of a request as the table requires, or refuses the request with
// INVALID_INPUT, whose message omits the text. All text fields of palyra.v1 have a row in the
// table. A text of a field without a row is refused if it has the form of a key.
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
		return nil // no request contains a map
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

// treatValue treats one value, and calls set if the value changes.
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

// Names applies the rule Refused to names that are entered on the gateway's host and not part
// of a request. The parameter what describes the names in the error.
func Names(what string, names ...string) error {
	for _, name := range names {
		if tool.RedactText(name) != name {
			return refusal(what)
		}
	}
	return nil
}

func refusal(what string) error {
	return reason.Errorf(reason.InvalidInput, "%s has the form of a secret key, which must not be stored", what).
		WithRemedy("Choose another text, and replace the key if it was disclosed.")
}

// Digest replaces an idempotency key that has the form of a secret key, so that a retry still finds
// the first request.
func Digest(text string) string {
	sum := sha256.Sum256([]byte("palyra idempotency key\x00" + text))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// key returns the name of a field in the table, such as FreezeRequest.reason.
func key(field protoreflect.FieldDescriptor) string {
	name := string(field.FullName())
	message := strings.LastIndexByte(name, '.')
	return name[strings.LastIndexByte(name[:message], '.')+1:]
}
