package bubblewrap

import (
	"testing"

	"palyra/internal/exec/sandbox/jail/jailtest"
)

// Not parallel: it sets XDG_CONFIG_HOME of the process.
func TestAuthor(t *testing.T) {
	jailtest.Author(t, newTestRunner(t), jailtest.Workspace)
}
