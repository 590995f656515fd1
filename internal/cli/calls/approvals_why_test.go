package calls_test

import (
	"strings"
	"testing"

	"palyra/internal/cli/clitest"
)

// The requester's reason is displayed without control characters.
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
