package policy_test

import (
	"strings"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/clitest"
)

// TestWhy: any id of a call finds its explanation.
func TestWhy(t *testing.T) {
	t.Parallel()
	const decision = "01DEC1S10N0000000000000000"
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"an id of the gateway":  {[]string{strings.ToLower(decision)}, 0, decision},
		"a model's id":          {[]string{"toolu_A20"}, 0, clitest.WaitingCall},
		"a model's id in a run": {[]string{"toolu_A10", "--run", clitest.RunID}, 0, clitest.EndedCall},
		"in another run":        {[]string{"toolu_A10", "--run", "other"}, 1, ""},
		"a decision in a run":   {[]string{decision, "--run", clitest.RunID}, 1, ""},
		"an unknown id":         {[]string{"toolu_none"}, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := clitest.NewWorld(t)
			w.Populate()
			r := w.Run(append([]string{"approvals", "why"}, c.args...)...)
			w.Want(r, c.code)
			asked := clitest.Requests[*palyrav1.ExplainPolicyRequest](w)
			if c.want == "" {
				if len(asked) != 0 || !strings.Contains(r.Err, "palyra calls list -o wide") {
					t.Errorf("asked %v and says:\n%s", asked, r.Err)
				}
				return
			}
			if len(asked) != 1 {
				t.Fatalf("asked %v:\n%s", asked, r.Err)
			}
			if asked[0].GetDecisionId() != c.want {
				t.Errorf("asked about %v, want %s", asked[0], c.want)
			}
			if !strings.Contains(r.Out, "team.no-curl") {
				t.Errorf("prints:\n%s", r.Out)
			}
		})
	}
}
