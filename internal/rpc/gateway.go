package rpc

import (
	"context"
	"errors"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/access"
	"palyra/internal/approval"
	"palyra/internal/canonical"
	"palyra/internal/decision"
	"palyra/internal/dispatch"
	"palyra/internal/policy"
	"palyra/internal/reason"
	"palyra/internal/tool"
	"palyra/internal/toolcall"
)

// resultPart is the largest part of a result in one message: a quarter of the
// 4 MiB message cap.
const resultPart = 1 << 20

type gateway struct {
	pipeline *toolcall.Pipeline
	router   *dispatch.Router
	engine   *policy.Engine
	desk     *approval.Desk
}

// CallTool streams one call.
func (g *gateway) CallTool(ctx context.Context, req *palyrav1.CallToolRequest, stream *connect.ServerStream[palyrav1.CallToolResponse]) error {
	caller := callerOf(ctx)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	sender := &callSender{
		stream: stream, cancel: cancel,
		explain: mayExplain(g.engine, caller),
	}
	_, err := g.pipeline.Call(ctx, toolcall.Submission{
		Caller: caller, Tool: req.GetTool(), Input: req.GetInputJson(), Session: req.GetSession(), Run: req.GetRun(),
		Channel: req.GetChannel(), IdempotencyKey: req.GetIdempotencyKey(),
	}, sender.observe)
	return errors.Join(err, sender.err)
}

// mayExplain reports whether the caller may read which rules decide.
func mayExplain(engine *policy.Engine, caller access.Caller) bool {
	return engine.Current().Authorize(policy.AccessRequest{Caller: caller, Permission: policy.PermPolicyExplain}).Allowed
}

// callSender turns events into numbered messages.
type callSender struct {
	stream *connect.ServerStream[palyrav1.CallToolResponse]
	cancel context.CancelCauseFunc
	// explain is true for callers that may read policy.
	explain  bool
	sequence int64
	err      error
}

func (s *callSender) observe(e toolcall.Event) {
	switch {
	case e.Proposed != nil:
		s.send(&palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_Proposed{Proposed: &palyrav1.ToolProposed{
			ProposalId: e.Proposed.ProposalID, Session: e.Proposed.Session, Run: e.Proposed.Run,
			Tool: e.Proposed.Tool, InputDigest: e.Proposed.InputDigest, Replayed: e.Proposed.Replayed,
		}}})
	case e.Asked != nil:
		s.send(&palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_ApprovalRequested{
			ApprovalRequested: &palyrav1.ApprovalRequested{Approval: s.asked(*e.Asked)},
		}})
	case e.Resolved != nil:
		s.send(&palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_ApprovalResolved{
			ApprovalResolved: &palyrav1.ApprovalResolved{
				ApprovalId: e.Resolved.ApprovalID(), State: answerState(*e.Resolved), GrantId: e.Resolved.GrantID(),
			},
		}})
	case e.Decision != nil:
		s.send(&palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_Decision{Decision: s.decision(*e.Decision)}})
	case e.Output != nil:
		s.send(&palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_Output{Output: &palyrav1.ToolOutputChunk{
			Stream: e.Output.Stream, Data: e.Output.Data,
		}}})
	case e.Result != nil:
		s.result(*e.Result)
	case e.Attestation != nil:
		s.send(&palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_Attestation{Attestation: &palyrav1.ToolAttestation{
			AttestationId: e.Attestation.Envelope.ID, EnvelopeJson: e.Attestation.Envelope.JSON, JournalSeq: e.Attestation.Seq,
		}}})
	}
}

// send numbers and sends a message. A client that is gone cancels the call.
func (s *callSender) send(m *palyrav1.CallToolResponse) {
	if s.err != nil {
		return
	}
	s.sequence++
	m.Sequence = s.sequence
	if err := s.stream.Send(m); err != nil {
		s.err = reason.Errorf(reason.Cancelled, "the client left: %w", err)
		s.cancel(s.err)
	}
}

// asked leaves out which rules want a human, unless the caller may read them.
func (s *callSender) asked(r approval.Record) *palyrav1.Approval {
	m := approvalMessage(r)
	if !s.explain {
		m.Prompt.Why = nil
	}
	return m
}

func (s *callSender) decision(r decision.Record) *palyrav1.ToolDecision {
	m := &palyrav1.ToolDecision{
		DecisionId: r.ID, Allowed: r.Allowed, Reason: string(r.Reason), Message: r.Message, Remedy: r.Remedy,
		ApprovalId: r.ApprovalID, GrantId: r.GrantID, CallDigest: r.CallDigest, SnapshotDigest: r.SnapshotDigest,
		PolicyVersion: r.PolicyVersion, At: timestamppb.New(r.At),
	}
	if s.explain {
		m.Determining = determiningMessages(r.Determining)
	}
	return m
}

// result sends the result in parts that fit into a message.
func (s *callSender) result(r tool.Report) {
	rest := []byte(r.Result)
	for {
		part := rest[:min(len(rest), resultPart)]
		rest = rest[len(part):]
		m := &palyrav1.ToolResult{
			Outcome: string(r.Outcome), Reason: r.Reason, Message: r.Message, Remedy: r.Remedy,
			ResultJson: part, More: len(rest) > 0, Duration: durationpb.New(r.FinishedAt.Sub(r.StartedAt)),
		}
		if !m.More {
			m.ExecutionDigest = canonical.Digest(r.Result)
		}
		s.send(&palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_Result{Result: m}})
		if !m.More {
			return
		}
	}
}

// ListTools lists what policy could ever let the caller call.
func (g *gateway) ListTools(ctx context.Context, _ *palyrav1.ListToolsRequest) (*palyrav1.ListToolsResponse, error) {
	catalog := make(map[string]bool)
	for _, entry := range g.engine.Current().Catalog(callerOf(ctx)) {
		catalog[entry.Tool] = entry.MayAsk
	}
	res := &palyrav1.ListToolsResponse{}
	for _, d := range g.router.Descriptors() {
		mayAsk, listed := catalog[d.Name]
		if !listed {
			continue
		}
		m, err := toolMessage(d, mayAsk)
		if err != nil {
			return nil, err
		}
		res.Tools = append(res.Tools, m)
	}
	return res, nil
}

func toolMessage(d tool.Descriptor, mayAsk bool) (*palyrav1.Tool, error) {
	digest, err := d.Digest()
	if err != nil {
		return nil, err
	}
	capabilities := make([]string, len(d.Capabilities))
	for i, c := range d.Capabilities {
		capabilities[i] = string(c)
	}
	return &palyrav1.Tool{
		Name: d.Name, Title: d.Title, Description: d.Description, InputSchemaJson: d.InputSchema,
		Capabilities: capabilities, Executor: string(d.Executor), ReadOnly: d.ReadOnly, Destructive: d.Destructive,
		Sensitive: d.Sensitive(), MayAsk: mayAsk, DefinitionDigest: digest,
	}, nil
}

// EvaluateTool says what policy would decide.
func (g *gateway) EvaluateTool(ctx context.Context, req *palyrav1.EvaluateToolRequest) (*palyrav1.EvaluateToolResponse, error) {
	caller := callerOf(ctx)
	e, err := g.pipeline.Evaluate(ctx, toolcall.Submission{
		Caller: caller, Tool: req.GetTool(), Input: req.GetInputJson(), Session: req.GetSession(), Channel: req.GetChannel(),
	})
	if err != nil {
		return nil, err
	}
	v := e.Verdict
	res := &palyrav1.EvaluateToolResponse{
		Verdict: v.Effect().String(), Reason: string(v.Reason()), Remedy: v.Remedy(),
		PolicyVersion: v.PolicyVersion(), SnapshotDigest: v.SnapshotDigest(), CallDigest: e.CallDigest,
		SkillGateDecision: "not_a_skill", ProposalApprovalRequired: v.Effect() == policy.Ask,
		ApprovalSubjectId: e.Plan.Subject, GrantId: v.GrantID(),
	}
	if code := v.Reason(); code != "" {
		res.Message = reason.Lookup(code).Sentence
	}
	if mayExplain(g.engine, caller) {
		res.Determining = determiningMessages(v.Determining())
	}
	return res, nil
}

// EndSession ends a session of the caller.
func (g *gateway) EndSession(ctx context.Context, req *palyrav1.EndSessionRequest) (*palyrav1.EndSessionResponse, error) {
	caller := callerOf(ctx)
	if err := g.desk.EndSession(ctx, toolcall.SessionID(caller, req.GetSession())); err != nil {
		return nil, err
	}
	return &palyrav1.EndSessionResponse{}, nil
}

func determiningMessages(list []policy.Determining) []*palyrav1.Determining {
	out := make([]*palyrav1.Determining, len(list))
	for i, d := range list {
		out[i] = &palyrav1.Determining{
			PolicyId: d.ID, File: d.File, Line: int32(d.Line), Effect: d.Effect, Reason: d.Reason, Remedy: d.Remedy,
		}
	}
	return out
}
