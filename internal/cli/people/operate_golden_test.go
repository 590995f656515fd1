package people_test

import (
	"testing"

	"palyra/internal/cli/clitest"
)

// TestGoldenOperate compares the output of every listing and page in every format.
func TestGoldenOperate(t *testing.T) {
	t.Parallel()
	clitest.Golden(t, map[string][]string{
		"devices_list": {"devices", "list"}, "devices_show": {"devices", "show", "01DEVICE000000000000000000"}, "devices_revoke": {"devices", "revoke", "01DEVICE000000000000000000", "--yes"}, "devices_rename": {"devices", "rename", "01DEVICE000000000000000000", "old laptop"}, "members_list": {"members", "list"},
		"members_show": {"members", "show", "ada"}, "members_roles": {"members", "roles", "ada", "--add", "auditor", "--remove", "security"},
		"members_owner": {"members", "owner", "claude", "ada"}, "members_disable": {"members", "disable", "claude", "--reason", "on leave"},
		"members_enable": {"members", "enable", "claude"}, "members_remove": {"members", "remove", "claude", "--yes"}, "status": {"status"},
		"members_confirm": {"members", "confirm", "claude"}, "members_consent": {"members", "consent", "claude", "--withdraw"}, "freeze": {"freeze", "--reason", "fire"}, "thaw": {"thaw"},
	})
}
