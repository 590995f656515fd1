package bubblewrap

import (
	"strings"
	"testing"

	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/jail/jailtest"
)

// fileless runs a program that is not in a file system.
const fileless = `import os
fd = os.memfd_create("x")
os.write(fd, open("/usr/bin/true", "rb").read())
os.execve(f"/proc/self/fd/{fd}", ["true"], {})
`

// TestStrictExec: with StrictExec, a program cannot run code from outside the file system.
// Control: without it, it can.
func TestStrictExec(t *testing.T) {
	t.Parallel()
	for strict, want := range map[bool]int{true: 1, false: 0} {
		c := testConfig(t.TempDir())
		c.StrictExec = strict
		r := newConfiguredRunner(t, c)
		s := jailtest.Spec(t, jailtest.Workspace(t), "python3", "-")
		s.Stdin, s.Workspace = []byte(fileless), sandbox.ReadOnly
		report := jailtest.Run(t, r, s)
		if report.ExitCode == nil || *report.ExitCode != want {
			t.Errorf("strict %t: ended with %v, stderr %s", strict, report.ExitCode, report.Stderr.Head)
		}
		if reported := len(report.Violations) == 1 && strings.HasPrefix(report.Violations[0].Syscall, "memfd_create"); reported != strict {
			t.Errorf("strict %t: violations %+v", strict, report.Violations)
		}
	}
}
