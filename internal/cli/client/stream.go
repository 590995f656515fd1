package client

import (
	"context"
	"errors"
	"io"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"palyra/internal/cli/printer"
	"palyra/internal/core/reason"
	"palyra/internal/core/rpc"
)

// Follow reads an endless stream and reopens it at its position when the connection is lost. open
// returns after each loss; it reports whether it received anything.
func (a *App) Follow(ctx context.Context, open func() (received bool, err error)) error {
	r := Reopening{First: firstRetry, Most: 10 * time.Second, Lost: func(wait time.Duration) {
		a.Say("connection lost; trying again in %s", wait)
	}}
	return r.Follow(ctx, open)
}

// Watch prints an endless stream until it is interrupted; record reports whether there is something
// to print.
func Watch[T proto.Message](ctx context.Context, a *App, l printer.Listing, open func() (*rpc.ServerStream[T], error), record func(T) (printer.Record, bool)) error {
	first := true
	err := a.Follow(ctx, func() (received bool, err error) {
		stream, err := open()
		if err != nil {
			return false, err
		}
		defer func() { _ = stream.Close() }()
		for stream.Receive() {
			received = true
			r, ok := record(stream.Msg())
			if !ok {
				continue
			}
			if err := a.PrintStream(l, r, first); err != nil {
				return received, err
			}
			first = false
		}
		return received, stream.Err()
	})
	if ctx.Err() != nil && IsCancelled(err) {
		return nil // an interrupt is the normal end
	}
	return err
}

// firstRetry is the pause before a lost connection is reopened; it doubles with each further
// attempt.
const firstRetry = 500 * time.Millisecond

// Reopening configures how a lost stream is reopened.
type Reopening struct {
	// First and Most bound the pause between two attempts.
	First, Most time.Duration
	// Tries bounds consecutive failures; 0 means no limit.
	Tries int
	// Early reports whether to retry after an error before anything was received; nil means no.
	Early func(error) bool
	// Lost is called at each loss with the pause that follows.
	Lost func(wait time.Duration)
}

// Follow calls open until the stream ends normally, the attempts are exhausted, or an error is
// permanent.
func (r Reopening) Follow(ctx context.Context, open func() (received bool, err error)) error {
	wait, failed := r.First, 0
	for connected := false; ; {
		received, err := open()
		connected = connected || received
		if received {
			wait, failed = r.First, 0
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		worth := connected || r.Early != nil && r.Early(err)
		over := received && credentialOver(err)
		if err != nil && !over && (!worth || !transient(err)) {
			return err
		}
		if failed++; r.Tries > 0 && failed > r.Tries {
			return err
		}
		r.Lost(wait)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
		wait = min(2*wait, r.Most)
	}
}

// credentialOver reports whether the gateway ended a stream because its credential expired: the
// bundle may have a newer one.
func credentialOver(err error) bool {
	if err == nil {
		return false
	}
	switch Explain(nil, err).Code {
	case reason.CertificateExpired, reason.KeyReplaced:
		return true
	default:
		return false
	}
}

// transient reports whether a stream error concerns the connection: the gateway is unreachable, or
// its data is incomplete.
func transient(err error) bool {
	if connect.CodeOf(err) == connect.CodeUnavailable {
		return !strings.Contains(err.Error(), "x509:") && reason.Of(err) != reason.Unauthenticated
	}
	return brokeOff(err)
}

// NoticeLoss traces the connections of requests with ctx. lost reports whether an error is the loss
// of an established connection, after which the gateway may have received the request. If no
// connection was established, or a certificate was refused, a retry would not help.
func NoticeLoss(ctx context.Context) (traced context.Context, lost func(error) bool) {
	var made atomic.Bool
	traced = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { made.Store(true) }})
	return traced, func(err error) bool {
		return made.Load() && transient(err) && !connect.IsWireError(err) && !strings.Contains(err.Error(), "tls:")
	}
}

// brokeOff reports whether a stream broke after the gateway had responded, without an error of the
// gateway. connect reports this with one of several codes.
func brokeOff(err error) bool {
	var remote *connect.Error
	if !errors.As(err, &remote) {
		return errors.Is(err, io.EOF)
	}
	codes := []connect.Code{connect.CodeUnknown, connect.CodeCanceled, connect.CodeInvalidArgument, connect.CodeInternal}
	return !connect.IsWireError(err) && slices.Contains(codes, remote.Code())
}
