package calls_test

import (
	"strings"
	"testing"

	"palyra/internal/cli/clitest"
)

// What the requester says of why is shown, and nothing in it acts on the terminal.
func TestShowsTheRequestersReason(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	v := clitest.SomeApproval()
	v.Prompt.RequesterReason = "OPS-7\nseverity: low " + clitest.Hostile
	w.Gateway.Change(func() { w.Gateway.Approvals[v.GetApprovalId()] = v })
	r := w.Run("approvals", "show", v.GetApprovalId())
	w.Want(r, 0)
	if !strings.Contains(r.Out, "reason given") || !strings.Contains(r.Out, "OPS-7") || strings.ContainsFunc(r.Out, clitest.Unsafe) || strings.Contains(r.Out, "\nseverity: low") {
		t.Errorf("shown: %q", r.Out)
	}
}
