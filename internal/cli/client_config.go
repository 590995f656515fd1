package cli

import (
	"errors"
	"os"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"palyra/internal/config"
	"palyra/internal/reason"
)

// clientKeys are the settings that a command needs to reach the gateway, and
// the variables that give them.
var clientKeys = map[string]string{ //nolint:gosec // names of settings and variables, no secrets
	"state_dir": "PALYRA_STATE_DIR", "client.address": "PALYRA_ADDRESS", "client.credentials": "PALYRA_CREDENTIALS",
}

// clientConfig is the configuration as far as a command needs it. What is wrong
// with the daemon's settings is said and no more: `palyra freeze` has to work
// while somebody edits palyra.toml.
func (a *app) clientConfig() (*config.Config, config.Origins, error) {
	opts := a.loadOptions()
	c, origins, err := config.Load(opts)
	var findings config.Findings
	if err == nil || !errors.As(err, &findings) {
		return c, origins, err
	}
	var ours config.Findings
	for _, f := range findings {
		// A finding without a key is of a file that cannot be read at all.
		if f.Key == "" || f.Key == "state_dir" || f.Key == "client" || strings.HasPrefix(f.Key, "client.") {
			ours = append(ours, f)
		}
	}
	if len(ours) > 0 {
		return nil, nil, reason.Errorf(reason.ConfigInvalid, "%w", ours)
	}
	c, origins, err = a.clientPart(opts)
	if err == nil {
		a.say("warning: the configuration has %s; see `palyra config check`", plural(len(findings), "error"))
	}
	return c, origins, err
}

// clientPart loads the client's settings alone: those of the file as flags, as
// far as no variable is before them, and nothing else of it.
func (a *app) clientPart(opts config.LoadOptions) (*config.Config, config.Origins, error) {
	part := config.LoadOptions{Path: os.DevNull, Flags: map[string]string{}, Env: func(name string) string {
		known := !strings.HasPrefix(name, "PALYRA_")
		for _, variable := range clientKeys {
			known = known || variable == name
		}
		if !known {
			return ""
		}
		return opts.Env(name)
	}}
	path, exists := config.Path(opts)
	if exists {
		given, err := clientValues(path)
		if err != nil {
			return nil, nil, err
		}
		for key, value := range given {
			if value != "" && opts.Env(clientKeys[key]) == "" {
				part.Flags[key] = value
			}
		}
	}
	return config.Load(part)
}

// clientValues reads the client's settings in a file whose other settings may
// be wrong.
func clientValues(path string) (map[string]string, error) {
	var file struct {
		StateDir string `toml:"state_dir"`
		Client   struct {
			Address     string `toml:"address"`
			Credentials string `toml:"credentials"`
		} `toml:"client"`
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if err := toml.Unmarshal(text, &file); err != nil {
		return nil, reason.Errorf(reason.ConfigInvalid, "%s: %w", path, err)
	}
	return map[string]string{
		"state_dir": file.StateDir, "client.address": file.Client.Address, "client.credentials": file.Client.Credentials,
	}, nil
}
