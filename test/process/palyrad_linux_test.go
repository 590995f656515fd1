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

// TestProcessArgumentsAreRecorded is the control of the search for keys: a value in the environment
// or the arguments of a process is found.
func TestProcessArgumentsAreRecorded(t *testing.T) {
	t.Parallel()
	const value = "control-Value/0123456789"
	sleep := must.Get(exec.LookPath("sleep"))(t)
	for name, cmd := range map[string]*exec.Cmd{
		"environ": {Path: sleep, Args: []string{"sleep", "3600"}, Env: []string{"TOKEN=" + value}},
		"cmdline": {Path: sleep, Args: []string{value, "3600"}},
		"":        {Path: sleep, Args: []string{"sleep", "3600"}},
	} {
		p := &Palyrad{T: t, outputs: &outputs{texts: map[string]*Output{}}, Child: Begin(t, cmd)}
		// The kernel closes the pipe of Start before it shows the arguments and environment of the
		// new program.
		must.Eventually(t, "the arguments of the new program", func() (bool, string) {
			args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.Cmd.Process.Pid))
			return err == nil && bytes.Contains(args, []byte("3600")), string(args)
		})
		p.noteProcess()
		texts := map[string]string{}
		for who, text := range p.outputs.texts {
			texts[who] = text.String()
		}
		_, found, err := leaks.Look(t.TempDir(), texts, leaks.Kept("a secret", value))
		if must.Check(t, err); len(found) > 0 != (name != "") {
			t.Errorf("%q: found %v in %d texts", name, found, len(texts))
		}
		p.End(t)
	}
}
