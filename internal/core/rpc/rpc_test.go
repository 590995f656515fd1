package rpc_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"palyra/internal/core/must"
	"palyra/internal/core/rpc"
)

const (
	echoProcedure = "/test.Service/Echo"
	failProcedure = "/test.Service/Fail"
)

type text = wrapperspb.StringValue

// seen records the messages that an interceptor received.
type seen []string

func (s *seen) intercept() connect.Interceptor {
	return connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
			m, ok := req.Any().(proto.Message)
			if ok {
				*s = append(*s, string(m.ProtoReflect().Descriptor().Name()))
			}
			return next(ctx, req)
		}
	})
}

func serve(t *testing.T, opts ...connect.HandlerOption) string {
	t.Helper()
	echo := func(_ context.Context, req *text) (*text, error) {
		if req.GetValue() == "nothing" {
			return nil, nil
		}
		return wrapperspb.String("echo " + req.GetValue()), nil
	}
	fail := func(_ context.Context, req *text) (*text, error) {
		return req, connect.NewError(connect.CodeAborted, errors.New("failed"))
	}
	server := httptest.NewServer(rpc.Service{
		echoProcedure: rpc.NewUnaryHandler(echoProcedure, echo, opts...),
		failProcedure: rpc.NewUnaryHandler(failProcedure, fail, opts...),
	})
	t.Cleanup(server.Close)
	return server.URL
}

// TestCall calls the handlers by this package's client and by connect's own, in each protocol: the
// wire format is the same.
func TestCall(t *testing.T) {
	t.Parallel()
	var received seen
	url := serve(t, connect.WithInterceptors(received.intercept()))
	for name, opts := range map[string][]connect.ClientOption{
		"connect": nil, "json": {connect.WithProtoJSON()}, "grpc-web": {connect.WithGRPCWeb()}, "gzip": {connect.WithSendGzip()},
	} {
		ours := rpc.NewUnaryClient[*text, *text](http.DefaultClient, url+echoProcedure, opts...)
		theirs := connect.NewClient[text, text](http.DefaultClient, url+echoProcedure, opts...)
		for said, want := range map[string]string{"hi": "echo hi", "": "echo ", "nothing": ""} {
			res, err := ours.Call(t.Context(), wrapperspb.String(said))
			if err != nil || res.GetValue() != want {
				t.Errorf("%s: %v, %v", name, res, err)
			}
			typed, err := theirs.CallUnary(t.Context(), connect.NewRequest(wrapperspb.String(said)))
			if err != nil || typed.Msg.GetValue() != want {
				t.Errorf("%s: connect's client: %v", name, err)
			}
		}
		failing := rpc.NewUnaryClient[*text, *text](http.DefaultClient, url+failProcedure, opts...)
		if res, err := failing.Call(t.Context(), wrapperspb.String("hi")); res != nil || connect.CodeOf(err) != connect.CodeAborted || !strings.HasSuffix(err.Error(), "failed") {
			t.Errorf("%s: %v, %v", name, res, err)
		}
	}
	if len(received) != 28 {
		t.Errorf("the interceptor received %d messages", len(received))
	}
	for _, name := range received {
		if name != "StringValue" {
			t.Errorf("the interceptor received a %s", name)
		}
	}
}

// TestConnectsHandler: the client also reads what connect's own handler writes.
func TestConnectsHandler(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(connect.NewUnaryHandlerSimple(echoProcedure, func(_ context.Context, req *text) (*text, error) { return req, nil }))
	t.Cleanup(server.Close)
	client := rpc.NewUnaryClient[*text, *text](server.Client(), server.URL+echoProcedure)
	if res, err := client.Call(t.Context(), wrapperspb.String("hi")); err != nil || res.GetValue() != "hi" {
		t.Errorf("%v, %v", res, err)
	}
}

func TestMalformedRequest(t *testing.T) {
	t.Parallel()
	url := serve(t)
	for body, want := range map[string]int{"\x0a\x02hi": http.StatusOK, "\x0a\x05hi": http.StatusBadRequest} {
		res := must.Get(http.Post(url+echoProcedure, "application/proto", strings.NewReader(body)))(t)
		must.Do(t, res.Body.Close())
		if res.StatusCode != want {
			t.Errorf("%q: %s", body, res.Status)
		}
	}
}

func TestUnknownProcedure(t *testing.T) {
	t.Parallel()
	client := rpc.NewUnaryClient[*text, *text](http.DefaultClient, serve(t)+"/test.Service/Other")
	if _, err := client.Call(t.Context(), wrapperspb.String("hi")); connect.CodeOf(err) != connect.CodeUnimplemented {
		t.Error(err)
	}
}
