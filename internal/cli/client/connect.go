package client

import (
	"cmp"
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
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/core/access"
	"palyra/internal/core/progress"
	"palyra/internal/core/reason"
	"palyra/internal/identity"
	"palyra/internal/surface/api/changetable"
)

const (
	// answerTimeout bounds a unary request; streams have no timeout.
	answerTimeout = 30 * time.Second
	dialTimeout   = 5 * time.Second
	// Patience is the time before a wait is reported.
	Patience = progress.Patience
	// maxMessage is the API's limit on a message in bytes.
	maxMessage = 4 << 20
)

// Gateway is a connection to palyrad: one client per service.
type Gateway struct {
	Address string
	// Local is true for the bundle that palyrad writes for the operator of its own host. Paths of
	// the gateway are then paths on this machine.
	Local bool
	// Notify is the setting client.notify.
	Notify bool
	// Root is the CA that the credential bundle trusts.
	Root *x509.Certificate
	// ServerName is the name in the gateway's certificate.
	ServerName string
	// HTTP and Base are for plain HTTP routes of the gateway: the client with the credential, and
	// the address before the path.
	HTTP         *http.Client
	Base         string
	Calls        palyrav1connect.GatewayServiceClient
	Approvals    palyrav1connect.ApprovalsServiceClient
	Policy       palyrav1connect.PolicyServiceClient
	Journal      palyrav1connect.JournalServiceClient
	Attestations palyrav1connect.AttestationServiceClient
	Status       palyrav1connect.StatusServiceClient
	Access       palyrav1connect.AccessServiceClient
	Identity     palyrav1connect.IdentityServiceClient
	Workspaces   palyrav1connect.WorkspaceServiceClient
	Sessions     palyrav1connect.SessionServiceClient
	Tokens       palyrav1connect.TokenServiceClient
	Reviews      palyrav1connect.AccessReviewServiceClient
	Pairings     palyrav1connect.PairingServiceClient
	Logins       palyrav1connect.LoginServiceClient
	// Life has the details and activity of one device.
	Life palyrav1connect.DeviceServiceClient
	// Presence has presence keys and challenges.
	Presence palyrav1connect.PresenceServiceClient
	Vault    palyrav1connect.VaultServiceClient
	// Mcp manages upstream MCP servers.
	Mcp palyrav1connect.McpServiceClient
	// Skills manages packages of WebAssembly tools, and their publishers.
	Skills palyrav1connect.SkillServiceClient
	// Installed manages entries in the settings of agents.
	Installed palyrav1connect.InstallServiceClient
	// Notices manages notification targets.
	Notices palyrav1connect.NotifyServiceClient
	// Console manages logins to the web console.
	Console palyrav1connect.ConsoleServiceClient
}

// TokenVariable is the environment variable with an API token for the gateway of the bundle. The
// token replaces the credential of the bundle.
const TokenVariable = "PALYRA_TOKEN" //nolint:gosec // the name of a variable

// Connect reads the credential bundle and returns the clients. It sends nothing, except to renew a
// certificate past two thirds of its life.
func (a *App) Connect(ctx context.Context) (*Gateway, error) {
	c, err := a.client()
	if err != nil {
		return nil, err
	}
	token := a.Getenv(TokenVariable)
	if a.Socket && token != "" {
		return nil, command.Usage("the local operator's socket does not accept tokens").WithRemedy("Omit --socket, or unset %s.", TokenVariable)
	}
	if a.Socket {
		return a.overSocket(c)
	}
	b, err := a.bundle(c)
	switch {
	case err != nil && token != "":
		return nil, err
	case err != nil:
		return a.withoutCertificate(c, err)
	}
	address, err := c.reach(b)
	if err != nil {
		return nil, err
	}
	if b.Token != "" {
		return a.dial(b, address, nil), nil
	}
	if b, err = a.Unlocked(ctx, b); err != nil {
		return nil, err
	}
	if !c.local && !b.Login {
		if b, err = a.renewed(ctx, c.credentials, b, address); err != nil {
			return nil, err
		}
	}
	// TLS uses the machine's clock.
	if end := b.NotAfter(); b.Login && time.Now().After(end) {
		return nil, reason.Errorf(reason.CertificateExpired, "the login ended %s", end.UTC().Format(time.RFC3339)).
			WithRemedy("Log in again: `palyra login`.")
	} else if time.Now().After(end) {
		return a.withoutCertificate(c, reason.Errorf(reason.NotConnected, "the certificate in %s ended %s", c.credentials, end.UTC().Format(time.RFC3339)).
			WithRemedy("A running `palyrad` renews the local operator's certificate: start it again. For others, create a new bundle with `palyrad operator bundle NAME` on the gateway's host."))
	}
	g := a.dial(b, address, &c)
	g.Local, g.Notify = c.local, c.notify
	return g, nil
}

// Device returns the unlocked credential of this machine's device, for signatures that are sent
// separately.
func (a *App) Device(ctx context.Context) (identity.Bundle, error) {
	c, err := a.client()
	if err != nil {
		return identity.Bundle{}, err
	}
	b, err := a.bundle(c)
	if err != nil {
		return b, err
	}
	if b.Token != "" {
		return b, reason.Errorf(reason.PermissionDenied, "signing requires the credential of a device, not a token").
			WithRemedy("Specify the bundle of a device with --credentials, and unset %s.", TokenVariable)
	}
	return a.Unlocked(ctx, b)
}

// reach returns the address of the gateway of a bundle.
func (c client) reach(b identity.Bundle) (string, error) {
	address := cmp.Or(c.address, b.Address)
	if _, _, err := net.SplitHostPort(address); err != nil {
		return "", command.Usage("address %q: want HOST:PORT", address).WithRemedy("Set --address or PALYRA_ADDRESS, for example 127.0.0.1:7443.")
	}
	return address, nil
}

// bundle reads the bundle, with the token in TokenVariable instead of its own credential if set.
func (a *App) bundle(c client) (identity.Bundle, error) {
	b, err := readBundle(c)
	token := a.Getenv(TokenVariable)
	switch {
	case token == "":
		return b, err
	case err != nil:
		return b, Explain(nil, err).WithRemedy("The token in %s needs the root of its gateway, which is in a credential bundle. Create one with `palyra tokens create NAME --out DIR`, and specify it with --credentials DIR.", TokenVariable)
	}
	b.Token = token
	return b, nil
}

// readBundle reads the bundle; the error for a missing one explains how to create it.
func readBundle(c client) (identity.Bundle, error) {
	b, err := identity.ReadBundle(c.credentials)
	if err == nil {
		return b, nil
	}
	e := Explain(nil, err)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return b, reason.Errorf(reason.NotConnected, "%s", e.Message).
			WithRemedy("The bundle belongs to another user. Create your own with `palyrad operator add NAME --role ROLE` and specify it with --credentials.")
	case !errors.Is(err, fs.ErrNotExist):
		return b, e
	case c.local:
		return b, e.WithRemedy("Start the gateway on this machine with `palyrad`, which creates a bundle; or specify another with --credentials DIR.")
	}
	return b, e.WithRemedy("Specify the directory of a credential bundle; `palyrad operator add NAME --role ROLE` creates one.")
}

// dial returns the clients. If from is not nil, they use the current credential of the bundle of
// from; otherwise they use the credential in b.
func (a *App) dial(b identity.Bundle, address string, from *client) *Gateway {
	g := a.services(a.httpClient(b, address, from), "https://"+address, address)
	g.Root, g.ServerName = b.Root, b.ServerName
	return g
}

// services returns the clients of a gateway; address is its display name.
func (a *App) services(client *http.Client, base, address string) *Gateway {
	g := &Gateway{}
	opts := []connect.ClientOption{
		connect.WithReadMaxBytes(maxMessage),
		connect.WithInterceptors(deadline{a: a, address: address, g: g}),
	}
	*g = Gateway{
		Address:      address,
		HTTP:         client,
		Base:         base,
		Calls:        palyrav1connect.NewGatewayServiceClient(client, base, opts...),
		Approvals:    palyrav1connect.NewApprovalsServiceClient(client, base, opts...),
		Policy:       palyrav1connect.NewPolicyServiceClient(client, base, opts...),
		Journal:      palyrav1connect.NewJournalServiceClient(client, base, opts...),
		Attestations: palyrav1connect.NewAttestationServiceClient(client, base, opts...),
		Status:       palyrav1connect.NewStatusServiceClient(client, base, opts...),
		Access:       palyrav1connect.NewAccessServiceClient(client, base, opts...),
		Identity:     palyrav1connect.NewIdentityServiceClient(client, base, opts...),
		Workspaces:   palyrav1connect.NewWorkspaceServiceClient(client, base, opts...),
		Sessions:     palyrav1connect.NewSessionServiceClient(client, base, opts...),
		Tokens:       palyrav1connect.NewTokenServiceClient(client, base, opts...),
		Reviews:      palyrav1connect.NewAccessReviewServiceClient(client, base, opts...),
		Pairings:     palyrav1connect.NewPairingServiceClient(client, base, opts...),
		Logins:       palyrav1connect.NewLoginServiceClient(client, base, opts...),
		Life:         palyrav1connect.NewDeviceServiceClient(client, base, opts...),
		Presence:     palyrav1connect.NewPresenceServiceClient(client, base, opts...),
		Vault:        palyrav1connect.NewVaultServiceClient(client, base, opts...),
		Mcp:          palyrav1connect.NewMcpServiceClient(client, base, opts...),
		Skills:       palyrav1connect.NewSkillServiceClient(client, base, opts...),
		Installed:    palyrav1connect.NewInstallServiceClient(client, base, opts...),
		Notices:      palyrav1connect.NewNotifyServiceClient(client, base, opts...),
		Console:      palyrav1connect.NewConsoleServiceClient(client, base, opts...),
	}
	return g
}

func (a *App) httpClient(b identity.Bundle, address string, from *client) *http.Client {
	var t http.RoundTripper = telling{transport(b.ClientTLS())}
	switch {
	case b.Token != "":
		t = bearer{t, b.Token}
	case from != nil:
		c := &current{a: a, dir: from.credentials, local: from.local, address: address, tried: a.Now()}
		if from.local && from.address == "" {
			c.socket = from.socket
		}
		c.take(b)
		t = c
	}
	return noRedirects(t)
}

func noRedirects(t http.RoundTripper) *http.Client {
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport:     t,
	}
}

// bearer adds an API token to every request. The token reaches no other server: the transport
// trusts one gateway only, and redirects are not followed.
type bearer struct {
	http.RoundTripper
	token string
}

// RoundTrip implements http.RoundTripper.
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.RoundTripper.RoundTrip(r)
}

// deadline sets a deadline for every unary call, and reports a long wait to a user at a terminal.
type deadline struct {
	a       *App
	address string
	// g is the gateway, for additional requests during a call.
	g *Gateway
}

// WrapUnary implements connect.Interceptor.
func (d deadline) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		if req != nil && changetable.TakesTwo(req.Spec().Procedure) {
			return d.change(ctx, req, next)
		}
		ctx, cancel := context.WithTimeout(ctx, answerTimeout)
		defer cancel()
		if d.a.ErrTerminal {
			timer := time.AfterFunc(Patience, func() { d.a.Say("waiting for the gateway at %s ...", d.address) })
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
func Watch[T any](ctx context.Context, a *App, l printer.Listing, open func() (*connect.ServerStreamForClient[T], error), record func(*T) (printer.Record, bool)) error {
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
