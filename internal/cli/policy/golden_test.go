package policy_test

import (
	"strings"
	"testing"

	"palyra/internal/cli/clitest"
)

// TestGolden compares the output of every listing and page in every format.
func TestGolden(t *testing.T) {
	t.Parallel()
	clitest.Golden(t, map[string][]string{
		"policy_show": {"policy", "show"}, "policy_file": {"policy", "show", "defaults/10.cedar"},
		"policy_snapshot": {"policy", "snapshot", "sha256:" + strings.Repeat("c", 64)}, "policy_check": {"policy", "check", "testdata/one.cedar"},
		"policy_explain": {"policy", "explain", "01DECSN0000000000000000000"}, "policy_simulate": {"policy", "simulate", "process.run"},
		"policy_test": {"policy", "test", "testdata/one.test.yaml"}, "policy_versions": {"policy", "versions"},
		"policy_activate": {"policy", "activate", strings.Repeat("b", 12)}, "policy_diff": {"policy", "diff", "sha256:11111111", "sha256:22222222"},
		"policy_old": {"policy", "show", "sha256:11111111"}, "policy_old_file": {"policy", "show", "sha256:11111111", "20-team.cedar"},
	})
}
