package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"palyra/internal/reason"
)

// maxAPIKey is far above any key: 8 KiB.
const maxAPIKey = 8 << 10

// APIKey reads the key of api_key_file; "" is the key of a model without one.
// The file must be regular, hold one line, and belong to the user that reads
// it and to nobody else. The error says what is wrong and what to do, and
// never what the file holds.
func (m Model) APIKey() (string, error) {
	if m.APIKeyFile == "" {
		return "", nil
	}
	text, err := readPrivate(m.APIKeyFile)
	if err != nil {
		return "", err
	}
	key := strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
	switch {
	case strings.TrimSpace(key) == "":
		return "", keyProblem(m.APIKeyFile, "is empty", "Write the key into it, and nothing else.")
	case strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", keyProblem(m.APIKeyFile, "holds more than one line with a key", "Write the key into it, and nothing else.")
	}
	return key, nil
}

// readPrivate looks at the file before it opens it, as a pipe would block,
// and again at what it opened.
func readPrivate(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", keyProblem(path, "cannot be read: "+plain(err), "Make it with the key in it.")
	}
	if !info.Mode().IsRegular() {
		return "", keyProblem(path, "is not a regular file", "Name a file that holds the key.")
	}
	f, err := os.Open(path)
	if err != nil {
		return "", keyProblem(path, "cannot be read: "+plain(err), "Make it readable for the user that palyrad runs as.")
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return "", keyProblem(path, "cannot be read: "+plain(err), "Look at its file system.")
	}
	if problem, remedy := notPrivate(path, info); problem != "" {
		return "", keyProblem(path, problem, remedy)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxAPIKey+1))
	switch {
	case err != nil:
		return "", keyProblem(path, "cannot be read: "+plain(err), "Look at its file system.")
	case len(text) > maxAPIKey:
		return "", keyProblem(path, fmt.Sprintf("has more than %d bytes", maxAPIKey), "Write the key into it, and nothing else.")
	}
	return string(text), nil
}

func keyProblem(path, problem, remedy string) error {
	return reason.Errorf(reason.ConfigInvalid, "the API key file %s %s", path, problem).WithRemedy("%s", remedy)
}

// keyFiles finds the API keys that cannot be used. palyrad starts without
// them; runs with their models fail.
func keyFiles(c *Config, origins Origins) Findings {
	k := &checker{origins: origins}
	for i, m := range c.Models {
		if !filepath.IsAbs(m.APIKeyFile) {
			continue // is found by check
		}
		_, err := m.APIKey()
		var why *reason.Error
		if errors.As(err, &why) {
			remedy := strings.TrimSuffix(strings.ToLower(why.Remedy[:1])+why.Remedy[1:], ".")
			k.find(fmt.Sprintf("models[%d].api_key_file", i), "cannot be used: "+why.Message, remedy)
		}
	}
	return k.findings
}
