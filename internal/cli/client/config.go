package client

import (
	"palyra/internal/core/config"
	"palyra/internal/core/text"
)

// clientConfig is the configuration as far as a command needs it. What is wrong
// with the daemon's settings is said and no more: `palyra freeze` has to work
// while somebody edits palyra.toml.
func (a *App) clientConfig() (*config.Config, config.Origins, error) {
	c, origins, others, err := config.LoadClient(a.LoadOptions())
	if len(others) > 0 {
		a.Say("warning: the configuration has %s; see `palyra config check`", text.Plural(len(others), "error"))
	}
	return c, origins, err
}

// LoadOptions says where the configuration comes from.
func (a *App) LoadOptions() config.LoadOptions {
	return config.LoadOptions{Path: a.Config, Env: a.Getenv, Environ: a.Environ}
}
