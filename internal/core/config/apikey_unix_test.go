//go:build unix

package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"palyra/internal/core/reason"
)

// errOnlyRoot marks a case that only root can set up.
var errOnlyRoot = errors.New("only root gives files away")

// write returns a function that creates a file with a mode and a text.
func write(mode os.FileMode, text string) func(path string) error {
	return func(path string) error {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
		return os.Chmod(path, mode)
	}
}

// ofAnother returns a function that creates a file of another user.
func ofAnother(text string) func(path string) error {
	return func(path string) error {
		if os.Geteuid() != 0 {
			return errOnlyRoot
		}
		return errors.Join(write(0o600, text)(path), os.Chown(path, 12345, -1))
	}
}

// An invalid key file does not prevent loading the configuration. A check reports it with its
// position and without its contents.
func TestKeyFiles(t *testing.T) {
	t.Parallel()
	const secret = "sk-do-not-tell"
	for _, test := range []struct {
		name, want string
		make       func(path string) error
	}{
		{"the control", "", write(0o600, secret+"\n")},
		{"read only", "", write(0o400, secret)},
		{"written on Windows", "", write(0o600, secret+"\r\n")},
		{"absent", "cannot be read: no such file or directory; make it with the key in it", func(string) error { return nil }},
		{"a directory", "is not a regular file", func(path string) error { return os.Mkdir(path, 0o700) }},
		{"a pipe", "is not a regular file", func(path string) error { return syscall.Mkfifo(path, 0o600) }},
		{"for the group", "has mode 0640: others than its owner may use it; run `chmod 600", write(0o640, secret)},
		{"for everybody", "has mode 0604", write(0o604, secret)},
		{"empty", "is empty; write the key into it", write(0o600, "")},
		{"a bare line", "is empty", write(0o600, "\n")},
		{"two lines", "holds more than one line", write(0o600, secret+"\n"+secret+"\n")},
		{"a word before it", "holds more than one line", write(0o600, "key "+secret)},
		{"owned by another user", "belongs to uid 12345", ofAnother(secret)},
		{"too large", "has more than 8192 bytes", write(0o600, strings.Repeat("k", maxAPIKey+1))},
	} {
		w := newWorld(t)
		path := filepath.Join(w.home, "key")
		if err := test.make(path); errors.Is(err, errOnlyRoot) {
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		w.write(model() + "api_key_file = \"~/key\"")
		c, _ := w.load(w.options())
		findings := Check(w.options())
		key, err := c.Models[0].APIKey()
		if test.want == "" {
			if err != nil || key != secret || len(findings) > 0 {
				t.Errorf("%s: %q, %v, %v", test.name, key, err, findings)
			}
			continue
		}
		text := findings.Error()
		if !strings.Contains(text, ":6:1: models[0].api_key_file cannot be used: the API key file "+path+" "+test.want) {
			t.Errorf("%s: %q, want %q", test.name, text, test.want)
		}
		if reason.Of(err) != reason.ConfigInvalid || key != "" || strings.Contains(text+err.Error(), secret) {
			t.Errorf("%s: %q, %v", test.name, key, err)
		}
	}
}
