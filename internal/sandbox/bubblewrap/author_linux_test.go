package bubblewrap

import (
	"testing"

	"palyra/internal/sandbox/jail/jailtest"
)

func TestAuthor(t *testing.T) {
	jailtest.Author(t, newTestRunner(t), jailtest.Workspace)
}
