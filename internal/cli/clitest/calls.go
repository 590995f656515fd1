package clitest

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
)

// The calls of the gateway: one running, one waiting, one ended.
const (
	RunningCall = "01PR0P0SA30000000000000000"
	WaitingCall = "01PR0P0SA20000000000000000"
	EndedCall   = "01PR0P0SA10000000000000000"
)

// OlderCalls are calls of an agent, newest first.
func OlderCalls() []*palyrav1.Call {
	one := func(id string, before time.Duration) *palyrav1.Call {
		return &palyrav1.Call{
			ProposalId: id, CallId: "toolu_" + id[8:11], Tool: "process.run", ArgumentsJson: []byte(`{"argv":["git","push","--force"],"workspace":"demo"}`),
			Principal: "agent:claude", OnBehalfOf: "user:ada", Session: "01DEVICE000000000000000000/default", Run: RunID, ProposedAt: ago(before),
		}
	}
	running, waiting, ended := one(RunningCall, time.Minute), one(WaitingCall, 2*time.Minute), one(EndedCall, time.Hour)
	running.State, running.DecisionId = palyrav1.CallState_CALL_STATE_RUNNING, "01DECISION0000000000000000"
	waiting.State, waiting.ApprovalId = palyrav1.CallState_CALL_STATE_WAITING, ApprovalID
	ended.State, ended.Outcome, ended.Reason, ended.Message = palyrav1.CallState_CALL_STATE_ENDED, "failed", "TOOL_FAILED", "git could not push"
	ended.Remedy, ended.ExitCode, ended.EndedAt = "Look at its output.", proto.Int32(128), ago(59*time.Minute)
	ended.DecisionId, ended.GrantId, ended.AttestationId = "01DECISION0000000000000000", "01GRANT0000000000000000000", "01ATTESTATION0000000000000"
	return []*palyrav1.Call{running, waiting, ended}
}

func serveCalls(f *Gateway) {
	stream(f, f.callTool)
	f.reply(&palyrav1.EndSessionResponse{})
	on(f, func(*palyrav1.ListToolsRequest) (*palyrav1.ListToolsResponse, error) {
		return &palyrav1.ListToolsResponse{Tools: f.Tools, Hidden: f.Hidden}, nil
	})
	on(f, func(req *palyrav1.EvaluateToolRequest) (*palyrav1.EvaluateToolResponse, error) {
		out := &palyrav1.EvaluateToolResponse{
			Verdict: "ask", Reason: "APPROVAL_REQUIRED", Message: "a human has to approve", Remedy: "Ask ada.",
			ProposalApprovalRequired: true, ApprovalSubjectId: req.GetTool() + ":demo", CallDigest: canonical.Digest(req.GetInputJson()),
			Determining: []*palyrav1.Determining{{PolicyId: "sensitive.ask", File: "defaults/10.cedar", Line: 3, Effect: "permit"}},
		}
		switch req.GetTool() {
		case "lent":
			out.DeniedHosts = []string{"example.com:443, from an argument", "github.com:443, from the git remote \"origin\""}
			out.Secrets = []*palyrav1.SecretEvaluation{
				{Ref: "global/aws", Version: 2, Env: "AWS_KEY", Verdict: "ask", Reason: "APPROVAL_REQUIRED", Message: "a human has to approve", Determining: out.GetDetermining()},
				{Ref: "user:ada/deploy", Version: 1, Env: "DEPLOY_KEY", File: "/home/tool/.secrets/deploy", Verdict: "allow"},
			}
		case "never":
			out.Verdict, out.Reason, out.Message = "deny", "POLICY_DENIED", "no policy allows it"
		}
		return out, nil
	})
	on(f, func(req *palyrav1.ListCallsRequest) (*palyrav1.ListCallsResponse, error) {
		res := &palyrav1.ListCallsResponse{}
		for _, one := range f.Listed {
			open := one.GetState() != palyrav1.CallState_CALL_STATE_ENDED
			if (!req.GetOpen() || open) && (req.GetRun() == "" || req.GetRun() == one.GetRun()) {
				res.Calls = append(res.Calls, proto.CloneOf(one))
			}
		}
		return res, nil
	})
	on(f, func(req *palyrav1.GetCallRequest) (*palyrav1.GetCallResponse, error) {
		one, err := f.call(req.GetProposalId())
		steps := []*palyrav1.CallStep{
			{Seq: 40, At: one.GetProposedAt(), What: "proposed", Kind: "proposal", Id: one.GetProposalId()},
			{Seq: 41, At: one.GetProposedAt(), What: "evaluated", Message: "allow"},
		}
		if one.GetDecisionId() != "" {
			steps = append(steps, &palyrav1.CallStep{Seq: 42, At: one.GetProposedAt(), What: "allowed", Kind: "decision", Id: one.GetDecisionId()})
		}
		if one.GetEndedAt() != nil {
			steps = append(steps, &palyrav1.CallStep{Seq: 43, At: one.GetEndedAt(), What: one.GetOutcome(), Kind: "attestation", Id: one.GetAttestationId(), Reason: one.GetReason(), Message: one.GetMessage()})
		}
		return &palyrav1.GetCallResponse{Call: one, Steps: steps}, err
	})
	on(f, func(req *palyrav1.CancelCallRequest) (*palyrav1.CancelCallResponse, error) {
		f.CancelledCalls = append(f.CancelledCalls, req)
		one, err := f.call(req.GetProposalId())
		if err == nil && one.GetState() != palyrav1.CallState_CALL_STATE_ENDED {
			one.State, one.Outcome, one.Reason = palyrav1.CallState_CALL_STATE_ENDED, "cancelled", string(reason.Cancelled)
			one.Message, one.EndedAt = "user:ada cancelled the call: "+req.GetReason(), now
		}
		return &palyrav1.CancelCallResponse{Call: proto.CloneOf(one)}, err
	})
}

// call finds a call under the lock.
func (f *Gateway) call(id string) (*palyrav1.Call, error) {
	for _, one := range f.Listed {
		if one.GetProposalId() == id {
			return one, nil
		}
	}
	return nil, notFound("call %s not found", id)
}

func (f *Gateway) callTool(ctx context.Context, req *palyrav1.CallToolRequest, send func(*palyrav1.CallToolResponse) error) error {
	f.Change(func() { f.Calls = append(f.Calls, req) })
	seq := int64(0)
	numbered := func(m *palyrav1.CallToolResponse) error {
		seq++
		m.Sequence = seq
		return send(m)
	}
	if err := numbered(Proposed(req)); err != nil {
		return err
	}
	if f.Play != nil {
		return f.Play(ctx, req, numbered)
	}
	return Play(numbered, Allowed(), Finished("succeeded", "", `{"text":"hello"}`), Attested())
}

// Play sends the events of a call.
func Play(send func(*palyrav1.CallToolResponse) error, list ...*palyrav1.CallToolResponse) error {
	for _, m := range list {
		if err := send(m); err != nil {
			return err
		}
	}
	return nil
}

// Asks makes a call wait for an approval and then run.
func (f *Gateway) Asks(v *palyrav1.Approval, after ...*palyrav1.CallToolResponse) {
	f.Play = func(ctx context.Context, _ *palyrav1.CallToolRequest, send func(*palyrav1.CallToolResponse) error) error {
		f.Change(func() { f.Approvals[v.GetApprovalId()] = v })
		shown := proto.CloneOf(v)
		err := send(&palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_ApprovalRequested{ApprovalRequested: &palyrav1.ApprovalRequested{Approval: shown}}})
		if err != nil {
			return err
		}
		pending := func() bool {
			return f.Approvals[v.GetApprovalId()].GetState() != palyrav1.ApprovalState_APPROVAL_STATE_PENDING
		}
		if err := f.Wait(ctx, pending); err != nil {
			return err
		}
		f.Mu.Lock()
		state := f.Approvals[v.GetApprovalId()].GetState()
		f.Mu.Unlock()
		err = send(&palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_ApprovalResolved{ApprovalResolved: &palyrav1.ApprovalResolved{ApprovalId: v.GetApprovalId(), State: state}}})
		if err != nil {
			return err
		}
		switch state {
		case palyrav1.ApprovalState_APPROVAL_STATE_DENIED:
			return send(DeniedFor(reason.ApprovalDenied, "ada denied the call"))
		case palyrav1.ApprovalState_APPROVAL_STATE_CANCELLED:
			return send(DeniedFor(reason.ApprovalCancelled, "the approval was withdrawn"))
		case palyrav1.ApprovalState_APPROVAL_STATE_EXPIRED:
			return send(DeniedFor(reason.ApprovalExpired, "not answered in time"))
		}
		return Play(send, append([]*palyrav1.CallToolResponse{Allowed()}, after...)...)
	}
}

// Proposed returns the event that opens a call.
func Proposed(req *palyrav1.CallToolRequest) *palyrav1.CallToolResponse {
	return &palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_Proposed{Proposed: &palyrav1.ToolProposed{
		ProposalId: "01PROPOSAL0000000000000000", Session: "default", Run: "r1", Tool: req.GetTool(), InputDigest: canonical.Digest(req.GetInputJson()),
	}}}
}

// Allowed returns a decision that allows a call.
func Allowed() *palyrav1.CallToolResponse {
	return &palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_Decision{Decision: &palyrav1.ToolDecision{DecisionId: "01DECISION0000000000000000", Allowed: true}}}
}

// DeniedFor returns a decision that denies a call.
func DeniedFor(why reason.Code, message string) *palyrav1.CallToolResponse {
	return &palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_Decision{Decision: &palyrav1.ToolDecision{
		DecisionId: "01DECISION0000000000000000", Reason: string(why), Message: message, Remedy: "Ask somebody.",
		Determining: []*palyrav1.Determining{{PolicyId: "exec.none", File: "20-exec.cedar", Line: 7, Effect: "forbid", Reason: "no programs"}},
	}}}
}

// Finished returns the result of a call.
func Finished(outcome string, why reason.Code, body string) *palyrav1.CallToolResponse {
	return &palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_Result{Result: &palyrav1.ToolResult{
		Outcome: outcome, Reason: string(why), ResultJson: []byte(body), ExecutionDigest: canonical.Digest([]byte(body)), Duration: durationpb.New(1500 * time.Millisecond),
	}}}
}

// Output returns a part of the output of a call.
func Output(stream, data string) *palyrav1.CallToolResponse {
	return &palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_Output{Output: &palyrav1.ToolOutputChunk{Stream: stream, Data: []byte(data)}}}
}

// Attested returns the attestation of a call.
func Attested() *palyrav1.CallToolResponse {
	return &palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_Attestation{Attestation: &palyrav1.ToolAttestation{
		AttestationId: "01ATTESTATION0000000000000", EnvelopeJson: []byte(`{"payload":""}`), JournalSeq: 42,
		Posture: &palyrav1.ExecutionPosture{
			Executor: "sandbox_tier_c_linux_bubblewrap", Tier: "c", Backend: "bubblewrap 0.8.0", Enforcement: "strict",
			Egress: "strict", EgressAllowed: []string{"example.com:443"}, ExecutionDigest: canonical.Digest([]byte("result")),
		},
	}}}
}
