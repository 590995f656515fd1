package client

import (
	"cmp"
	"os"
	"path/filepath"

	"palyra/internal/core/config"
	"palyra/internal/core/statedir"
)

// client is how this run reaches the gateway: flags before variables before
// the file before the defaults.
type client struct {
	address     string
	credentials string
	// local is true for the bundle that palyrad writes for the operator of
	// its own host, and renews itself.
	local bool
	// socket is that of the local operator.
	socket string
	// notify says that the desktop is told of calls that begin to wait.
	notify bool
}

// BundleInUse is the directory of the credential bundle that commands use.
func (a *App) BundleInUse() (string, error) {
	c, err := a.client()
	return c.credentials, err
}

func (a *App) client() (client, error) {
	c, origins, err := a.clientConfig()
	if err != nil {
		return client{}, err
	}
	out := client{address: a.Address, credentials: cmp.Or(a.Credentials, c.Client.Credentials), notify: c.Client.Notify}
	if out.address == "" && origins["client.address"].Source != config.SourceDefault {
		out.address = c.Client.Address
	}
	named := a.Credentials != "" || origins["client.credentials"].Source == config.SourceEnv
	bundle, chosen, err := a.chosen(named)
	if err != nil {
		return client{}, err
	}
	if chosen {
		// A context's address is that of its bundle, whatever the file says of another.
		if out.credentials = bundle; origins["client.address"].Source != config.SourceEnv {
			out.address = a.Address
		}
	}
	out.socket = statedir.Socket(c.StateDir)
	operator := statedir.Operator(c.StateDir)
	if out.credentials == "" || filepath.Clean(out.credentials) == operator {
		out.credentials, out.local = operator, true
	}
	return out, nil
}

// Xdg is a base directory of the XDG specification.
func (a *App) Xdg(variable, underHome string) string {
	if dir := a.Getenv(variable); filepath.IsAbs(dir) {
		return dir
	}
	home := a.Getenv("HOME")
	if home == "" {
		home, _ = os.UserHomeDir()
	}
	return filepath.Join(home, filepath.FromSlash(underHome))
}
