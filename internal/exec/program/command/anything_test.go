package command

import (
	"testing"

	"palyra/internal/core/tool"
)

// Programs that run arbitrary code are recognized by each of their names. Control: ordinary
// programs.
func TestRunsAnything(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"python3.12": true, "node": true, "bash": true, "env": true, "xargs": true, "sudo": true, "find": true, "fdfind": true,
		"git": false, "ls": false, "go": false, "cat": false,
	} {
		for _, p := range []Program{
			{Executable: tool.Executable{Path: "/usr/bin/" + name}, Basename: name, Called: name},
			{Basename: "x", Called: name}, {Basename: name, Called: "x"}, {Basename: "x", Called: "x", Copy: name},
		} {
			if got := p.RunsAnything() != ""; got != want {
				t.Errorf("%+v: %q", p, p.RunsAnything())
			}
		}
	}
}
