//go:build unix

package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/reason"
)

// An invalid passphrase file does not prevent loading the configuration. A check reports it
// without its contents.
func TestVaultPassphrase(t *testing.T) {
	t.Parallel()
	const value = "do not tell"
	for _, test := range []struct {
		name, want string
		make       func(path string) error
	}{
		{"the control", "", write(0o600, value+"\n")},
		{"without a line's end", "", write(0o600, value)},
		{"written on Windows", "", write(0o600, value+"\r\n")},
		{"absent", "cannot be read: no such file or directory", func(string) error { return nil }},
		{"a directory", "is not a regular file", func(path string) error { return os.Mkdir(path, 0o700) }},
		{"for the group", "has mode 0640", write(0o640, value)},
		{"owned by another user", "belongs to uid 12345", ofAnother(value)},
		{"empty", "is empty", write(0o600, "\n")},
		{"two lines", "holds more than one line", write(0o600, value+"\n"+value+"\n")},
		{"too long", "has more than", write(0o600, strings.Repeat("k", 2000))},
	} {
		w := newWorld(t)
		path := filepath.Join(w.home, "phrase")
		if err := test.make(path); errors.Is(err, errOnlyRoot) {
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		w.write("[vault]\npassphrase_file = \"~/phrase\"\n")
		c, _ := w.load(w.options())
		findings := Check(w.options())
		phrase, err := c.Vault.Passphrase()
		if test.want == "" {
			if err != nil || string(phrase) != value || len(findings) > 0 {
				t.Errorf("%s: %q, %v, %v", test.name, phrase, err, findings)
			}
			continue
		}
		text := findings.Error()
		if !strings.Contains(text, "vault.passphrase_file cannot be used: the passphrase file "+path+" "+test.want) {
			t.Errorf("%s: %q, want %q", test.name, text, test.want)
		}
		if reason.Of(err) != reason.ConfigInvalid || phrase != nil || strings.Contains(text+err.Error(), value) {
			t.Errorf("%s: %q, %v", test.name, phrase, err)
		}
	}
}

func TestVaultSettings(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"backend = \"file\"":                            "",
		"backend = \"pocket\"":                          "set it to one of auto, file, secret_service, keychain, dpapi",
		"backend = \"dpapi\"\npassphrase_file = \"/p\"": "takes no passphrase",
		"passphrase_file = \"p\"":                       "is not an absolute path",
	} {
		w := newWorld(t)
		w.write("[vault]\n" + text + "\n")
		findings := Check(w.options())
		if want == "" && len(findings) > 0 || want != "" && !strings.Contains(findings.Error(), want) {
			t.Errorf("%s: %v", text, findings)
		}
	}
	w := newWorld(t)
	w.write("[vault]\npassphrase_file = \"~/code/phrase\"\n[[workspaces]]\nname = \"w\"\npath = \"~/code\"\n")
	if text := Check(w.options()).Error(); !strings.Contains(text, "which overlaps vault.passphrase_file") {
		t.Error(text)
	}
}
