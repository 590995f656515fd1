package client

import (
	"context"
	"errors"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"palyra/internal/core/reason"
)

// TestResetIsNoCancellation: a connection that the other end reset is lost, and
// only what this command gave up was cancelled.
func TestResetIsNoCancellation(t *testing.T) {
	t.Parallel()
	for want, cause := range map[reason.Code]error{
		reason.NotConnected: errors.New("read: connection reset by peer"), reason.Cancelled: context.Canceled,
	} {
		if got := fromStatus(connect.NewError(connect.CodeCanceled, cause)); got.Code != want {
			t.Errorf("%v: %s, want %s", cause, got.Code, want)
		}
	}
}

// TestStoppedConnection: how HTTP/2 says that the other end is about to go is not
// shown to people.
func TestStoppedConnection(t *testing.T) {
	t.Parallel()
	for _, code := range []connect.Code{connect.CodeUnavailable, connect.CodeUnknown, connect.CodeInternal} {
		got := fromStatus(connect.NewError(code, errors.New(`http2: server sent GOAWAY and closed the connection; LastStreamID=1, ErrCode=NO_ERROR, debug=""`)))
		if got.Code != reason.ShuttingDown || strings.Contains(got.Message, "GOAWAY") {
			t.Errorf("%v: %s %s", code, got.Code, got.Message)
		}
	}
}
