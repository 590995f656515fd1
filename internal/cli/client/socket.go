package client

import (
	"context"
	"net"
	"net/http"
	"os"

	"palyra/internal/cli/command"
	"palyra/internal/identity"
)

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
