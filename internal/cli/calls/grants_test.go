package calls_test

import (
	"strings"
	"testing"
	"time"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/calls/ask"
	"palyra/internal/cli/clitest"
)

func TestRevokingAGrantAsksNothing(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Populate()
	w.Want(w.Run("grants", "revoke", "01GRANT0000000000000000000"), 0)
}

func TestGrantState(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Populate()
	w.Now = clitest.Now.Add(2 * time.Hour)
	if r := w.Run("grants", "list"); !strings.Contains(r.Out, "ended") {
		t.Error(r.Out)
	}
	var none *palyrav1.Grant
	if ask.GrantState(none, clitest.Now) != "live" {
		t.Error("a grant without an end is live")
	}
}
