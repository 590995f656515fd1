package clitest

import (
	"context"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	palyrav1 "palyra/gen/palyra/v1"
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
	one := func(id string, ago time.Duration) *palyrav1.Call {
		return &palyrav1.Call{
			ProposalId: id, CallId: "toolu_" + id[8:11], Tool: "process.run", ArgumentsJson: []byte(`{"argv":["git","push","--force"],"workspace":"demo"}`),
			Principal: "agent:claude", OnBehalfOf: "user:ada", Session: "01DEVICE000000000000000000/default", Run: RunID, ProposedAt: timestamppb.New(Now.Add(-ago)),
		}
	}
	running, waiting, ended := one(RunningCall, time.Minute), one(WaitingCall, 2*time.Minute), one(EndedCall, time.Hour)
	running.State, running.DecisionId = palyrav1.CallState_CALL_STATE_RUNNING, "01DECISION0000000000000000"
	waiting.State, waiting.ApprovalId = palyrav1.CallState_CALL_STATE_WAITING, ApprovalID
	ended.State, ended.Outcome, ended.Reason, ended.Message = palyrav1.CallState_CALL_STATE_ENDED, "failed", "TOOL_FAILED", "git could not push"
	ended.Remedy, ended.ExitCode, ended.EndedAt = "Look at its output.", proto.Int32(128), timestamppb.New(Now.Add(-59*time.Minute))
	ended.DecisionId, ended.GrantId, ended.AttestationId = "01DECISION0000000000000000", "01GRANT0000000000000000000", "01ATTESTATION0000000000000"
	return []*palyrav1.Call{running, waiting, ended}
}

func (s fakeCalls) ListCalls(_ context.Context, req *palyrav1.ListCallsRequest) (*palyrav1.ListCallsResponse, error) {
	s.f.Mu.Lock()
	defer s.f.Mu.Unlock()
	res := &palyrav1.ListCallsResponse{}
	for _, one := range s.f.Listed {
		open := one.GetState() != palyrav1.CallState_CALL_STATE_ENDED
		if (!req.GetOpen() || open) && (req.GetRun() == "" || req.GetRun() == one.GetRun()) {
			res.Calls = append(res.Calls, proto.CloneOf(one))
		}
	}
	return res, nil
}

// call finds a call under the lock.
func (s fakeCalls) call(id string) (*palyrav1.Call, error) {
	for _, one := range s.f.Listed {
		if one.GetProposalId() == id {
			return one, nil
		}
	}
	return nil, GatewayError(connect.CodeNotFound, reason.NotFound, "call "+id+" not found", nil)
}

func (s fakeCalls) GetCall(_ context.Context, req *palyrav1.GetCallRequest) (*palyrav1.GetCallResponse, error) {
	s.f.Mu.Lock()
	defer s.f.Mu.Unlock()
	one, err := s.call(req.GetProposalId())
	if err != nil {
		return nil, err
	}
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
	return &palyrav1.GetCallResponse{Call: proto.CloneOf(one), Steps: steps}, nil
}

func (s fakeCalls) CancelCall(_ context.Context, req *palyrav1.CancelCallRequest) (*palyrav1.CancelCallResponse, error) {
	var one *palyrav1.Call
	var err error
	s.f.Change(func() {
		s.f.CancelledCalls = append(s.f.CancelledCalls, req)
		if one, err = s.call(req.GetProposalId()); err == nil && one.GetState() != palyrav1.CallState_CALL_STATE_ENDED {
			one.State, one.Outcome, one.Reason = palyrav1.CallState_CALL_STATE_ENDED, "cancelled", string(reason.Cancelled)
			one.Message, one.EndedAt = "user:ada cancelled the call: "+req.GetReason(), timestamppb.New(Now)
		}
		one = proto.CloneOf(one)
	})
	return &palyrav1.CancelCallResponse{Call: one}, err
}
