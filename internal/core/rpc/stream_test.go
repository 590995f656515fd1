package rpc_test

import (
	"context"
	"errors"
	"io"
	"net/http/httptest"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"palyra/internal/core/must"
	"palyra/internal/core/rpc"
)

const (
	repeatProcedure = "/test.Service/Repeat"
	talkProcedure   = "/test.Service/Talk"
)

// serveStreams serves two methods by connect's own handlers. The server speaks HTTP/2, which
// streams in both directions need.
func serveStreams(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(rpc.Service{
		repeatProcedure: connect.NewServerStreamHandlerSimple(repeatProcedure, func(_ context.Context, req *text, stream *connect.ServerStream[text]) error {
			for range 2 {
				if err := stream.Send(req); err != nil {
					return err
				}
			}
			return connect.NewError(connect.CodeAborted, errors.New("no more"))
		}),
		talkProcedure: connect.NewBidiStreamHandler(talkProcedure, func(_ context.Context, stream *connect.BidiStream[text, text]) error {
			for {
				req, err := stream.Receive()
				if errors.Is(err, io.EOF) {
					return nil
				}
				if err != nil {
					return err
				}
				if err := stream.Send(wrapperspb.String("echo " + req.GetValue())); err != nil {
					return err
				}
			}
		}),
	})
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

func TestServerStream(t *testing.T) {
	t.Parallel()
	server := serveStreams(t)
	client := rpc.NewServerStreamClient[*text, *text](server.Client(), server.URL+repeatProcedure)
	stream := must.Get(client.Call(t.Context(), wrapperspb.String("hi")))(t)
	defer func() { must.Do(t, stream.Close()) }()
	if m := stream.Msg(); m != nil {
		t.Errorf("before the first message: %v", m)
	}
	received := 0
	for ; stream.Receive(); received++ {
		if stream.Msg().GetValue() != "hi" {
			t.Errorf("received %v", stream.Msg())
		}
	}
	if received != 2 || connect.CodeOf(stream.Err()) != connect.CodeAborted {
		t.Errorf("%d messages, %v", received, stream.Err())
	}
}

func TestBidiStream(t *testing.T) {
	t.Parallel()
	server := serveStreams(t)
	client := rpc.NewBidiStreamClient[*text, *text](server.Client(), server.URL+talkProcedure)
	stream := must.Get(client.Call(t.Context()))(t)
	must.Do(t, stream.Send(nil)) // no message, to which the server would answer
	for _, said := range []string{"a", "", "b"} {
		must.Do(t, stream.Send(wrapperspb.String(said)))
		if res := must.Get(stream.Receive())(t); res.GetValue() != "echo "+said {
			t.Errorf("received %v", res)
		}
	}
	must.Do(t, stream.CloseRequest())
	if res, err := stream.Receive(); res != nil || !errors.Is(err, io.EOF) {
		t.Errorf("%v, %v", res, err)
	}
	must.Do(t, stream.CloseResponse())
}
