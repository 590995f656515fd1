package clitest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/timestamppb"

	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/reason"
)

// server answers the methods of the API: with a function, or else with a constant reply.
type server struct {
	methods map[protoreflect.FullName]method
	replies map[protoreflect.FullName]reply
	// accepted are the requests that were answered without an error.
	accepted []proto.Message
}

// method answers a request with the messages that it sends.
type method func(ctx context.Context, req proto.Message, send func(proto.Message) error) error

// reply is a constant reply.
type reply struct {
	message proto.Message
	// only is the one valid value of the request's first field, "" if every value is valid. missing
	// is the format of the error for another one.
	only, missing string
}

// reply adds constant replies. Each method has its own type of reply.
func (s *server) reply(list ...proto.Message) { s.replyAbout("", "", list...) }

// replyAbout is reply for methods whose first field names an object, of which only one exists.
// missing is the format of the error for another name.
func (s *server) replyAbout(only, missing string, list ...proto.Message) {
	for _, m := range list {
		s.replies[m.ProtoReflect().Descriptor().FullName()] = reply{m, only, missing}
	}
}

// find returns the error for a request that names another object than the only one.
func (r reply) find(req proto.Message) error {
	if r.only == "" {
		return nil
	}
	name := firstField(req)
	if strings.EqualFold(strings.TrimPrefix(name, "vault://"), strings.TrimPrefix(r.only, "vault://")) {
		return nil
	}
	return reason.Errorf(reason.NotFound, r.missing, name)
}

// firstField returns the first field of a request, a text.
func firstField(req proto.Message) string {
	m := req.ProtoReflect()
	return m.Get(m.Descriptor().Fields().ByNumber(1)).String()
}

// stream answers requests of type Q with fn.
func stream[Q, A proto.Message](f *Gateway, fn func(ctx context.Context, req Q, send func(A) error) error) {
	var q Q
	f.methods[q.ProtoReflect().Descriptor().FullName()] = func(ctx context.Context, req proto.Message, send func(proto.Message) error) error {
		typed, _ := req.(Q) // the assertion always succeeds
		return fn(ctx, typed, func(res A) error { return send(res) })
	}
}

// serve is stream for a method with one reply.
func serve[Q, A proto.Message](f *Gateway, fn func(context.Context, Q) (A, error)) {
	stream(f, func(ctx context.Context, req Q, send func(A) error) error {
		res, err := fn(ctx, req)
		if err != nil {
			return err
		}
		return send(res)
	})
}

// on is serve for a function that runs under the lock, and may change the gateway.
func on[Q, A proto.Message](f *Gateway, fn func(Q) (A, error)) {
	serve(f, func(_ context.Context, req Q) (res A, err error) {
		f.Change(func() { res, err = fn(req) })
		return res, err
	})
}

// edit makes the gateway change its constant reply to requests of type Q.
func edit[Q, A proto.Message](f *Gateway, fn func(Q, A)) {
	var a A
	constant := f.replies[a.ProtoReflect().Descriptor().FullName()]
	on(f, func(req Q) (A, error) {
		res, _ := proto.Clone(constant.message).(A) // the assertion always succeeds
		if err := constant.find(req); err != nil {
			return res, err
		}
		fn(req, res)
		return res, nil
	})
}

// Requests returns the requests of a type that the gateway has accepted.
func Requests[Q proto.Message](w *World) (list []Q) {
	w.Gateway.Mu.Lock()
	defer w.Gateway.Mu.Unlock()
	for _, m := range w.Gateway.accepted {
		if q, ok := m.(Q); ok {
			list = append(list, q)
		}
	}
	return list
}

// answer answers one request.
func (f *Gateway) answer(ctx context.Context, of protoreflect.MethodDescriptor, req proto.Message, send func(proto.Message) error) error {
	f.Mu.Lock()
	err := f.Fail
	f.Mu.Unlock()
	if err != nil {
		return err
	}
	constant := f.replies[of.Output().FullName()]
	switch do := f.methods[of.Input().FullName()]; {
	case do != nil:
		err = do(ctx, req, send)
	case constant.message == nil:
		return connect.NewError(connect.CodeUnimplemented, errors.New(string(of.FullName())))
	default:
		if err = constant.find(req); err == nil {
			err = send(constant.message)
		}
	}
	if err != nil {
		return onWire(err)
	}
	f.Mu.Lock()
	defer f.Mu.Unlock()
	f.accepted = append(f.accepted, req)
	return nil
}

// message is a message of any type.
type message struct{ proto.Message }

// codec encodes a message. Its assertions always succeed.
type codec struct{}

func (codec) Name() string { return "proto" }

func (codec) Marshal(v any) ([]byte, error) {
	m, _ := v.(*message)
	return proto.Marshal(m.Message)
}

func (codec) Unmarshal(data []byte, v any) error {
	m, _ := v.(*message)
	return proto.Unmarshal(data, m.Message)
}

// handler serves all methods of the API.
func (f *Gateway) handler() http.Handler {
	mux := http.NewServeMux()
	protoregistry.GlobalFiles.RangeFilesByPackage("palyra.v1", func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				path := fmt.Sprintf("/%s/%s", methods.Get(j).Parent().FullName(), methods.Get(j).Name())
				mux.Handle(path, f.methodHandler(path, methods.Get(j)))
			}
		}
		return true
	})
	return mux
}

func (f *Gateway) methodHandler(path string, of protoreflect.MethodDescriptor) http.Handler {
	if path == palyrav1connect.GatewayServiceRunStreamProcedure {
		return connect.NewBidiStreamHandler(path, f.runStream)
	}
	in, err := protoregistry.GlobalTypes.FindMessageByName(of.Input().FullName())
	if err != nil {
		panic(err)
	}
	options := connect.WithHandlerOptions(connect.WithCodec(codec{}), connect.WithRequestInitializer(func(_ connect.Spec, v any) error {
		m, _ := v.(*message)
		m.Message = in.New().Interface()
		return nil
	}))
	if of.IsStreamingServer() {
		return connect.NewServerStreamHandler(path, func(ctx context.Context, req *connect.Request[message], stream *connect.ServerStream[message]) error {
			return f.answer(ctx, of, req.Msg.Message, func(res proto.Message) error { return stream.Send(&message{res}) })
		}, options)
	}
	return connect.NewUnaryHandler(path, func(ctx context.Context, req *connect.Request[message]) (*connect.Response[message], error) {
		var out message
		err := f.answer(ctx, of, req.Msg.Message, func(res proto.Message) error {
			out.Message = proto.Clone(res)
			return nil
		})
		return connect.NewResponse(&out), err
	}, options)
}

// GatewayError returns an error in the form that the gateway sends.
func GatewayError(code connect.Code, why reason.Code, message string, metadata map[string]string) error {
	e := connect.NewError(code, fmt.Errorf("%s", message))
	detail, err := connect.NewErrorDetail(&errdetails.ErrorInfo{Reason: string(why), Domain: "palyra.dev", Metadata: metadata})
	if err != nil {
		panic(err)
	}
	e.AddDetail(detail)
	return e
}

// codes are the API codes of the reasons of fake errors; other reasons have CodeFailedPrecondition.
var codes = map[reason.Code]connect.Code{
	reason.NotFound: connect.CodeNotFound, reason.UnknownModel: connect.CodeNotFound, reason.InvalidInput: connect.CodeInvalidArgument,
	reason.PermissionDenied: connect.CodePermissionDenied, reason.LoginRefused: connect.CodePermissionDenied, reason.PresenceNotProven: connect.CodePermissionDenied,
	reason.ApprovalConflict: connect.CodeAborted, reason.AlreadyExists: connect.CodeAlreadyExists,
	reason.PairingFailed: connect.CodeUnauthenticated, reason.RateLimited: connect.CodeResourceExhausted,
}

// onWire converts a reason.Error to the form of the gateway; it returns other errors unchanged.
func onWire(err error) error {
	var known *reason.Error
	if !errors.As(err, &known) {
		return err
	}
	code := codes[known.Code]
	if code == 0 {
		code = connect.CodeFailedPrecondition
	}
	metadata := map[string]string{"remedy": known.NextStep()}
	maps.Copy(metadata, known.Fields)
	return GatewayError(code, known.Code, known.Message, metadata)
}

// notFound returns the error for an object that does not exist.
func notFound(format string, args ...any) error {
	return reason.Errorf(reason.NotFound, format, args...)
}

// ago returns a time before Now.
func ago(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(Now.Add(-d)) }

var now = ago(0)
