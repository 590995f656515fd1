package api_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/canonical"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/attest"
	"palyra/internal/gateway/gatewaytest"
)

// names returns the kinds of the messages of a call.
func names(list []*palyrav1.CallToolResponse) []string {
	var out []string
	for _, m := range list {
		name := fmt.Sprintf("%T", m.GetEvent())
		out = append(out, name[strings.LastIndexByte(name, '_')+1:])
	}
	return out
}

func decisionOf(list []*palyrav1.CallToolResponse) *palyrav1.ToolDecision {
	for _, m := range list {
		if d := m.GetDecision(); d != nil {
			return d
		}
	}
	return nil
}

func TestCallOverEveryProtocol(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.read.Work = func(_ context.Context, c tool.Call) tool.Report {
		c.Output("stdout", []byte("working"))
		return gatewaytest.Succeeded(`{"ok":true}`)
	}
	for protocol, opts := range protocols {
		list, err := w.coder.call(reading(), opts...)
		if err != nil {
			t.Errorf("%s: %v", protocol, err)
			continue
		}
		if got := names(list); !slices.Equal(got, []string{"Proposed", "Decision", "Output", "Result", "Attestation"}) {
			t.Errorf("%s: %v", protocol, got)
		}
		for i, m := range list {
			if m.GetSequence() != int64(i+1) {
				t.Errorf("%s: message %d has sequence %d", protocol, i, m.GetSequence())
			}
		}
		checkResult(t, w, list, []byte(`{"ok":true}`))
	}
	if int(w.read.Runs.Load()) != len(protocols) {
		t.Errorf("the tool ran %d times", w.read.Runs.Load())
	}
}

// checkResult joins the parts of the result and compares the result with the attestation.
func checkResult(t *testing.T, w *world, list []*palyrav1.CallToolResponse, want []byte) {
	t.Helper()
	var result []byte
	var digest string
	var more []bool
	for _, m := range list {
		r := m.GetResult()
		if r == nil {
			continue
		}
		if len(r.GetResultJson()) > 1<<20 {
			t.Errorf("a part has %d bytes", len(r.GetResultJson()))
		}
		result = append(result, r.GetResultJson()...)
		more = append(more, r.GetMore())
		if r.GetMore() != (r.GetExecutionDigest() == "") {
			t.Errorf("more %v with digest %q", r.GetMore(), r.GetExecutionDigest())
		}
		digest = r.GetExecutionDigest()
	}
	if !bytes.Equal(result, want) || digest != canonical.Digest(want) {
		t.Errorf("the result has %d bytes and digest %s, want %d and %s", len(result), digest, len(want), canonical.Digest(want))
	}
	if n := slices.Index(more, false); n != len(more)-1 {
		t.Errorf("more: %v", more)
	}
	verified := must.Get(attest.Verify(list[len(list)-1].GetAttestation().GetEnvelopeJson(), w.notary.KeySet()))(t)
	if got := "sha256:" + verified.Statement.Predicate.ExecutionSHA256; got != digest {
		t.Errorf("attested %s, received %s", got, digest)
	}
}

func TestLargeResultsComeInParts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, size := range []int{1 << 20, 1<<20 + 1, 5<<20 + 17} {
		want := []byte(`"` + strings.Repeat("r", size-2) + `"`)
		w.read.Work = func(context.Context, tool.Call) tool.Report { return gatewaytest.Succeeded(string(want)) }
		list := must.Get(w.coder.call(reading(), connect.WithGRPC()))(t)
		parts := (size + 1<<20 - 1) >> 20
		if got := len(list); got != parts+3 {
			t.Errorf("%d bytes came in %d messages", size, got)
		}
		checkResult(t, w, list, want)
	}
}

func TestCallWithoutAResult(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.read.Work = func(context.Context, tool.Call) tool.Report {
		r := gatewaytest.Succeeded("")
		r.Outcome, r.Reason, r.Message, r.Result = tool.Failed, string(reason.ToolFailed), "it broke", nil
		return r
	}
	list := must.Get(w.coder.call(reading()))(t)
	r := list[2].GetResult()
	if r.GetOutcome() != "failed" || r.GetReason() != string(reason.ToolFailed) || r.GetMessage() != "it broke" || r.GetMore() {
		t.Errorf("got %v", r)
	}
}

// An operator lists, gets and decides the pending approval of a call, and the call continues.
func TestApprovalOverTheAPI(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for protocol, opts := range protocols {
		t.Run(protocol, func(t *testing.T) {
			ran := w.run.Runs.Load()
			stream := must.Get(w.coder.gateway(opts...).CallTool(t.Context(), running()))(t)
			defer stream.Close()
			id := ""
			for id == "" && stream.Receive() {
				id = stream.Msg().GetApprovalRequested().GetApproval().GetApprovalId()
			}
			page, err := w.bob.approvals(opts...).ListApprovals(t.Context(), &palyrav1.ListApprovalsRequest{
				States: []palyrav1.ApprovalState{palyrav1.ApprovalState_APPROVAL_STATE_PENDING},
			})
			if err != nil || len(page.GetApprovals()) != 1 || page.GetApprovals()[0].GetApprovalId() != id {
				t.Fatalf("listed %v, %v", page, err)
			}
			got := must.Get(w.bob.approvals(opts...).GetApproval(t.Context(), &palyrav1.GetApprovalRequest{ApprovalId: id}))(t)
			if w.run.Runs.Load() != ran {
				t.Error("the tool ran before the answer")
			}
			res, err := w.bob.approvals(opts...).DecideApproval(t.Context(), &palyrav1.DecideApprovalRequest{
				ApprovalId: id, Allow: true, ShownDigest: got.GetApproval().GetCallDigest(), Surface: "cli",
			})
			if err != nil || res.GetApproval().GetVotes()[0].GetSurface() != "cli" || res.GetApproval().GetVotes()[0].GetUser() != "user:bob" {
				t.Fatalf("decided %v, %v", res, err)
			}
			var rest []*palyrav1.CallToolResponse
			for stream.Receive() {
				rest = append(rest, stream.Msg())
			}
			if got := names(rest); !slices.Equal(got, []string{"ApprovalResolved", "Decision", "Result", "Attestation"}) || stream.Err() != nil {
				t.Errorf("then %v, %v", got, stream.Err())
			}
			if d := decisionOf(rest); !d.GetAllowed() || d.GetApprovalId() != id || w.run.Runs.Load() != ran+1 {
				t.Errorf("decision %v, %d runs", d, w.run.Runs.Load()-ran)
			}
		})
	}
}

func TestVotesThatAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stream := must.Get(w.coder.gateway().CallTool(t.Context(), running()))(t)
	defer stream.Close()
	var asked *palyrav1.Approval
	for asked == nil && stream.Receive() {
		asked = stream.Msg().GetApprovalRequested().GetApproval()
	}
	id, digest := asked.GetApprovalId(), asked.GetCallDigest()
	vote := func(c *client, change func(*palyrav1.DecideApprovalRequest)) error {
		req := &palyrav1.DecideApprovalRequest{ApprovalId: id, Allow: true, ShownDigest: digest}
		change(req)
		_, err := c.approvals().DecideApproval(t.Context(), req)
		return err
	}
	asIs := func(*palyrav1.DecideApprovalRequest) {}
	for name, c := range map[string]struct {
		by     *client
		change func(*palyrav1.DecideApprovalRequest)
		code   reason.Code
	}{
		"no digest":            {w.bob, func(r *palyrav1.DecideApprovalRequest) { r.ShownDigest = "" }, reason.InvalidInput},
		"another digest":       {w.bob, func(r *palyrav1.DecideApprovalRequest) { r.ShownDigest = "sha256:" + strings.Repeat("0", 64) }, reason.DigestMismatch},
		"a no without why":     {w.bob, func(r *palyrav1.DecideApprovalRequest) { r.Allow = false }, reason.InvalidInput},
		"as if on the console": {w.bob, func(r *palyrav1.DecideApprovalRequest) { r.Surface = "console" }, reason.InvalidInput},
		"by the agent":         {w.coder, asIs, reason.PermissionDenied},
		"by its owner":         {w.alice, asIs, reason.PermissionDenied},
		"by a developer":       {w.dan, asIs, reason.PermissionDenied},
		"for a whole tool, without the permission": {w.bob, func(r *palyrav1.DecideApprovalRequest) {
			r.Scope, r.Match = palyrav1.ApprovalScope_APPROVAL_SCOPE_SESSION, palyrav1.GrantMatch_GRANT_MATCH_TOOL
		}, reason.PermissionDenied},
	} {
		wantError(t, name, vote(c.by, c.change), c.code)
	}
	if w.run.Runs.Load() != 0 {
		t.Error("the tool ran")
	}
	got, err := w.bob.approvals().GetApproval(t.Context(), &palyrav1.GetApprovalRequest{ApprovalId: id})
	if err != nil || got.GetApproval().GetState() != palyrav1.ApprovalState_APPROVAL_STATE_PENDING || len(got.GetApproval().GetVotes()) != 0 {
		t.Errorf("the approval is %v, %v", got.GetApproval(), err)
	}
	if err := vote(w.bob, asIs); err != nil {
		t.Errorf("the control: %v", err)
	}
}

// A vote has the surface that it names; the default is grpc.
func TestSurfaceOfAVote(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for surface, want := range map[string]string{"": "grpc", "grpc": "grpc", "cli": "cli", "tui": "tui"} {
		stream := must.Get(w.coder.gateway().CallTool(t.Context(), running()))(t)
		var asked *palyrav1.Approval
		for asked == nil && stream.Receive() {
			asked = stream.Msg().GetApprovalRequested().GetApproval()
		}
		res, err := w.bob.approvals().DecideApproval(t.Context(), &palyrav1.DecideApprovalRequest{
			ApprovalId: asked.GetApprovalId(), Allow: true, ShownDigest: asked.GetCallDigest(), Surface: surface,
		})
		if err != nil || res.GetApproval().GetVotes()[0].GetSurface() != want {
			t.Errorf("%q became %v, %v", surface, res.GetApproval().GetVotes(), err)
		}
		for stream.Receive() {
		}
		_ = stream.Close()
	}
}

// TestRulesNeedPolicyRead: only callers that may read policies receive rule text. An agent receives
// the reason and the remedy, in the stream and in the dry run.
func TestRulesNeedPolicyRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world) {
		w.policies = `@id("acme-merger") @reason("quiet period of the Acme merger") @remedy("Wait until Monday.")
forbid(principal, action == Action::"tool.execute/fs.read", resource);`
	})
	for name, c := range map[string]struct {
		by   *client
		sees bool
	}{"agent": {w.coder, false}, "developer": {w.dan, true}} {
		list := must.Get(c.by.call(reading()))(t)
		d := decisionOf(list)
		if d.GetAllowed() || d.GetReason() != string(reason.PolicyDenied) || d.GetRemedy() != "Wait until Monday." || d.GetMessage() == "" {
			t.Errorf("%s: decision %v", name, d)
		}
		e, err := c.by.gateway().EvaluateTool(t.Context(), &palyrav1.EvaluateToolRequest{Tool: "fs.read", InputJson: reading().GetInputJson()})
		if err != nil || e.GetVerdict() != "deny" || e.GetReason() != string(reason.PolicyDenied) {
			t.Errorf("%s: dry run %v, %v", name, e, err)
		}
		for where, text := range map[string]string{"stream": fmt.Sprint(list), "dry run": fmt.Sprint(e)} {
			for _, secret := range []string{"acme-merger", "quiet period", "secret-rules.cedar"} {
				if strings.Contains(text, secret) != c.sees {
					t.Errorf("%s sees %q in the %s: %v", name, secret, where, !c.sees)
				}
			}
		}
	}
	if w.read.Runs.Load() != 0 {
		t.Error("the tool ran")
	}
}

// TestAskReasonNeedsPolicyRead: the same applies to the reason of an approval request.
func TestAskReasonNeedsPolicyRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, c := range map[string]struct {
		by   *client
		sees bool
	}{"agent": {w.coder, false}, "developer": {w.dan, true}} {
		stream := must.Get(c.by.gateway().CallTool(t.Context(), running()))(t)
		var asked *palyrav1.Approval
		for asked == nil && stream.Receive() {
			asked = stream.Msg().GetApprovalRequested().GetApproval()
		}
		if got := len(asked.GetPrompt().GetWhy()) > 0; got != c.sees {
			t.Errorf("%s sees why: %v", name, asked.GetPrompt().GetWhy())
		}
		got, err := w.bob.approvals().GetApproval(t.Context(), &palyrav1.GetApprovalRequest{ApprovalId: asked.GetApprovalId()})
		if err != nil || len(got.GetApproval().GetPrompt().GetWhy()) == 0 {
			t.Errorf("the approver does not see why: %v, %v", got.GetApproval().GetPrompt(), err)
		}
		_ = stream.Close()
	}
}

func TestRefusedCallHasItsReason(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, c := range map[string]struct {
		tool, input string
		code        reason.Code
	}{
		"unknown tool":  {"fs.raed", `{}`, reason.UnknownTool},
		"unknown field": {"fs.read", `{"path":"a","x":1}`, reason.InvalidInput},
		"duplicate key": {"fs.read", `{"path":"a","path":"b"}`, reason.DuplicateKey},
		"number":        {"fs.read", `{"path":"a","limit":9007199254740993}`, reason.NumberNotExact},
	} {
		_, err := w.coder.call(&palyrav1.CallToolRequest{Tool: c.tool, InputJson: []byte(c.input)})
		info := wantError(t, name, err, c.code)
		if c.code == reason.UnknownTool && !strings.Contains(info.GetMetadata()["remedy"], "fs.read") {
			t.Errorf("%s: remedy %q", name, info.GetMetadata()["remedy"])
		}
	}
}

func TestListToolsShowsWhatPolicyCouldAllow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world) {
		w.policies = `@id("no-programs") forbid(principal is Agent, action == Action::"tool.execute/process.run", resource);`
	})
	for name, c := range map[string]struct {
		by   *client
		want string
	}{"agent": {w.coder, "fs.read:false"}, "developer": {w.dan, "fs.read:false process.run:true"}} {
		res, err := c.by.gateway().ListTools(t.Context(), &palyrav1.ListToolsRequest{})
		var list []string
		for _, tl := range res.GetTools() {
			list = append(list, fmt.Sprintf("%s:%v", tl.GetName(), tl.GetMayAsk()))
		}
		if got := strings.Join(list, " "); err != nil || got != c.want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, c.want)
		}
	}
}

// TestListToolsExplainsHiddenTools: callers that may explain policies get a tool that no call
// can use, with the reason. Other callers do not get the tool.
func TestListToolsExplainsHiddenTools(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world) {
		w.policies = `@id("no-programs") @reason("programs run elsewhere") @remedy("Use the pipeline.")
forbid(principal, action == Action::"tool.execute/process.run", resource);`
	})
	list := func(c *client) *palyrav1.ListToolsResponse {
		return must.Get(c.gateway().ListTools(t.Context(), &palyrav1.ListToolsRequest{}))(t)
	}
	hidden := list(w.dan).GetHidden()
	if len(hidden) != 1 || hidden[0].GetTool().GetName() != "process.run" || len(hidden[0].GetTool().GetInputSchemaJson()) == 0 ||
		hidden[0].GetReason() != string(reason.PolicyDenied) || hidden[0].GetMessage() != "programs run elsewhere" || hidden[0].GetRemedy() != "Use the pipeline." ||
		len(hidden[0].GetDetermining()) != 1 || hidden[0].GetDetermining()[0].GetPolicyId() != "no-programs" {
		t.Errorf("a developer is told %v", hidden)
	}
	// Control: an agent does not get the tool.
	if text := list(w.coder).String(); strings.Contains(text, "process.run") {
		t.Errorf("an agent is told %s", text)
	}
	w.router.Suspend(map[string]*reason.Error{"fs.read": reason.Errorf(reason.ToolSuspended, "its definition changed")})
	hidden = list(w.dan).GetHidden()
	if len(hidden) != 2 || hidden[0].GetReason() != string(reason.ToolSuspended) || hidden[0].GetMessage() != "its definition changed" || hidden[0].GetRemedy() == "" {
		t.Errorf("of a suspended tool a developer is told %v", hidden)
	}
	if text := list(w.coder).String(); strings.Contains(text, "fs.read") {
		t.Errorf("an agent is told of a suspended tool that it may ask for: %s", text)
	}
}

// TestEndSessionNeedsItsOwner: only the device that started a session can end it, because a
// session's name belongs to the device.
func TestEndSessionNeedsItsOwner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stream := must.Get(w.coder.gateway().CallTool(t.Context(), &palyrav1.CallToolRequest{Tool: "process.run", InputJson: running().GetInputJson(), Session: "s"}))(t)
	defer stream.Close()
	for stream.Receive() {
		if stream.Msg().GetApprovalRequested() != nil {
			break
		}
	}
	end := func(c *client) {
		must.Get(c.gateway().EndSession(t.Context(), &palyrav1.EndSessionRequest{Session: "s"}))(t)
	}
	end(w.dan)
	pending, err := w.bob.approvals().ListApprovals(t.Context(), &palyrav1.ListApprovalsRequest{
		States: []palyrav1.ApprovalState{palyrav1.ApprovalState_APPROVAL_STATE_PENDING},
	})
	if err != nil || len(pending.GetApprovals()) != 1 {
		t.Fatalf("another's session of the name ended it: %v, %v", pending, err)
	}
	end(w.coder)
	var rest []*palyrav1.CallToolResponse
	for stream.Receive() {
		rest = append(rest, stream.Msg())
	}
	if d := decisionOf(rest); d.GetAllowed() || d.GetReason() != string(reason.ApprovalCancelled) {
		t.Errorf("decision %v", d)
	}
}
