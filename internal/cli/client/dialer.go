package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"os"
	"time"

	"connectrpc.com/connect"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/identity"
	"palyra/internal/identity/ca"
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

// overSocket connects as the local operator of this machine, authenticated only by the user's uid.
func (d Dialer) overSocket(c client) (*Gateway, error) {
	if !c.local || c.address != "" {
		return nil, command.Usage("--socket applies only to the gateway of this machine").
			WithRemedy("Omit --credentials, --context and --address, and the corresponding variables and settings; or omit --socket.")
	}
	g := d.services(noRedirects(socketTransport(c.socket)), "http://localhost", c.socket)
	g.Local, g.Notify = true, c.notify
	// The gateway's data in a bundle is usable without its key and certificate.
	if b, err := identity.ReadGateway(c.credentials); err == nil {
		g.Root, g.ServerName, g.Address = b.Root, b.ServerName, b.Address
	}
	return g, nil
}

// socketTransport speaks HTTP/2 over a socket of this machine.
func socketTransport(path string) *http.Transport {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	dialer := &net.Dialer{Timeout: dialTimeout}
	return &http.Transport{Protocols: &protocols, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return dialer.DialContext(ctx, "unix", path)
	}}
}

// withoutCertificate connects over the socket if the bundle of this machine's own gateway is
// unusable, so that its operator can still freeze, inspect and repair it. It reports that, because
// requests over the socket have fewer permissions. Otherwise it returns why.
func (d Dialer) withoutCertificate(c client, why error) (*Gateway, error) {
	if !c.local || c.address != "" {
		return nil, why
	}
	if _, err := os.Stat(c.socket); err != nil {
		return nil, why
	}
	d.out.Say("using the gateway's socket: %s", Explain(nil, why).Message)
	return d.overSocket(c)
}

// Known is a gateway with a known CA, for use without a credential.
type Known struct {
	Address, ServerName string
	// Root is its CA.
	Root *x509.Certificate
}

// Stranger returns a connection without a credential to a gateway with a known CA.
func (d Dialer) Stranger(k Known) palyrav1connect.LoginServiceClient {
	return d.logins(k.Address, ca.ClientTLS(k.Root, k.ServerName, nil))
}

func (d Dialer) logins(address string, c *tls.Config) palyrav1connect.LoginServiceClient {
	return d.services(noRedirects(transport(c)), "https://"+address, address).Logins
}

// Meet retrieves the CA of the gateway at an address. Meet authenticates nothing and sends no
// other request. The caller must have the CA's fingerprint compared, and then connect again
// with Stranger, which trusts only that CA.
func (d Dialer) Meet(ctx context.Context, address string) (Known, error) {
	k := Known{Address: address}
	//#nosec G402 -- the answer is compared with a fingerprint before anything is trusted
	about, err := d.logins(address, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"}}).
		DescribeLogin(ctx, &palyrav1.DescribeLoginRequest{})
	if err != nil {
		return k, err
	}
	k.ServerName = about.GetServerName()
	chain, err := ca.ParseChain([]byte(about.GetCaCertificate()))
	if err != nil || len(chain) != 1 || !chain[0].IsCA || k.ServerName == "" {
		return k, reason.Errorf(reason.VerificationFailed, "the server at %s did not send a CA", address)
	}
	k.Root = chain[0]
	return k, nil
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
