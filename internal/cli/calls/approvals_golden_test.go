package calls_test

import (
	"testing"

	"palyra/internal/cli/clitest"
)

// TestGoldenApprovals compares the output of every listing and page in every format.
func TestGoldenApprovals(t *testing.T) {
	t.Parallel()
	clitest.Golden(t, map[string][]string{
		"approvals_list": {"approvals", "list", "--all"}, "approvals_show": {"approvals", "show", clitest.ApprovalID},
		"grants_list": {"grants", "list"}, "grants_revoke": {"grants", "revoke", "01GRANT0000000000000000000"},
		"decide": clitest.DecideArgs("--deny", "--reason", "no"),
	})
}
