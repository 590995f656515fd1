package api_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/call/record"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/rpc"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/journal"
	"palyra/internal/gateway/gatewaytest"
)

func (c *client) cancelCall(id, why string) (*palyrav1.Call, error) {
	res, err := c.gateway().CancelCall(c.w.t.Context(), &palyrav1.CancelCallRequest{ProposalId: id, Reason: why})
	return res.GetCall(), err
}

func (c *client) getCall(id string) (*palyrav1.GetCallResponse, error) {
	return c.gateway().GetCall(c.w.t.Context(), &palyrav1.GetCallRequest{ProposalId: id})
}

// listedCalls returns the ids of the calls in a caller's list.
func (c *client) listedCalls(req *palyrav1.ListCallsRequest) []string {
	c.w.t.Helper()
	ids := []string{}
	for _, one := range must.Get(c.gateway().ListCalls(c.w.t.Context(), req))(c.w.t).GetCalls() {
		ids = append(ids, one.GetProposalId())
	}
	return ids
}

// stuck makes a tool run until its call is cancelled. The channel receives a value when a run
// starts.
func stuck(p *gatewaytest.Probe) <-chan struct{} {
	began := make(chan struct{}, 1)
	p.Change(func(p *gatewaytest.Probe) {
		p.Work = func(ctx context.Context, _ tool.Call) tool.Report {
			began <- struct{}{}
			<-ctx.Done()
			report := gatewaytest.Succeeded(``)
			report.Outcome, report.Reason, report.Result = tool.Stopped, string(reason.Cancelled), nil
			return report
		}
	})
	return began
}

// first starts a call and returns its stream and the id of its proposal. The call continues.
func (c *client) first(req *palyrav1.CallToolRequest) (*rpc.ServerStream[*palyrav1.CallToolResponse], string) {
	t := c.w.t
	t.Helper()
	stream := must.Get(c.gateway().CallTool(t.Context(), req))(t)
	t.Cleanup(func() { _ = stream.Close() })
	if !stream.Receive() {
		t.Fatalf("nothing was proposed: %v", stream.Err())
	}
	return stream, stream.Msg().GetProposed().GetProposalId()
}

// wantHidden checks that a call does not exist for a caller without permission.
func wantHidden(t *testing.T, who *client, id string) {
	t.Helper()
	_, err := who.getCall(id)
	wantError(t, "another's call", err, reason.NotFound)
	_, err = who.cancelCall(id, "")
	info := wantError(t, "another's call", err, reason.NotFound)
	_, err = who.cancelCall("01ARZ3NDEKTSV4RRFFQ69G5FAV", "")
	if unknown := wantError(t, "an unknown call", err, reason.NotFound); info.GetMetadata()["remedy"] != unknown.GetMetadata()["remedy"] {
		t.Errorf("%v tells more than %v", info, unknown)
	}
	if got := who.listedCalls(&palyrav1.ListCallsRequest{}); len(got) != 0 {
		t.Errorf("they are listed %v", got)
	}
}

// TestCancelRunningCall: the user of an agent cancels its call. The tool stops, and the outcome
// names the user. A second cancel or a retry does not change the outcome.
func TestCancelRunningCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	began := stuck(w.read)
	req := reading()
	req.IdempotencyKey = "once"
	stream, id := w.coder.first(req)
	<-began
	wantHidden(t, w.dan, id)
	_, err := w.eve.cancelCall(id, "")
	wantError(t, "an auditor", err, reason.PermissionDenied)
	// Control: a read by a permitted caller changes nothing.
	for name, who := range map[string]*client{"its principal": w.coder, "its user": w.alice, "an auditor": w.eve} {
		got := must.Get(who.getCall(id))(t).GetCall()
		if got.GetState() != palyrav1.CallState_CALL_STATE_RUNNING || got.GetOutcome() != "" || string(got.GetArgumentsJson()) != `{"path":"a"}` {
			t.Errorf("%s sees %v", name, got)
		}
		if got := who.listedCalls(&palyrav1.ListCallsRequest{Open: true}); !slices.Equal(got, []string{id}) {
			t.Errorf("%s is listed %v", name, got)
		}
	}
	const said = "user:alice cancelled the call: wrong branch"
	for range 2 {
		got := must.Get(w.alice.cancelCall(id, "wrong branch"))(t)
		if got.GetState() != palyrav1.CallState_CALL_STATE_ENDED || got.GetOutcome() != "cancelled" || got.GetReason() != string(reason.Cancelled) || got.GetMessage() != said {
			t.Fatalf("cancelled: %v", got)
		}
	}
	var result *palyrav1.ToolResult
	for stream.Receive() {
		if r := stream.Msg().GetResult(); r != nil {
			result = r
		}
	}
	if result.GetOutcome() != "cancelled" || result.GetMessage() != said {
		t.Errorf("the client got %v, %v", result, stream.Err())
	}
	events := must.Get(w.db.Events(t.Context(), journal.Filter{Subject: id, Code: string(event.Attested)}))(t)
	var attested record.Attested
	if len(events) != 1 {
		t.Fatalf("the call has %d ends", len(events))
	}
	must.Do(t, json.Unmarshal(events[0].Payload, &attested))
	if attested.Report.Message != said {
		t.Errorf("journaled: %s", attested.Report.Message)
	}
	// The final event of the call has the reason; a cancellation has no event of its own
	// (RATIONALE.md).
	for _, e := range must.Get(w.db.Events(t.Context(), journal.Filter{Subject: id}))(t) {
		if e.Code != event.Attested && strings.Contains(string(e.Payload), "cancel") {
			t.Errorf("%s says that the call was cancelled: %s", e.Code, e.Payload)
		}
	}
	if _, err := w.coder.call(req); err != nil {
		t.Errorf("a retry: %v", err)
	}
	w.read.Ran(t, 1)
	if got := w.coder.listedCalls(&palyrav1.ListCallsRequest{Open: true}); len(got) != 0 {
		t.Errorf("open: %v", got)
	}
}

// TestCancelWaitingCall: an operator cancels a call that waits for an approval. The approval is
// then no longer pending, and the call does not run.
func TestCancelWaitingCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stream, approvalID := w.asking(w.coder)
	open := must.Get(w.coder.gateway().ListCalls(t.Context(), &palyrav1.ListCallsRequest{Open: true}))(t).GetCalls()
	if len(open) != 1 || open[0].GetState() != palyrav1.CallState_CALL_STATE_WAITING || open[0].GetApprovalId() != approvalID {
		t.Fatalf("waiting: %v", open)
	}
	id := open[0].GetProposalId()
	wantHidden(t, w.dan, id)
	got := must.Get(w.bob.cancelCall(id, ""))(t)
	if got.GetOutcome() != "cancelled" || got.GetMessage() != "user:bob cancelled the call" {
		t.Errorf("cancelled: %v", got)
	}
	var rest []*palyrav1.CallToolResponse
	for stream.Receive() {
		rest = append(rest, stream.Msg())
	}
	if d := decisionOf(rest); d.GetAllowed() || d.GetReason() != string(reason.Cancelled) || d.GetMessage() != "user:bob cancelled the call" {
		t.Errorf("the client got %v", d)
	}
	after := must.Get(w.alice.approvals().GetApproval(t.Context(), &palyrav1.GetApprovalRequest{ApprovalId: approvalID}))(t).GetApproval()
	if after.GetState() != palyrav1.ApprovalState_APPROVAL_STATE_CANCELLED {
		t.Errorf("the approval is %v", after.GetState())
	}
	w.run.Ran(t, 0)
}

// TestCallsAreListed: calls are listed newest first, in pages, with their outcome. A caller
// gets its own calls and those on its behalf; a caller that may read the journal gets all.
func TestCallsAreListed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.read.Work = func(context.Context, tool.Call) tool.Report {
		report := gatewaytest.Succeeded(`{}`)
		code := 3
		report.ExitCode = &code
		return report
	}
	var ids []string
	for _, who := range []*client{w.coder, w.dan, w.coder} {
		req := reading()
		if len(ids) == 2 {
			req.Run = "mine"
		}
		list := must.Get(who.call(req))(t)
		ids = append(ids, list[0].GetProposed().GetProposalId())
	}
	all := []string{ids[2], ids[1], ids[0]}
	for name, c := range map[string]struct {
		who  *client
		req  *palyrav1.ListCallsRequest
		want []string
	}{
		"the agent":       {w.coder, &palyrav1.ListCallsRequest{}, []string{ids[2], ids[0]}},
		"its user":        {w.alice, &palyrav1.ListCallsRequest{Principal: "agent:coder"}, []string{ids[2], ids[0]}},
		"another user":    {w.dan, &palyrav1.ListCallsRequest{}, []string{ids[1]}},
		"another's calls": {w.dan, &palyrav1.ListCallsRequest{Principal: "agent:coder"}, []string{}},
		"another's run":   {w.dan, &palyrav1.ListCallsRequest{Run: "mine"}, []string{}},
		"a run":           {w.coder, &palyrav1.ListCallsRequest{Run: "mine"}, []string{ids[2]}},
		"an auditor":      {w.eve, &palyrav1.ListCallsRequest{}, all},
		"a page":          {w.eve, &palyrav1.ListCallsRequest{PageSize: 2}, all[:2]},
		"the next page":   {w.eve, &palyrav1.ListCallsRequest{PageSize: 2, PageToken: ids[1]}, all[2:]},
	} {
		if got := c.who.listedCalls(c.req); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	got := must.Get(w.coder.getCall(ids[0]))(t)
	var steps []string
	for _, s := range got.GetSteps() {
		steps = append(steps, s.GetWhat())
	}
	call := got.GetCall()
	if !slices.Equal(steps, []string{"proposed", "evaluated", "allowed", "succeeded"}) || call.GetOutcome() != "succeeded" || call.GetExitCode() != 3 ||
		call.GetAttestationId() == "" || call.GetEndedAt() == nil || call.GetTool() != "fs.read" {
		t.Errorf("%v, %v", steps, call)
	}
}

// A list has only the arguments of small calls. A single call always has its arguments.
func TestListedCallsAreSmall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	large := &palyrav1.CallToolRequest{Tool: "fs.read", InputJson: []byte(`{"path":"` + strings.Repeat("a/", 2100) + `a"}`)}
	for _, req := range []*palyrav1.CallToolRequest{reading(), large} {
		must.Get(w.coder.call(req))(t)
	}
	list := must.Get(w.coder.gateway().ListCalls(t.Context(), &palyrav1.ListCallsRequest{}))(t).GetCalls()
	if len(list) != 2 || len(list[0].GetArgumentsJson()) != 0 || len(list[1].GetArgumentsJson()) == 0 {
		t.Fatalf("listed are %d calls: %d and %d bytes of arguments", len(list), len(list[0].GetArgumentsJson()), len(list[1].GetArgumentsJson()))
	}
	if one := must.Get(w.coder.getCall(list[0].GetProposalId()))(t); len(one.GetCall().GetArgumentsJson()) < len(large.GetInputJson()) {
		t.Errorf("the call itself has %d bytes", len(one.GetCall().GetArgumentsJson()))
	}
}
