package things_test

import (
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/clitest"
)

// TestGoldenNotices compares the output of every listing and page in every format.
func TestGoldenNotices(t *testing.T) {
	t.Parallel()
	clitest.Golden(t, map[string][]string{
		"notify_list": {"notify", "list"}, "notify_deliveries": {"notify", "deliveries"}, "notify_test": {"notify", "test", "ops"},
		"notify_slack_list": {"notify", "slack", "list"}, "notify_slack_map": {"notify", "slack", "map", "T012AB3CD/U012AB3CD", "user:ada"},
		"notify_slack_consent": {"notify", "slack", "consent", "T012AB3CD/U012AB3CD"},
		"notify_slack_unmap":   {"notify", "slack", "unmap", "T012AB3CD/U012AB3CD"},
	})
}

func TestNotices(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Cases("notify", clitest.Cases{
		{"a test that fails says of what", []string{"test", "team"}, 6, "channel_not_found"},
		{"a target that is none", []string{"test", "x"}, 1, "no notification target"},
		{"names of Slack are no ids", []string{"slack", "map", "team/ada", "user:ada"}, 2, "by their ids"},
	})
	w.Want(w.Run("notify", "slack", "consent", "T012AB3CD/U012AB3CD", "--withdraw"), 0)
	if got := clitest.Requests[*palyrav1.ConsentToChatUserRequest](w); len(got) != 1 || !got[0].GetWithdraw() || got[0].GetTeam() != "T012AB3CD" {
		t.Errorf("consents: %v", got)
	}
	if len(clitest.Requests[*palyrav1.MapChatUserRequest](w)) != 0 {
		t.Errorf("mapped: %v", clitest.Requests[*palyrav1.MapChatUserRequest](w))
	}
	for _, member := range []string{"ada", "user:ada"} {
		w.Want(w.Run("notify", "slack", "map", "T012AB3CD/U012AB3CD", member), 0)
	}
	for _, got := range clitest.Requests[*palyrav1.MapChatUserRequest](w) {
		if got.GetMember() != "user:ada" {
			t.Errorf("mapped to %s", got.GetMember())
		}
	}
}
