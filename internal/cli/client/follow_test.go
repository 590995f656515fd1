package client_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	"palyra/internal/cli/client"
	"palyra/internal/cli/clitest"
	"palyra/internal/cli/printer"
	"palyra/internal/core/reason"
)

// TestFollow: a lost connection is reopened with growing delays. The watch ends with the first
// failure, and with an error that a retry cannot fix.
func TestFollow(t *testing.T) {
	t.Parallel()
	away := connect.NewError(connect.CodeUnavailable, errors.New("gone"))
	refused := clitest.GatewayError(connect.CodePermissionDenied, reason.PermissionDenied, "no", nil)
	over := clitest.GatewayError(connect.CodeUnauthenticated, reason.KeyReplaced, "replaced", nil)
	type step struct {
		received bool
		err      error
	}
	for _, c := range []struct {
		name  string
		steps []step
		took  time.Duration
		end   error
	}{
		{"never there", []step{{false, away}}, 0, away},
		{"refused", []step{{false, refused}}, 0, refused},
		{"lost and back", []step{{true, away}, {true, away}, {false, away}, {false, away}, {true, refused}}, 500*time.Millisecond + 500*time.Millisecond + time.Second + 2*time.Second, refused},
		// The bundle may have a newer credential, which is tried once.
		{"the credential was over", []step{{true, over}, {true, over}, {false, over}}, time.Second, over},
		{"the credential never was good", []step{{false, over}}, 0, over},
		{"ended in order", []step{{true, nil}, {false, refused}}, 500 * time.Millisecond, refused},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := client.NewApp(printer.Streams{Err: &bytes.Buffer{}})
				began, n := time.Now(), 0
				err := a.Follow(context.Background(), func() (bool, error) {
					s := c.steps[n]
					n++
					return s.received, s.err
				})
				if !errors.Is(err, c.end) || n != len(c.steps) || time.Since(began) != c.took {
					t.Errorf("after %d tries and %s: %v", n, time.Since(began), err)
				}
			})
		})
	}
}

// TestTransient distinguishes errors of the connection from errors of the gateway and from
// those that a retry cannot fix.
func TestTransient(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want bool
	}{
		{connect.NewError(connect.CodeUnavailable, errors.New("connection refused")), true},
		{connect.NewError(connect.CodeUnavailable, errors.New("x509: unknown authority")), false},
		{connect.NewError(connect.CodeCanceled, errors.New("read: connection reset by peer")), true},
		{connect.NewError(connect.CodeInvalidArgument, errors.New("incomplete envelope: unexpected EOF")), true},
		{connect.NewError(connect.CodeResourceExhausted, errors.New("message is too large")), false},
		{connect.NewWireError(connect.CodeInvalidArgument, errors.New("after: unexpected EOF")), false},
		{clitest.GatewayError(connect.CodeUnauthenticated, reason.Unauthenticated, "revoked", nil), false},
		{io.EOF, true},
		{errors.New("the run is over"), false},
		{io.ErrClosedPipe, false},
	} {
		if got := client.Transient(c.err); got != c.want {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
	}
}
