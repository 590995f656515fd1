package client

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"time"

	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/cli/command"
	"palyra/internal/core/progress"
	"palyra/internal/core/reason"
	"palyra/internal/identity"
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
		return a.Dialer.overSocket(c)
	}
	b, err := a.bundle(c)
	switch {
	case err != nil && token != "":
		return nil, err
	case err != nil:
		return a.Dialer.withoutCertificate(c, err)
	}
	address, err := c.reach(b)
	if err != nil {
		return nil, err
	}
	if b.Token != "" {
		return a.Dialer.dial(b, address, nil), nil
	}
	if b, err = a.Keys.Unlocked(ctx, b); err != nil {
		return nil, err
	}
	if !c.local && !b.Login {
		if b, err = a.renewals.renewed(ctx, c.credentials, b, address); err != nil {
			return nil, err
		}
	}
	// TLS uses the machine's clock.
	if end := b.NotAfter(); b.Login && time.Now().After(end) {
		return nil, reason.Errorf(reason.CertificateExpired, "the login ended %s", end.UTC().Format(time.RFC3339)).
			WithRemedy("Log in again: `palyra login`.")
	} else if time.Now().After(end) {
		return a.Dialer.withoutCertificate(c, reason.Errorf(reason.NotConnected, "the certificate in %s ended %s", c.credentials, end.UTC().Format(time.RFC3339)).
			WithRemedy("A running `palyrad` renews the local operator's certificate: start it again. For others, create a new bundle with `palyrad operator bundle NAME` on the gateway's host."))
	}
	g := a.Dialer.dial(b, address, &c)
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
	return a.Keys.Unlocked(ctx, b)
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
