package client

import (
	"context"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/cli/printer"
	"palyra/internal/core/access"
	"palyra/internal/identity"
	"palyra/internal/surface/api/changetable"
)

// Dialer opens connections to gateways, and reports their waits with out.
type Dialer struct{ out *printer.Printer }

// dial returns the clients. If from is not nil, they use the current credential of the bundle of
// from; otherwise they use the credential in b.
func (d Dialer) dial(b identity.Bundle, address string, from *client) *Gateway {
	g := d.services(d.httpClient(b, address, from), "https://"+address, address)
	g.Root, g.ServerName = b.Root, b.ServerName
	return g
}

// services returns the clients of a gateway; address is its display name.
func (d Dialer) services(client *http.Client, base, address string) *Gateway {
	g := &Gateway{}
	opts := []connect.ClientOption{
		connect.WithReadMaxBytes(maxMessage),
		connect.WithInterceptors(deadline{out: d.out, address: address, g: g}),
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

func (d Dialer) httpClient(b identity.Bundle, address string, from *client) *http.Client {
	var t http.RoundTripper = telling{transport(b.ClientTLS())}
	switch {
	case b.Token != "":
		t = bearer{t, b.Token}
	case from != nil:
		c := &current{out: d.out, renewals: renewer{d}, dir: from.credentials, local: from.local, address: address, tried: d.out.Now()}
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
	out     *printer.Printer
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
		if d.out.ErrTerminal {
			timer := time.AfterFunc(Patience, func() { d.out.Say("waiting for the gateway at %s ...", d.address) })
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
