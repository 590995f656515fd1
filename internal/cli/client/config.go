package client

import (
	"palyra/internal/core/config"
	"palyra/internal/core/text"
)

// clientConfig returns the part of the configuration that commands need. Faults in the daemon's
// settings are only reported, because `palyra freeze` must work while palyra.toml is being edited.
func (a *App) clientConfig() (*config.Config, config.Origins, error) {
	c, origins, others, err := config.LoadClient(a.LoadOptions())
	if len(others) > 0 {
		a.Say("warning: the configuration has %s; see `palyra config check`", text.Plural(len(others), "error"))
	}
	return c, origins, err
}

// LoadOptions returns the sources of the configuration.
func (a *App) LoadOptions() config.LoadOptions {
	return config.LoadOptions{Path: a.Config, Env: a.Getenv, Environ: a.Environ}
}
