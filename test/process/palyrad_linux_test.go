package process

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"palyra/internal/core/must"
	"palyra/test/leaks"
)

// TestWhatTheKernelShowsIsNoted is the control of what the suite looks through: a value
// that a process has in its environment or its arguments is found.
func TestWhatTheKernelShowsIsNoted(t *testing.T) {
	t.Parallel()
	const value = "control-Value/0123456789"
	sleep := must.Get(exec.LookPath("sleep"))(t)
	for name, cmd := range map[string]*exec.Cmd{
		"environ": {Path: sleep, Args: []string{"sleep", "3600"}, Env: []string{"TOKEN=" + value}},
		"cmdline": {Path: sleep, Args: []string{value, "3600"}},
		"":        {Path: sleep, Args: []string{"sleep", "3600"}},
	} {
		p := &Palyrad{T: t, told: &told{texts: map[string]*Output{}}, Child: Begin(t, cmd)}
		// The kernel closes the pipe by which Start learns of the new program before it shows
		// the arguments and environment of that program.
		must.Eventually(t, "the arguments of the new program", func() (bool, string) {
			args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.Cmd.Process.Pid))
			return err == nil && bytes.Contains(args, []byte("3600")), string(args)
		})
		p.noteProcess()
		texts := map[string]string{}
		for who, text := range p.told.texts {
			texts[who] = text.String()
		}
		_, found, err := leaks.Look(t.TempDir(), texts, leaks.Kept("a secret", value))
		if must.Check(t, err); len(found) > 0 != (name != "") {
			t.Errorf("%q: found %v in %d texts", name, found, len(texts))
		}
		p.End(t)
	}
}
