package cli

import "palyra/internal/config"

// clientConfig is the configuration as far as a command needs it. What is wrong
// with the daemon's settings is said and no more: `palyra freeze` has to work
// while somebody edits palyra.toml.
func (a *app) clientConfig() (*config.Config, config.Origins, error) {
	c, origins, others, err := config.LoadClient(a.loadOptions())
	if len(others) > 0 {
		a.say("warning: the configuration has %s; see `palyra config check`", plural(len(others), "error"))
	}
	return c, origins, err
}
