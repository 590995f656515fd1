package client

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"palyra/internal/core/lazyregexp"
	"palyra/internal/core/reason"
	"palyra/internal/core/statedir/keyfile"
)

// LocalContext is the gateway of this machine, with the bundle that palyrad maintains for its
// operator. It always exists and is not in the file.
const LocalContext = "local"

// Contexts are the gateways of this user: a name for each credential bundle, and the current one.
// They are stored in contexts.json next to palyra.toml.
type Contexts struct {
	// Current is the selected name; "" for none.
	Current string `json:"current,omitempty"`
	// Bundles are directories of credential bundles by name.
	Bundles map[string]string `json:"contexts"`
}

var contextName = lazyregexp.New(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// Names returns the names of the contexts, in order.
func (c Contexts) Names() []string { return slices.Sorted(maps.Keys(c.Bundles)) }

// Bundle returns the directory of a context; "" for LocalContext.
func (c Contexts) Bundle(name string) (string, error) {
	if name == LocalContext {
		return "", nil
	}
	dir, ok := c.Bundles[name]
	if !ok {
		return "", reason.Errorf(reason.NotFound, "the context %q does not exist", name).
			WithRemedy("List the contexts with `palyra context list`, or add a credential bundle with `palyra context add NAME DIR`.")
	}
	return dir, nil
}

// Add adds a name for a credential bundle.
func (c *Contexts) Add(name, dir string) error {
	if !contextName.MatchString(name) || name == LocalContext {
		return reason.Errorf(reason.InvalidInput, "the name %q is not 1 to 63 of a-z, 0-9, '.', '_', '-', beginning with a letter or digit, or it is %q", name, LocalContext)
	}
	if was, ok := c.Bundles[name]; ok && was != dir {
		return reason.Errorf(reason.AlreadyExists, "the context %s is the bundle in %s", name, was).WithRemedy("Remove it first: `palyra context remove %s`.", name)
	}
	if c.Bundles == nil {
		c.Bundles = map[string]string{}
	}
	c.Bundles[name] = dir
	return nil
}

func (s *Settings) contextsFile() string {
	return filepath.Join(s.Xdg("XDG_CONFIG_HOME", ".config"), "palyra", "contexts.json")
}

// Contexts reads the contexts file; a missing one is empty.
func (s *Settings) Contexts() (Contexts, error) {
	var c Contexts
	path := s.contextsFile()
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return c, fmt.Errorf("reading the contexts: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&c); err != nil {
		return c, reason.Errorf(reason.ConfigInvalid, "reading %s: %w", path, err).WithRemedy("Correct or remove the file, and add the contexts again.")
	}
	return c, nil
}

// WriteContexts replaces the contexts file atomically.
func (s *Settings) WriteContexts(c Contexts) error {
	path := s.contextsFile()
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the contexts: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("writing the contexts: %w", err)
	}
	return keyfile.Write(path, append(text, '\n'))
}

// chosen returns the bundle of the selected context. It is the context of --context, or else
// the current one, unless a flag or a variable specifies a bundle (named). ok is false if no
// context is selected.
func (s *Settings) chosen(named bool) (bundle string, ok bool, err error) {
	if s.Context == "" && named {
		return "", false, nil
	}
	c, err := s.Contexts()
	if err != nil {
		return "", false, err
	}
	name := cmp.Or(s.Context, c.Current)
	if name == "" {
		return "", false, nil
	}
	bundle, err = c.Bundle(name)
	return bundle, err == nil, err
}
