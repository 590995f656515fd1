package client

import (
	"context"
	"net"
	"net/http"
	"os"

	"palyra/internal/cli/command"
	"palyra/internal/identity"
)

// overSocket connects as the local operator of this machine by its user's uid alone.
func (a *App) overSocket(c client) (*Gateway, error) {
	if !c.local || c.address != "" {
		return nil, command.Usage("--socket is for the gateway of this machine, by its state directory").
			WithRemedy("Leave out --credentials, --context and --address, and the variables and settings that say the same; or leave out --socket.")
	}
	g := a.services(noRedirects(socketTransport(c.socket)), "http://localhost", c.socket)
	g.Local, g.Notify = true, c.notify
	// What a bundle says of the gateway is good without its key and certificate.
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

// withoutCertificate connects over the socket when the bundle of this machine's own
// gateway is of no use, so that its operator can still freeze, look and mend. It says
// so: what comes over the socket counts for less. Otherwise why is the error.
func (a *App) withoutCertificate(c client, why error) (*Gateway, error) {
	if !c.local || c.address != "" {
		return nil, why
	}
	if _, err := os.Stat(c.socket); err != nil {
		return nil, why
	}
	a.Say("using the gateway's socket: %s", Explain(nil, why).Message)
	return a.overSocket(c)
}
