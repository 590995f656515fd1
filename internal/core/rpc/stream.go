package rpc

import (
	"context"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
)

// ServerStreamClient calls one method that answers a request with a stream of responses. It is safe
// for concurrent use.
type ServerStreamClient[Req, Res proto.Message] struct{ client client }

// NewServerStreamClient returns a client of the method at a URL.
func NewServerStreamClient[Req, Res proto.Message](over connect.HTTPClient, url string, opts ...connect.ClientOption) ServerStreamClient[Req, Res] {
	return ServerStreamClient[Req, Res]{newClient(over, url, typeOf[Res](), opts)}
}

// Call sends the request.
func (c ServerStreamClient[Req, Res]) Call(ctx context.Context, req Req) (*ServerStream[Res], error) {
	stream, err := c.client().CallServerStream(ctx, connect.NewRequest(&Message{req}))
	if err != nil {
		return nil, err
	}
	return &ServerStream[Res]{stream}, nil
}

// ServerStream is the client's side of a stream of responses. It is not safe for concurrent use.
type ServerStream[Res proto.Message] struct {
	*connect.ServerStreamForClient[Message]
}

// Msg returns the message of the last Receive, nil before the first.
func (s *ServerStream[Res]) Msg() Res {
	typed, _ := s.ServerStreamForClient.Msg().Message.(Res)
	return typed
}

// BidiStreamClient calls one method in which both sides stream. It is safe for concurrent use.
type BidiStreamClient[Req, Res proto.Message] struct{ client client }

// NewBidiStreamClient returns a client of the method at a URL.
func NewBidiStreamClient[Req, Res proto.Message](over connect.HTTPClient, url string, opts ...connect.ClientOption) BidiStreamClient[Req, Res] {
	return BidiStreamClient[Req, Res]{newClient(over, url, typeOf[Res](), opts)}
}

// Call opens the stream. It returns when the headers are sent.
func (c BidiStreamClient[Req, Res]) Call(ctx context.Context) (*BidiStream[Req, Res], error) {
	stream, err := c.client().CallBidiStreamSimple(ctx)
	if err != nil {
		return nil, err
	}
	return &BidiStream[Req, Res]{stream}, nil
}

// BidiStream is the client's side of two streams. One goroutine may send while another receives.
type BidiStream[Req, Res proto.Message] struct {
	*connect.BidiStreamForClientSimple[Message, Message]
}

// Send sends a message; nil sends only the headers, unless they are sent. If the server has ended
// the stream, the error is io.EOF, and Receive returns the server's error.
func (b *BidiStream[Req, Res]) Send(req Req) error {
	if !req.ProtoReflect().IsValid() {
		return b.BidiStreamForClientSimple.Send(nil)
	}
	return b.BidiStreamForClientSimple.Send(&Message{req})
}

// Receive returns the next message, or io.EOF at the end.
func (b *BidiStream[Req, Res]) Receive() (res Res, err error) {
	received, err := b.BidiStreamForClientSimple.Receive()
	if err != nil {
		return res, err
	}
	res, _ = received.Message.(Res)
	return res, nil
}
