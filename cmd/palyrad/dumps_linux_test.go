package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/core/must"
)

// TestForbidDumps starts this test again in a process that forbids dumps. It checks the limits,
// the owner of the memory and the limits of a program that this process starts. Control: a
// process that does not forbid dumps.
func TestForbidDumps(t *testing.T) {
	t.Parallel()
	const variable = "TEST_PALYRA_DUMPS"
	if mode := os.Getenv(variable); mode != "" {
		must.Do(t, unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 4096, Max: 4096}))
		if mode == "forbidden" {
			must.Do(t, forbidDumps())
		}
		dumpable := must.Get(unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0))(t)
		limits := must.Get(exec.CommandContext(t.Context(), "grep", "Max core file size", "/proc/self/limits").Output())(t)
		fmt.Printf("dumpable %d, a program's %s\n", dumpable, strings.Join(strings.Fields(string(limits)), " "))
		return
	}
	program := must.Get(filepath.EvalSymlinks("/proc/self/exe"))(t)
	for mode, want := range map[string]string{
		"forbidden": "dumpable 0, a program's Max core file size 0 0 bytes",
		"allowed":   "dumpable 1, a program's Max core file size 4096 4096 bytes",
	} {
		cmd := exec.CommandContext(t.Context(), program, "-test.run=^TestForbidDumps$")
		cmd.Env = append(os.Environ(), variable+"="+mode)
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v\n%s", mode, err, out)
		}
	}
}
