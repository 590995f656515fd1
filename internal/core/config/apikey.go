package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// maxAPIKey is far above any key: 8 KiB.
const maxAPIKey = 8 << 10

// APIKey reads the key of api_key_file; it returns "" for a model without such a file. The file
// MUST be regular, contain one line, belong to the user that reads it, and be inaccessible to
// others. The error names the defect and the next step, and never contains the content.
func (m Model) APIKey() (string, error) {
	if m.APIKeyFile == "" {
		return "", nil
	}
	file := privateFile{path: m.APIKeyFile, kind: "API key", holds: "key", most: maxAPIKey, look: os.Stat}
	text, err := file.read()
	if err != nil {
		return "", err
	}
	key := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	switch {
	case strings.TrimSpace(key) == "":
		return "", file.problem("is empty", file.alone())
	case strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", file.problem("holds more than one line with a key", file.alone())
	}
	return key, nil
}

// keyFiles returns findings about API keys and secrets that cannot be used. palyrad starts
// without them; runs and calls that need them fail.
func keyFiles(c *Config, origins Origins) Findings {
	k := &checker{origins: origins}
	for i, m := range c.Models {
		if filepath.IsAbs(m.APIKeyFile) { // check finds all other paths
			_, err := m.APIKey()
			k.unusable(fmt.Sprintf("models[%d].api_key_file", i), err)
		}
	}
	for i, s := range c.Secrets {
		if filepath.IsAbs(s.File) {
			value, err := s.Value()
			clear(value)
			k.unusable(fmt.Sprintf("secrets[%d].file", i), err)
		}
	}
	if filepath.IsAbs(c.OIDC.ClientSecretFile) {
		_, err := c.OIDC.ClientSecret()
		k.unusable("oidc.client_secret_file", err)
	}
	if filepath.IsAbs(c.Vault.PassphraseFile) {
		phrase, err := c.Vault.Passphrase()
		clear(phrase)
		k.unusable("vault.passphrase_file", err)
	}
	return k.findings
}
