package rpc

import (
	"errors"
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// strictJSON reads the JSON form of messages and, unlike the one that comes
// with connect, refuses members that a message does not have: what a client
// means must not be dropped without a word.
type strictJSON struct{ name string }

// jsonCodecs are the names under which clients ask for JSON.
func jsonCodecs() connect.HandlerOption {
	return connect.WithHandlerOptions(
		connect.WithCodec(strictJSON{"json"}), connect.WithCodec(strictJSON{"json; charset=utf-8"}))
}

// Name is part of the content type.
func (c strictJSON) Name() string { return c.name }

// Marshal writes the standard JSON form.
func (c strictJSON) Marshal(message any) ([]byte, error) {
	m, ok := message.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is no message", message)
	}
	return protojson.Marshal(m)
}

// Unmarshal reads one message.
func (c strictJSON) Unmarshal(text []byte, message any) error {
	m, ok := message.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is no message", message)
	}
	if len(text) == 0 {
		return errors.New("there is no JSON object")
	}
	return protojson.Unmarshal(text, m)
}
