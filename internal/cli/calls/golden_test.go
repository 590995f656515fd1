package calls_test

import (
	"testing"

	"palyra/internal/cli/clitest"
)

// TestGolden compares the output of every listing and page in every format.
func TestGolden(t *testing.T) {
	t.Parallel()
	clitest.Golden(t, map[string][]string{
		"tools_list": {"tools", "list"}, "tools_hidden": {"tools", "list", "--hidden"}, "tools_show_hidden": {"tools", "show", "http.fetch"}, "tools_show": {"tools", "show", "process.run"},
		"dry_run":    {"call", "process.run", "--dry-run"},
		"dry_secret": {"call", "lent", "--dry-run"},
		"calls_list": {"calls", "list"}, "calls_show": {"calls", "show", clitest.EndedCall}, "calls_cancel": {"calls", "cancel", clitest.WaitingCall, "--reason", "wrong branch"},
	})
}
