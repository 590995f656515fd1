package client

import (
	"context"
	"errors"
	"testing"

	"connectrpc.com/connect"

	"palyra/internal/reason"
)

// TestResetIsNoCancellation: a connection that the other end reset is lost, and
// only what this command gave up was cancelled.
func TestResetIsNoCancellation(t *testing.T) {
	for want, cause := range map[reason.Code]error{
		reason.NotConnected: errors.New("read: connection reset by peer"), reason.Cancelled: context.Canceled,
	} {
		if got := fromStatus(connect.NewError(connect.CodeCanceled, cause)); got.Code != want {
			t.Errorf("%v: %s, want %s", cause, got.Code, want)
		}
	}
}
