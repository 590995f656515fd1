package api

import (
	"encoding/binary"
	"io"
	"net/http"
	"strings"

	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/reason"
	"palyra/internal/surface/api/people"
)

// limitMessages refuses messages over MaxMessage, or over people.MaxMessage for unauthenticated
// methods, with a reason code. The protocol library has a limit, too, which also covers compressed
// messages after inflation, but its error has no reason code.
func limitMessages(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind, most := r.Header.Get("Content-Type"), int64(MaxMessage)
		if strings.HasPrefix(r.URL.Path, "/"+palyrav1connect.PairingServiceName+"/") {
			most = people.MaxMessage
		}
		if strings.HasPrefix(kind, "application/grpc") || strings.HasPrefix(kind, "application/connect+") {
			r.Body = &framedBody{ReadCloser: r.Body, most: most}
		} else {
			r.Body = &plainBody{ReadCloser: r.Body, most: most}
		}
		next.ServeHTTP(w, r)
	})
}

func tooLarge(most int64) error {
	return connectError(reason.Errorf(reason.InputTooLarge, "the message is larger than %d bytes", most))
}

// plainBody is one message without a frame.
type plainBody struct {
	io.ReadCloser
	read, most int64
}

// Read fails once the message is too large.
func (b *plainBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.read += int64(n); b.read > b.most {
		return 0, tooLarge(b.most)
	}
	return n, err
}

// prefixSize is the size of the prefix of a message in gRPC, gRPC-Web and streaming Connect: a
// byte of flags and four bytes of length.
const prefixSize = 5

// framedBody is a sequence of messages, each behind its prefix.
type framedBody struct {
	io.ReadCloser
	prefix []byte
	// left is the number of bytes of the current message that are not read yet.
	left int64
	most int64
}

// Read fails at the prefix of a message that is too large, before reading the message.
func (b *framedBody) Read(p []byte) (int, error) {
	if b.left > 0 && int64(len(p)) > b.left {
		p = p[:b.left]
	}
	if b.left == 0 && len(p) > prefixSize-len(b.prefix) {
		p = p[:prefixSize-len(b.prefix)]
	}
	n, err := b.ReadCloser.Read(p)
	if b.left > 0 {
		b.left -= int64(n)
		return n, err
	}
	if b.prefix = append(b.prefix, p[:n]...); len(b.prefix) < prefixSize {
		return n, err
	}
	b.left = int64(binary.BigEndian.Uint32(b.prefix[1:]))
	b.prefix = b.prefix[:0]
	if b.left > b.most {
		return 0, tooLarge(b.most)
	}
	return n, err
}
