package hook_test

import (
	"encoding/json"
	"strings"
	"testing"

	"palyra/internal/call"
	"palyra/internal/call/approval"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/gateway/gatewaytest"
)

// edits returns an approver who edits the pending call and then approves it. says receives the
// error of the edit.
func (w *world) edits(command string, says *error) func(*approval.Record) approval.Ballot {
	return func(r *approval.Record) approval.Ballot {
		for {
			_, *says = w.Pipeline.Edit(w.t.Context(), gatewaytest.Person(policytest.Alice, access.RoleOwner), call.Change{
				ApprovalID: r.ID, Version: r.Version, ShownDigest: r.CallDigest, Input: must.Get(json.Marshal(map[string]string{"command": command}))(w.t),
			})
			if *says == nil || !strings.Contains((*says).Error(), "no call waits on this approval") { // otherwise the call is not waiting yet
				return approval.Ballot{Allow: true}
			}
		}
	}
}

// Claude Code gets the edited input with the permission and runs it. The gateway compares its
// report with the edited input.
func TestEditedInput(t *testing.T) {
	t.Parallel()
	for ran, state := range map[string]tool.ClaimState{"make -n": tool.Reported, "make": tool.RanOther} {
		w := newWorld(t, "")
		var err error
		stop := w.people(w.edits("make -n", &err))
		a := w.before("t1", "Bash", args{"command": "make"})
		stop()
		var told struct {
			Output struct {
				Decision string          `json:"permissionDecision"`
				Input    json.RawMessage `json:"updatedInput"`
				Context  string          `json:"additionalContext"`
			} `json:"hookSpecificOutput"`
		}
		must.Do(t, json.Unmarshal([]byte(a.body), &told))
		if o := told.Output; err != nil || o.Decision != "allow" || string(o.Input) != `{"command":"make -n"}` || !strings.Contains(o.Context, "executed_as_edited: user:alice") {
			t.Fatalf("told %s, %v", a.body, err)
		}
		w.after("t1", "Bash", args{"command": ran})
		if claim := w.report(1).Report.Claim; claim.State != state {
			t.Errorf("%s: %+v", ran, claim)
		}
	}
}

// A call whose hook cannot replace the input is not edited, and runs as it was requested.
func TestCodexIsNotEdited(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	var err error
	stop := w.people(w.edits("make -n", &err))
	a := w.send(t.Context(), "codex", w.codex("c1", "Bash", args{"command": "make"}))
	stop()
	if reason.Of(err) != reason.InvalidInput || !strings.Contains(err.Error(), "cannot replace the input") {
		t.Errorf("the edit: %v", err)
	}
	if a.decision != "allow" || a.body != "" || len(w.events(event.Edited)) != 0 {
		t.Errorf("told %+v", a)
	}
}
