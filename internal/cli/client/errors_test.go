package client

import (
	"context"
	"errors"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"palyra/internal/core/reason"
)

// TestResetIsNoCancellation: a connection reset by the peer is lost. Only a call that the
// command itself ended is cancelled.
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

// TestStoppedConnection: the error of a GOAWAY frame is printed as a shutdown, without the
// HTTP/2 text.
func TestStoppedConnection(t *testing.T) {
	t.Parallel()
	for _, code := range []connect.Code{connect.CodeUnavailable, connect.CodeUnknown, connect.CodeInternal} {
		got := fromStatus(connect.NewError(code, errors.New(`http2: server sent GOAWAY and closed the connection; LastStreamID=1, ErrCode=NO_ERROR, debug=""`)))
		if got.Code != reason.ShuttingDown || strings.Contains(got.Message, "GOAWAY") {
			t.Errorf("%v: %s %s", code, got.Code, got.Message)
		}
	}
}
