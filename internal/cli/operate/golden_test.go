package operate_test

import (
	"testing"

	"palyra/internal/cli/clitest"
)

// TestGolden compares every listing and page in every format.
func TestGolden(t *testing.T) {
	clitest.Golden(t, map[string][]string{
		"devices_list": {"devices", "list"}, "members_list": {"members", "list"}, "status": {"status"},
		"freeze": {"freeze", "--reason", "fire"}, "thaw": {"thaw"},
	})
}
