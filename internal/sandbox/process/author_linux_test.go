package process

import (
	"testing"

	"palyra/internal/sandbox/jail/jailtest"
)

func TestAuthor(t *testing.T) {
	jailtest.Author(t, newTestRunner(t), openWorkspace)
}

func TestAuthorAlone(t *testing.T) {
	jailtest.Author(t, newAloneRunner(t), openWorkspace)
}
