package cli

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/access"
	"palyra/internal/identity"
	"palyra/internal/reason"
)

const (
	// answerTimeout is for one question to the gateway; streams have none.
	answerTimeout = 30 * time.Second
	dialTimeout   = 5 * time.Second
	// patience is how long nothing is said of a wait.
	patience = 2 * time.Second
	// maxMessage is the API's cap on one message in bytes.
	maxMessage = 4 << 20
)

// gateway is a connection to palyrad: one client per service.
type gateway struct {
	address string
	// root is the CA that the credential bundle trusts.
	root         *x509.Certificate
	calls        palyrav1connect.GatewayServiceClient
	approvals    palyrav1connect.ApprovalsServiceClient
	policy       palyrav1connect.PolicyServiceClient
	journal      palyrav1connect.JournalServiceClient
	attestations palyrav1connect.AttestationServiceClient
	status       palyrav1connect.StatusServiceClient
	access       palyrav1connect.AccessServiceClient
	identity     palyrav1connect.IdentityServiceClient
	workspaces   palyrav1connect.WorkspaceServiceClient
	sessions     palyrav1connect.SessionServiceClient
}

// connect reads the credential bundle and returns the clients. Nothing is sent
// yet, but a certificate past two thirds of its life is renewed first.
func (a *app) connect(ctx context.Context) (*gateway, error) {
	c, err := a.client()
	if err != nil {
		return nil, err
	}
	b, err := readBundle(c)
	if err != nil {
		return nil, err
	}
	address := firstOf(c.address, b.Address)
	if _, _, err := net.SplitHostPort(address); err != nil {
		return nil, usage("address %q: want HOST:PORT", address).WithRemedy("Set --address or PALYRA_ADDRESS, for example 127.0.0.1:7443.")
	}
	if !c.local {
		if b, err = a.renewed(ctx, c.credentials, b, address); err != nil {
			return nil, err
		}
	}
	// TLS goes by the machine's clock.
	if end := b.NotAfter(); time.Now().After(end) {
		return nil, reason.Errorf(reason.NotConnected, "the certificate in %s ended %s", c.credentials, end.UTC().Format(time.RFC3339)).
			WithRemedy("A running `palyrad` keeps the local operator's fresh: start it again. Others get a new bundle with `palyrad operator add`.")
	}
	return a.dial(b, address), nil
}

// readBundle reads the bundle; where there is none it says how to get one.
func readBundle(c client) (identity.Bundle, error) {
	b, err := identity.ReadBundle(c.credentials)
	if err == nil {
		return b, nil
	}
	e := explain(nil, err)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return b, reason.Errorf(reason.NotConnected, "%s", e.Message).
			WithRemedy("The bundle belongs to another user. Have one of your own made with `palyrad operator add NAME --role ROLE` and name it with --credentials.")
	case !errors.Is(err, fs.ErrNotExist):
		return b, e
	case c.local:
		return b, e.WithRemedy("Start the gateway on this machine with `palyrad`, which makes a bundle for you; or name another with --credentials DIR.")
	}
	return b, e.WithRemedy("Name the directory of a credential bundle; `palyrad operator add NAME --role ROLE` makes one.")
}

func (a *app) dial(b identity.Bundle, address string) *gateway {
	client := httpClient(b)
	base := "https://" + address
	opts := []connect.ClientOption{
		connect.WithReadMaxBytes(maxMessage),
		connect.WithInterceptors(deadline{a: a, address: address}),
	}
	return &gateway{
		address:      address,
		root:         b.Root,
		calls:        palyrav1connect.NewGatewayServiceClient(client, base, opts...),
		approvals:    palyrav1connect.NewApprovalsServiceClient(client, base, opts...),
		policy:       palyrav1connect.NewPolicyServiceClient(client, base, opts...),
		journal:      palyrav1connect.NewJournalServiceClient(client, base, opts...),
		attestations: palyrav1connect.NewAttestationServiceClient(client, base, opts...),
		status:       palyrav1connect.NewStatusServiceClient(client, base, opts...),
		access:       palyrav1connect.NewAccessServiceClient(client, base, opts...),
		identity:     palyrav1connect.NewIdentityServiceClient(client, base, opts...),
		workspaces:   palyrav1connect.NewWorkspaceServiceClient(client, base, opts...),
		sessions:     palyrav1connect.NewSessionServiceClient(client, base, opts...),
	}
}

// httpClient speaks HTTP/2 over TLS 1.3 with the bundle's certificate and
// trusts the bundle's CA alone. It never goes through a proxy.
func httpClient(b identity.Bundle) *http.Client {
	var protocols http.Protocols
	protocols.SetHTTP2(true)
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy:               nil,
			DialContext:         (&net.Dialer{Timeout: dialTimeout}).DialContext,
			Protocols:           &protocols,
			ForceAttemptHTTP2:   true,
			TLSClientConfig:     b.ClientTLS(),
			TLSHandshakeTimeout: dialTimeout,
		},
	}
}

// deadline gives every unary call a deadline and says, after a while and only
// to a person, that it is still waiting.
type deadline struct {
	a       *app
	address string
}

// WrapUnary implements connect.Interceptor.
func (d deadline) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		ctx, cancel := context.WithTimeout(ctx, answerTimeout)
		defer cancel()
		if d.a.streams.ErrTerminal {
			timer := time.AfterFunc(patience, func() { d.a.say("waiting for the gateway at %s ...", d.address) })
			defer timer.Stop()
		}
		return next(ctx, req)
	}
}

// WrapStreamingClient implements connect.Interceptor.
func (deadline) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		conn := next(ctx, spec)
		conn.RequestHeader().Set(access.SurfaceHeader, string(access.SurfaceCLI))
		return conn
	}
}

// WrapStreamingHandler implements connect.Interceptor.
func (deadline) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

// follow reads an endless stream and opens it again, from where it stopped,
// when the connection is lost. open returns after each loss; it reports
// whether it had received anything.
func (a *app) follow(ctx context.Context, open func() (received bool, err error)) error {
	r := reopening{first: firstRetry, most: 10 * time.Second, lost: func(wait time.Duration) {
		a.say("connection lost; trying again in %s", wait)
	}}
	return r.follow(ctx, open)
}

// firstRetry is the pause before a lost connection is opened again; each
// further one is twice as long.
const firstRetry = 500 * time.Millisecond

// reopening is how a stream that was lost is opened again.
type reopening struct {
	// first and most bound the pause between two tries.
	first, most time.Duration
	// tries bounds those without success in a row; 0 does not.
	tries int
	// early reports whether an error before anything was received is worth
	// another try; nil is no.
	early func(error) bool
	// lost is told of each loss and of the pause after it.
	lost func(wait time.Duration)
}

func (r reopening) follow(ctx context.Context, open func() (received bool, err error)) error {
	wait, failed := r.first, 0
	for connected := false; ; {
		received, err := open()
		connected = connected || received
		if received {
			wait, failed = r.first, 0
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		worth := connected || r.early != nil && r.early(err)
		if err != nil && (!worth || !transient(err)) {
			return err
		}
		if failed++; r.tries > 0 && failed > r.tries {
			return err
		}
		r.lost(wait)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
		wait = min(2*wait, r.most)
	}
}

// transient reports whether an error of a stream is one of the connection: the
// gateway is away, or what it sent broke off.
func transient(err error) bool {
	if connect.CodeOf(err) == connect.CodeUnavailable {
		return !strings.Contains(err.Error(), "x509:") && reason.Of(err) != reason.Unauthenticated
	}
	return brokeOff(err)
}

// noticeLoss makes requests with ctx tell whether a connection was ever made:
// lost reports whether an error is the loss of one, after which the gateway may
// have heard the request. Where none could be made, or the certificates were
// refused, another try would change nothing.
func noticeLoss(ctx context.Context) (traced context.Context, lost func(error) bool) {
	var made atomic.Bool
	traced = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { made.Store(true) }})
	return traced, func(err error) bool {
		return made.Load() && transient(err) && !connect.IsWireError(err) && !strings.Contains(err.Error(), "tls:")
	}
}

// brokeOff reports whether a stream ended in the middle: there was a gateway at
// its other end, and what it said last is no error. connect gives such an end
// one of several codes, depending on where it found it.
func brokeOff(err error) bool {
	var remote *connect.Error
	if !errors.As(err, &remote) {
		return errors.Is(err, io.EOF)
	}
	codes := []connect.Code{connect.CodeUnknown, connect.CodeCanceled, connect.CodeInvalidArgument, connect.CodeInternal}
	return !connect.IsWireError(err) && slices.Contains(codes, remote.Code())
}
