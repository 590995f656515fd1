package authzen_test

import (
	"strings"
	"testing"

	"palyra/internal/core/reason"
)

// An access request has the requester's reason in its context. Without a required reason, no
// approval is requested.
func TestRequesterReason(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `@id("why") @ask_reason("Which ticket?") forbid(principal, action == Action::"tool.execute/process.run", resource) unless { context.approval.granted };`)
	e := about("agent:coder", "process.run", running)
	_, _, text := w.ask("POST", "/access/v1/requests", w.denied(e))
	if !strings.Contains(text, string(reason.RequestReasonNeeded)) && !strings.Contains(text, "Which ticket?") {
		t.Errorf("without a reason: %s", text)
	}
	e["context"].(object)["requester_reason"] = "OPS-1"
	if _, rec := w.asked(e); rec.Prompt.RequesterReason != "OPS-1" {
		t.Errorf("people are asked %+v", rec.Prompt)
	}
}
