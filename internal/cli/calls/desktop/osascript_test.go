//go:build unix

package desktop

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/must"
)

// Hostile texts are passed as arguments after the script.
func TestOsascript(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program, got := filepath.Join(dir, "osascript"), filepath.Join(dir, "got")
	must.Do(t, os.WriteFile(program, []byte("#!/bin/sh\nfor a in \"$@\"; do printf '%s\\0' \"$a\"; done >"+got+"\n"), 0o700))
	hostile := `" & (do shell script "id") & " -e $(id) ` + "`id`"
	o := osascript{program: program}
	must.Do(t, o.Show(t.Context(), "A call waits", hostile))
	args := strings.Split(strings.TrimSuffix(string(must.Get(os.ReadFile(got))(t)), "\x00"), "\x00")
	if n := len(args); n != 8 || !slices.Equal(args[n-2:], []string{"A call waits", hostile}) {
		t.Fatalf("arguments: %q", args)
	}
	if script := strings.Join(args[:6], " "); strings.Contains(script, "id") || strings.Contains(script, "waits") {
		t.Errorf("a text is part of the script: %q", script)
	}
	o.program = filepath.Join(dir, "none")
	if o.Show(t.Context(), "a", "b") == nil {
		t.Error("no program is no failure")
	}
}
