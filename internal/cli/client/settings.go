package client

import (
	"cmp"
	"os"
	"path/filepath"

	"palyra/internal/cli/printer"
	"palyra/internal/core/config"
	"palyra/internal/core/statedir"
	"palyra/internal/core/text"
)

// Settings select the gateway and the credential bundle: by flags, variables, contexts and the
// configuration file.
type Settings struct {
	// Address, Credentials and Config are the flags with these names; "" if not set.
	Address, Credentials, Config string
	// Context is the flag that selects one of several gateways.
	Context string
	// Socket is the flag that selects the local operator's socket.
	Socket bool
	out    *printer.Printer
}

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
func (s *Settings) BundleInUse() (string, error) {
	c, err := s.client()
	return c.credentials, err
}

func (s *Settings) client() (client, error) {
	c, origins, err := s.clientConfig()
	if err != nil {
		return client{}, err
	}
	out := client{address: s.Address, credentials: cmp.Or(s.Credentials, c.Client.Credentials), notify: c.Client.Notify}
	if out.address == "" && origins["client.address"].Source != config.SourceDefault {
		out.address = c.Client.Address
	}
	named := s.Credentials != "" || origins["client.credentials"].Source == config.SourceEnv
	bundle, chosen, err := s.chosen(named)
	if err != nil {
		return client{}, err
	}
	if chosen {
		// A context uses the address in its bundle, also if the file has another.
		if out.credentials = bundle; origins["client.address"].Source != config.SourceEnv {
			out.address = s.Address
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
func (s *Settings) Xdg(variable, underHome string) string {
	if dir := s.out.Getenv(variable); filepath.IsAbs(dir) {
		return dir
	}
	home := s.out.Getenv("HOME")
	if home == "" {
		home, _ = os.UserHomeDir()
	}
	return filepath.Join(home, filepath.FromSlash(underHome))
}

// clientConfig returns the part of the configuration that commands need. Faults in the daemon's
// settings are only reported, because `palyra freeze` must work while palyra.toml is being edited.
func (s *Settings) clientConfig() (*config.Config, config.Origins, error) {
	c, origins, others, err := config.LoadClient(s.LoadOptions())
	if len(others) > 0 {
		s.out.Say("warning: the configuration has %s; see `palyra config check`", text.Plural(len(others), "error"))
	}
	return c, origins, err
}

// LoadOptions returns the sources of the configuration.
func (s *Settings) LoadOptions() config.LoadOptions {
	return config.LoadOptions{Path: s.Config, Env: s.out.Getenv, Environ: s.out.Environ}
}
