package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	reflectionv1 "palyra/gen/grpc/reflection/v1"
)

// newReflectionHandler serves a version of gRPC's server reflection. The
// versions have the same messages under different names.
func newReflectionHandler(version string, opts ...connect.HandlerOption) (string, http.Handler) {
	procedure := reflectionProcedure(version)
	return procedure, connect.NewBidiStreamHandler(procedure, answerReflection, opts...)
}

type reflectionStream = connect.BidiStream[reflectionv1.ServerReflectionRequest, reflectionv1.ServerReflectionResponse]

func answerReflection(_ context.Context, stream *reflectionStream) error {
	sent := map[string]bool{}
	for {
		req, err := stream.Receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if req.GetMessageRequest() == nil {
			return connect.NewError(connect.CodeInvalidArgument, errors.New("the request has no message_request"))
		}
		res := &reflectionv1.ServerReflectionResponse{ValidHost: req.GetHost(), OriginalRequest: req}
		if err := describe(req, res, sent); err != nil {
			res.MessageResponse = &reflectionv1.ServerReflectionResponse_ErrorResponse{ErrorResponse: &reflectionv1.ErrorResponse{
				ErrorCode: int32(connect.CodeNotFound), ErrorMessage: err.Error(),
			}}
		}
		if err := stream.Send(res); err != nil {
			return err
		}
	}
}

// describe fills in the answer to one request. sent are the files that this
// stream has sent.
func describe(req *reflectionv1.ServerReflectionRequest, res *reflectionv1.ServerReflectionResponse, sent map[string]bool) error {
	var found protoreflect.Descriptor
	var err error
	switch ask := req.GetMessageRequest().(type) {
	case *reflectionv1.ServerReflectionRequest_ListServices:
		list := &reflectionv1.ListServiceResponse{}
		for _, name := range services {
			list.Service = append(list.Service, &reflectionv1.ServiceResponse{Name: name})
		}
		res.MessageResponse = &reflectionv1.ServerReflectionResponse_ListServicesResponse{ListServicesResponse: list}
		return nil
	case *reflectionv1.ServerReflectionRequest_AllExtensionNumbersOfType:
		numbers, err := extensionsOf(protoreflect.FullName(ask.AllExtensionNumbersOfType))
		res.MessageResponse = &reflectionv1.ServerReflectionResponse_AllExtensionNumbersResponse{
			AllExtensionNumbersResponse: &reflectionv1.ExtensionNumberResponse{BaseTypeName: ask.AllExtensionNumbersOfType, ExtensionNumber: numbers},
		}
		return err
	case *reflectionv1.ServerReflectionRequest_FileByFilename:
		found, err = protoregistry.GlobalFiles.FindFileByPath(ask.FileByFilename)
	case *reflectionv1.ServerReflectionRequest_FileContainingSymbol:
		found, err = protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(ask.FileContainingSymbol))
	case *reflectionv1.ServerReflectionRequest_FileContainingExtension:
		of, number := ask.FileContainingExtension.GetContainingType(), ask.FileContainingExtension.GetExtensionNumber()
		var extension protoreflect.ExtensionType
		if extension, err = protoregistry.GlobalTypes.FindExtensionByNumber(protoreflect.FullName(of), protoreflect.FieldNumber(number)); err == nil {
			found = extension.TypeDescriptor()
		}
	}
	if err != nil {
		return err
	}
	files, err := withImports(found.ParentFile(), sent)
	res.MessageResponse = &reflectionv1.ServerReflectionResponse_FileDescriptorResponse{
		FileDescriptorResponse: &reflectionv1.FileDescriptorResponse{FileDescriptorProto: files},
	}
	return err
}

func extensionsOf(name protoreflect.FullName) ([]int32, error) {
	var numbers []int32
	protoregistry.GlobalTypes.RangeExtensionsByMessage(name, func(e protoreflect.ExtensionType) bool {
		numbers = append(numbers, int32(e.TypeDescriptor().Number()))
		return true
	})
	slices.Sort(numbers)
	if len(numbers) > 0 {
		return numbers, nil
	}
	_, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	return nil, err
}

// withImports returns a file and the files that it imports, directly or not, except those already
// sent.
func withImports(root protoreflect.FileDescriptor, sent map[string]bool) ([][]byte, error) {
	var files [][]byte
	seen := map[string]bool{root.Path(): true}
	for queue := []protoreflect.FileDescriptor{root}; len(queue) > 0; queue = queue[1:] {
		file := queue[0]
		if file == root || !sent[file.Path()] {
			text, err := proto.Marshal(protodesc.ToFileDescriptorProto(file))
			if err != nil {
				return nil, err
			}
			files = append(files, text)
			sent[file.Path()] = true
		}
		for i := range file.Imports().Len() {
			next := file.Imports().Get(i).FileDescriptor
			if !next.IsPlaceholder() && !seen[next.Path()] {
				seen[next.Path()] = true
				queue = append(queue, next)
			}
		}
	}
	return files, nil
}
