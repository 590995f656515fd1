package people_test

import (
	"strings"
	"testing"

	"palyra/internal/cli/clitest"
)

// TestGoldenReviews compares the output of every listing and page in every format.
func TestGoldenReviews(t *testing.T) {
	t.Parallel()
	clitest.Golden(t, map[string][]string{
		"roles": {"roles"}, "access_ceilings": {"access", "ceilings"}, "access_forbid": {"access", "forbid", "agent:claude", "--reason", "under review"}, "access_explain": {"access", "explain", "claude", "approval.decide"},
		"access_explain_allowed": {"access", "explain", "ada", "DecideApproval"}, "access_show": {"access", "show", "agent:claude"},
	})
}

func TestNobodyOfThatName(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	for _, args := range [][]string{{"access", "show", "zoe"}, {"access", "explain", "zoe", "tool.call"}} {
		if r := w.Run(args...); r.Code != 1 || !strings.Contains(r.Err, "the member zoe does not exist") {
			t.Errorf("%v: exit %d, %s", args, r.Code, r.Err)
		}
	}
	if r := w.Run("access", "explain", "zoe"); r.Code != 2 {
		t.Errorf("without a method: exit %d, %s", r.Code, r.Err)
	}
}
