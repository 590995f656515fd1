//go:build palyrainit

package jail

import (
	"bytes"
	"os"
	"os/exec"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/exec/sandbox/inside"
)

// palyrad contains a complete palyra-init. Its stage that holds a namespace open ends with its
// input.
func TestHelperRuns(t *testing.T) {
	t.Parallel()
	program := Helper()
	if !bytes.HasPrefix(program, []byte("\x7fELF")) {
		t.Fatalf("%d bytes that are no program", len(program))
	}
	file := must.Get(ExecutableFile(helperName, program))(t)
	defer file.Close()
	null := must.Get(os.Open(os.DevNull))(t)
	defer null.Close()
	cmd := exec.Command(SelfPath(int(file.Fd())), inside.StageHold)
	cmd.Stdin = null
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("holding until the input ends: %v %s", err, out)
	}
}
