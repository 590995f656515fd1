package hook_test

import (
	"strings"
	"testing"

	"palyra/internal/core/reason"
)

// The generic hook can send a requester's reason. Claude Code's hook cannot, and gets the
// alternative in its denial. Without a reason no approval is requested.
func TestReasonByHook(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `@id("why") @ask_reason("Which ticket?") forbid(principal, action in Action::"tool.execute", resource)
when { context has external && context.external.act == "shell" } unless { context.approval.granted };`)
	stop := w.people(yes)
	shell := func(id, why string) answer {
		return w.send(t.Context(), "generic", `{"event":"before","session":"s","call":"`+id+`","tool":"shell","input":{"command":"make"},"cwd":"`+w.ws+`"`+why+`}`)
	}
	if a := shell("c1", ""); a.decision != "deny" || !a.says(reason.RequestReasonNeeded) || !strings.Contains(a.body, "Which ticket?") || !strings.Contains(a.body, "requester_reason") {
		t.Errorf("without a reason: %+v", a)
	}
	if a := w.before("t1", "Bash", args{"command": "make"}); a.decision != "deny" || !a.says(reason.RequestReasonNeeded) || !strings.Contains(a.body, "palyra call --reason") {
		t.Errorf("Claude Code: %+v", a)
	}
	if a := shell("c2", `,"requester_reason":"OPS-1"`); a.decision != "allow" {
		t.Errorf("with a reason: %+v", a)
	}
	if asked := stop(); len(asked) != 1 || asked[0].Prompt.RequesterReason != "OPS-1" {
		t.Errorf("people were asked %+v", asked)
	}
}
