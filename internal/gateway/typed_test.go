package gateway

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"palyra/internal/core/reason"
)

// TestTypedKeysAreRefused passes a key as every argument and option of each host command. The
// key is refused before anything is read or created, and is not repeated in the error.
// keepsNothing lists the commands that store none of their arguments.
func TestTypedKeysAreRefused(t *testing.T) {
	t.Parallel()
	key := "ghp_" + strings.Repeat("aB3", 12)
	keepsNothing := map[string]bool{"completion": true, "help": true, "version": true, "man": true, "sandbox": true, "restore": true}
	var lines [][]string
	var walk func(c *cobra.Command, path []string)
	walk = func(c *cobra.Command, path []string) {
		for _, sub := range c.Commands() {
			if len(path) > 0 || !keepsNothing[sub.Name()] && !sub.Hidden {
				walk(sub, append(path[:len(path):len(path)], sub.Name()))
			}
		}
		if len(path) == 0 || c.RunE == nil {
			return
		}
		takes := c.Args == nil || c.Args(c, []string{"a"}) == nil
		if takes {
			lines = append(lines, append(path[:len(path):len(path)], key))
		}
		c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if f.Value.Type() == "bool" {
				return
			}
			line := append(path[:len(path):len(path)], "--"+f.Name, key)
			if takes {
				line = append(line, "a")
			}
			lines = append(lines, line)
		})
	}
	walk(Command(nil, nil), nil)
	if len(lines) < 12 {
		t.Fatalf("only %q", lines)
	}
	for _, line := range lines {
		state := filepath.Join(t.TempDir(), "state")
		var stdout, stderr bytes.Buffer
		c := Command(&stdout, &stderr)
		c.SetArgs(append(line, "--state-dir", state))
		err := c.ExecuteContext(t.Context())
		if reason.Of(err) != reason.InvalidInput || !strings.Contains(err.Error(), "has the form of a secret key") || strings.Contains(err.Error()+stdout.String()+stderr.String(), key) {
			t.Errorf("%q: %v\n%s%s", line, err, &stdout, &stderr)
		}
		if _, err := os.Stat(state); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q made the state directory", line)
		}
	}
}
