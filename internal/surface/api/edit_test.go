package api_test

import (
	"context"
	"strings"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/gateway/gatewaytest"
)

// TestEditApproval: a member that may decide a call may edit it first, must present the
// displayed digest, and may not decide it afterwards. Other members cannot edit it.
func TestEditApproval(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	carol := w.admit(access.User("carol"), access.Principal{}, access.RoleOperator)
	w.engine.Swap(w.policySet(w.registry.List()))
	var ran []string
	w.run.Work = func(_ context.Context, c tool.Call) tool.Report {
		ran = append(ran, string(c.Proposal.Input))
		return gatewaytest.Succeeded(`{"ok":true}`)
	}
	stream := must.Get(w.coder.gateway().CallTool(t.Context(), running()))(t)
	defer stream.Close()
	var asked *palyrav1.Approval
	for asked == nil && stream.Receive() {
		asked = stream.Msg().GetApprovalRequested().GetApproval()
	}
	edit := func(by *client, change func(*palyrav1.EditApprovalRequest)) (*palyrav1.Approval, error) {
		req := &palyrav1.EditApprovalRequest{
			ApprovalId: asked.GetApprovalId(), Version: asked.GetVersion(), ShownDigest: asked.GetCallDigest(), InputJson: []byte(`{"argv":["make","-n"]}`), Reason: "a dry run first",
		}
		change(req)
		res, err := by.approvals().EditApproval(t.Context(), req)
		return res.GetApproval(), err
	}
	asIs := func(*palyrav1.EditApprovalRequest) {}
	for name, c := range map[string]struct {
		by     *client
		change func(*palyrav1.EditApprovalRequest)
		code   reason.Code
	}{
		"without a digest":       {w.bob, func(r *palyrav1.EditApprovalRequest) { r.ShownDigest = "" }, reason.InvalidInput},
		"another digest":         {w.bob, func(r *palyrav1.EditApprovalRequest) { r.ShownDigest = "sha256:" + strings.Repeat("0", 64) }, reason.DigestMismatch},
		"without a version":      {w.bob, func(r *palyrav1.EditApprovalRequest) { r.Version = 0 }, reason.InvalidInput},
		"another version":        {w.bob, func(r *palyrav1.EditApprovalRequest) { r.Version++ }, reason.ApprovalConflict},
		"none such":              {w.bob, func(r *palyrav1.EditApprovalRequest) { r.ApprovalId = strings.Repeat("0", 26) }, reason.NotFound},
		"no JSON":                {w.bob, func(r *palyrav1.EditApprovalRequest) { r.InputJson = []byte(`{"argv":`) }, reason.InvalidInput},
		"not what the tool gets": {w.bob, func(r *palyrav1.EditApprovalRequest) { r.InputJson = []byte(`{"argv":["make"],"more":1}`) }, reason.InvalidInput},
		"nothing changed":        {w.bob, func(r *palyrav1.EditApprovalRequest) { r.InputJson = []byte(`{"argv": ["make"]}`) }, reason.InvalidInput},
		"too large":              {w.bob, func(r *palyrav1.EditApprovalRequest) { r.InputJson = make([]byte, 1<<20+1) }, reason.InvalidInput},
		"too long a reason":      {w.bob, func(r *palyrav1.EditApprovalRequest) { r.Reason = strings.Repeat("x", 1025) }, reason.InvalidInput},
		"as if on the console":   {w.bob, func(r *palyrav1.EditApprovalRequest) { r.Surface = "console" }, reason.InvalidInput},
		"as if in a chat":        {w.bob, func(r *palyrav1.EditApprovalRequest) { r.Surface = "slack" }, reason.InvalidInput},
		"by the agent":           {w.coder, asIs, reason.PermissionDenied},
		"by its owner":           {w.alice, asIs, reason.PermissionDenied},
		"by a developer":         {w.dan, asIs, reason.PermissionDenied},
		"by an auditor":          {w.eve, asIs, reason.PermissionDenied},
	} {
		_, err := edit(c.by, c.change)
		wantError(t, name, err, c.code)
	}
	if !w.audit.has(refusal{"user:dan", "/palyra.v1.ApprovalsService/EditApproval", reason.PermissionDenied}) {
		t.Errorf("the refused edit was not audited: %v", w.audit.refused)
	}
	got := must.Get(w.bob.approvals().GetApproval(t.Context(), &palyrav1.GetApprovalRequest{ApprovalId: asked.GetApprovalId()}))(t).GetApproval()
	if got.GetVersion() != asked.GetVersion() || got.GetCallDigest() != asked.GetCallDigest() || len(got.GetEdits()) != 0 || !got.GetYou().GetMayDecide() {
		t.Fatalf("what was refused changed it: %v", got)
	}

	after, err := edit(w.bob, func(r *palyrav1.EditApprovalRequest) { r.Surface = "tui" })
	must.Do(t, err)
	e, changed := after.GetEdits(), after.GetPrompt().GetChanged()
	if len(e) != 1 || e[0].GetUser() != "user:bob" || e[0].GetSurface() != "tui" || e[0].GetReason() != "a dry run first" || e[0].GetWasDigest() != asked.GetCallDigest() || e[0].GetIsDigest() != after.GetCallDigest() {
		t.Errorf("edited as %v", e)
	}
	if len(changed) != 1 || changed[0].GetField() != "/argv" || after.GetState() != palyrav1.ApprovalState_APPROVAL_STATE_PENDING || after.GetExpiresAt().AsTime() != asked.GetExpiresAt().AsTime() {
		t.Errorf("after the edit: %v", after)
	}
	if you := after.GetYou(); you.GetMayDecide() || !you.GetOwn() || you.GetReason() != string(reason.PermissionDenied) {
		t.Errorf("the editor stands as %v", you)
	}
	vote := func(by *client, digest string) error {
		_, err := by.approvals().DecideApproval(t.Context(), &palyrav1.DecideApprovalRequest{ApprovalId: asked.GetApprovalId(), Allow: true, ShownDigest: digest})
		return err
	}
	wantError(t, "the editor's yes", vote(w.bob, after.GetCallDigest()), reason.PermissionDenied)
	wantError(t, "a yes to what was proposed", vote(carol, asked.GetCallDigest()), reason.DigestMismatch)
	if len(ran) != 0 {
		t.Fatalf("it ran with %v", ran)
	}
	must.Do(t, vote(carol, after.GetCallDigest()))
	var told *palyrav1.ExecutedAsEdited
	for first := true; stream.Receive(); {
		if r := stream.Msg().GetResult(); r != nil && first {
			told, first = r.GetExecutedAsEdited(), false
		}
	}
	if len(ran) != 1 || ran[0] != `{"argv":["make","-n"]}` {
		t.Errorf("it ran with %v", ran)
	}
	if told.GetApprovalId() != asked.GetApprovalId() || len(told.GetBy()) != 1 || told.GetBy()[0] != "user:bob" || told.GetReason() != "a dry run first" ||
		told.GetProposedCallDigest() != "" || len(told.GetChanges()) != 1 || told.GetChanges()[0].GetWas() != `["make"]` || told.GetChanges()[0].GetIs() != `["make","-n"]` {
		t.Errorf("the requester is told %v", told)
	}
	_, err = edit(carol, asIs)
	wantError(t, "after it was decided", err, reason.ApprovalConflict)
}
