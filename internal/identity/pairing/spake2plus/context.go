package spake2plus

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Context binds an exchange. Both sides MUST use the same Context, or their confirmations fail.
// The zero Context is refused.
type Context struct {
	encoded []byte
}

// Bind creates a context from a label, which names the protocol and its version, and from parts
// in an order fixed by the protocol: TLS exporter, fingerprints, ids. Each part is encoded with
// its length, so that no two lists give the same context. An empty part is an error, because it
// is a missing value.
func Bind(label string, parts ...[]byte) (Context, error) {
	if label == "" || len(parts) == 0 {
		return Context{}, errors.New("a context needs a label and at least one part")
	}
	encoded := appendField(nil, []byte(label))
	for i, part := range parts {
		if len(part) == 0 {
			return Context{}, fmt.Errorf("part %d of the context is empty", i)
		}
		encoded = appendField(encoded, part)
	}
	return Context{encoded}, nil
}

// appendField appends a field in the encoding of RFC 9383: its length in bytes as eight bytes,
// least significant byte first, and then the field.
func appendField(b, field []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(len(field)))
	return append(b, field...)
}
