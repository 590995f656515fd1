//go:build unix

package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

// An invalid secret file does not prevent loading the configuration. A check reports it, and no
// value is read from it.
func TestSecretFiles(t *testing.T) {
	t.Parallel()
	const value = "ghp_do-not-tell"
	for _, test := range []struct {
		name, want string
		make       func(path string) error
	}{
		{"the control", "", write(0o600, value+"\n")},
		{"read only", "", write(0o400, value)},
		{"written on Windows", "", write(0o600, value+"\r\n")},
		{"absent", "cannot be read: no such file or directory; make it with the value in it", func(string) error { return nil }},
		{"a directory", "is not a regular file", func(path string) error { return os.Mkdir(path, 0o700) }},
		{"a pipe", "is not a regular file", func(path string) error { return syscall.Mkfifo(path, 0o600) }},
		{"a link", "is not a regular file", func(path string) error {
			return errors.Join(write(0o600, value)(path+".real"), os.Symlink(path+".real", path))
		}},
		{"for the group", "has mode 0640: others than its owner may use it; run `chmod 600", write(0o640, value)},
		{"for everybody", "has mode 0604", write(0o604, value)},
		{"owned by another user", "belongs to uid 12345", ofAnother(value)},
		{"empty", "holds fewer than 8 bytes", write(0o600, "")},
		{"short", "holds fewer than 8 bytes", write(0o600, "1234567\n")},
		{"the longest", "", write(0o600, value+strings.Repeat("k", maxSecret-len(value))+"\r\n")},
		{"long", "has more than 4096 bytes", write(0o600, value+strings.Repeat("k", maxSecret+1-len(value)))},
		{"very long", "has more than 4098 bytes", write(0o600, value+strings.Repeat("k", 1<<20))},
		{"two lines", "holds more than one line", write(0o600, value+"\n"+value+"\n")},
		{"not ASCII", "characters that a header cannot hold", write(0o600, value+"\xff")},
		{"a space before it", "begins or ends with a space", write(0o600, " "+value)},
	} {
		w := newWorld(t)
		path := filepath.Join(w.home, "token")
		if err := test.make(path); errors.Is(err, errOnlyRoot) {
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		w.write(secretTable())
		c, _ := w.load(w.options())
		findings := Check(w.options())
		got, err := c.Secrets[0].Value()
		if test.want == "" {
			if err != nil || !strings.HasPrefix(string(got), value) || strings.ContainsAny(string(got), "\r\n") || len(findings) > 0 {
				t.Errorf("%s: %q, %v, %v", test.name, got, err, findings)
			}
			continue
		}
		text := findings.Error()
		if !strings.Contains(text, ":3:1: secrets[0].file cannot be used: the secret file "+path+" "+test.want) && !strings.Contains(text, test.want) {
			t.Errorf("%s: %q, want %q", test.name, text, test.want)
		}
		if reason.Of(err) != reason.ConfigInvalid || got != nil || strings.Contains(text+err.Error(), value) {
			t.Errorf("%s: %q, %v", test.name, got, err)
		}
	}
	// A new value takes effect at the next use.
	w := newWorld(t)
	s := Secret{File: filepath.Join(w.home, "token")}
	for _, value := range []string{"the-first-value", "the-second-value"} {
		must.Do(t, os.WriteFile(s.File, []byte(value), 0o600))
		if got, err := s.Value(); err != nil || string(got) != value {
			t.Errorf("%q, %v, want %q", got, err, value)
		}
	}
}
