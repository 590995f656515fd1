package process

import (
	"testing"

	"palyra/internal/exec/sandbox/jail/jailtest"
)

func TestToolchains(t *testing.T) {
	t.Parallel()
	jailtest.Toolchains(t, newTestRunner(t), openWorkspace)
}

func TestToolchainsAlone(t *testing.T) {
	t.Parallel()
	jailtest.Toolchains(t, newAloneRunner(t), openWorkspace)
}
