package rpc

import (
	"math"
	"strconv"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
)

// retryAfterField is the field of a RATE_LIMITED error that says how long to
// wait, as a Go duration.
const retryAfterField = "retry_after"

// addDetail attaches a message that this package made, which always encodes.
func addDetail(e *connect.Error, message proto.Message) {
	if detail, err := connect.NewErrorDetail(message); err == nil {
		e.AddDetail(detail)
	}
}

// retryAfterHeader writes whole seconds, rounded up (RFC 9110).
func retryAfterHeader(d time.Duration) string {
	return strconv.Itoa(int(math.Ceil(d.Seconds())))
}
