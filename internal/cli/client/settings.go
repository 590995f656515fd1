package client

import (
	"cmp"
	"os"
	"path/filepath"

	"palyra/internal/core/config"
	"palyra/internal/core/statedir"
)

// client has the resolved connection settings: flags override variables, which override the file
// and the defaults.
type client struct {
	address     string
	credentials string
	// local is true for the bundle that palyrad writes and renews for the operator of its own host.
	local bool
	// socket is the local operator's socket.
	socket string
	// notify enables desktop notifications of pending calls.
	notify bool
}

// BundleInUse returns the directory of the credential bundle that commands use.
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
		// A context uses the address in its bundle, also if the file has another.
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

// Xdg returns a base directory of the XDG specification.
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
