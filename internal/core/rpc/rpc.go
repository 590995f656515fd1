// Package rpc carries the methods of generated clients and handlers over connect.
//
// connect compiles its client and its handler again for each pair of message types. With the 130
// methods of the API these copies, and their names in the table that Go keeps for stack traces,
// were a fifth of palyra. All clients and unary handlers therefore use one type, Message, and the
// wire format does not change. The few handlers of streams keep the types of connect.
package rpc

import (
	"context"
	"net/http"
	"sync"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Message is a request or a response of any method. Interceptors receive it in place of the message
// that it contains; its reflection is that of the contained message.
type Message struct{ proto.Message }

// Reset clears the contained message. Without this method, decoding would clear each field by
// reflection.
func (m *Message) Reset() { proto.Reset(m.Message) }

// initialize sets a Message that connect has just allocated to an empty message of a type.
func initialize(kind protoreflect.MessageType) func(connect.Spec, any) error {
	return func(_ connect.Spec, allocated any) error {
		if m, ok := allocated.(*Message); ok {
			m.Message = kind.New().Interface()
		}
		return nil
	}
}

// typeOf returns the type of a generated message.
func typeOf[M proto.Message]() protoreflect.MessageType {
	var none M
	return none.ProtoReflect().Type()
}

// UnaryClient calls one unary method. It is safe for concurrent use.
type UnaryClient[Req, Res proto.Message] struct{ client client }

// client builds connect's client of a method at its first call. A program has clients of all
// methods and calls few; building all of them takes longer than a call.
type client func() *connect.Client[Message, Message]

// NewUnaryClient returns a client of the method at a URL.
func NewUnaryClient[Req, Res proto.Message](over connect.HTTPClient, url string, opts ...connect.ClientOption) UnaryClient[Req, Res] {
	return UnaryClient[Req, Res]{newClient(over, url, typeOf[Res](), opts)}
}

func newClient(over connect.HTTPClient, url string, response protoreflect.MessageType, opts []connect.ClientOption) client {
	return sync.OnceValue(func() *connect.Client[Message, Message] {
		return connect.NewClient[Message, Message](over, url,
			connect.WithClientOptions(opts...), connect.WithResponseInitializer(initialize(response)))
	})
}

// Call sends a request and returns the response, or an error of connect.
func (c UnaryClient[Req, Res]) Call(ctx context.Context, req Req) (Res, error) {
	res, err := call(ctx, c.client, req)
	typed, _ := res.(Res)
	return typed, err
}

func call(ctx context.Context, c client, req proto.Message) (proto.Message, error) {
	res, err := c().CallUnary(ctx, connect.NewRequest(&Message{req}))
	if err != nil {
		return nil, err
	}
	return res.Msg.Message, nil
}

// NewUnaryHandler returns the handler of a unary method.
func NewUnaryHandler[Req, Res proto.Message](procedure string, serve func(context.Context, Req) (Res, error), opts ...connect.HandlerOption) *connect.Handler {
	return newHandler(procedure, typeOf[Req](), func(ctx context.Context, req proto.Message) (proto.Message, error) {
		typed, _ := req.(Req)
		return serve(ctx, typed)
	}, opts)
}

func newHandler(procedure string, request protoreflect.MessageType, serve func(context.Context, proto.Message) (proto.Message, error), opts []connect.HandlerOption) *connect.Handler {
	return connect.NewUnaryHandler(procedure, func(ctx context.Context, req *connect.Request[Message]) (*connect.Response[Message], error) {
		res, err := serve(ctx, req.Msg.Message)
		if err != nil {
			return nil, err
		}
		return connect.NewResponse(&Message{res}), nil
	}, connect.WithHandlerOptions(opts...), connect.WithRequestInitializer(initialize(request)))
}

// Service serves the methods of one service by their procedures.
type Service map[string]*connect.Handler

// ServeHTTP answers a request of a procedure that the service does not have with 404.
func (s Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	handler := s[r.URL.Path]
	if handler == nil {
		http.NotFound(w, r)
		return
	}
	handler.ServeHTTP(w, r)
}
