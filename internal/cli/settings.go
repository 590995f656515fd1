package cli

import (
	"os"
	"path/filepath"

	"palyra/internal/config"
)

// client is how this run reaches the gateway: flags before variables before
// the file before the defaults.
type client struct {
	address     string
	credentials string
	// local is true for the bundle that palyrad writes for the operator of
	// its own host, and renews itself.
	local bool
}

func (a *app) client() (client, error) {
	c, origins, err := a.clientConfig()
	if err != nil {
		return client{}, err
	}
	out := client{address: a.flags.address, credentials: firstOf(a.flags.credentials, c.Client.Credentials)}
	if out.address == "" && origins["client.address"].Source != config.SourceDefault {
		out.address = c.Client.Address
	}
	operator := filepath.Join(c.StateDir, "operator")
	if out.credentials == "" || filepath.Clean(out.credentials) == operator {
		out.credentials, out.local = operator, true
	}
	return out, nil
}

// xdg is a base directory of the XDG specification.
func (a *app) xdg(variable, underHome string) string {
	if dir := a.streams.Getenv(variable); filepath.IsAbs(dir) {
		return dir
	}
	home := a.streams.Getenv("HOME")
	if home == "" {
		home, _ = os.UserHomeDir()
	}
	return filepath.Join(home, filepath.FromSlash(underHome))
}

func firstOf(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}
