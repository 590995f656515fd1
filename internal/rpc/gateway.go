package rpc

import (
	"context"
	"errors"

	"connectrpc.com/connect"
	"github.com/oklog/ulid/v2"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/access"
	"palyra/internal/approval"
	"palyra/internal/dispatch"
	"palyra/internal/policy"
	"palyra/internal/reason"
	"palyra/internal/run"
	"palyra/internal/tool"
	"palyra/internal/toolcall"
)

type gateway struct {
	guard    *guard
	pipeline *toolcall.Pipeline
	router   *dispatch.Router
	engine   *policy.Engine
	desk     *approval.Desk
	runs     *run.Manager
	// stopping ends when the gateway is about to stop.
	stopping <-chan struct{}
}

// CallTool streams one call.
func (g *gateway) CallTool(ctx context.Context, req *palyrav1.CallToolRequest, stream *connect.ServerStream[palyrav1.CallToolResponse]) error {
	if _, err := ulid.ParseStrict(req.GetRun()); err == nil {
		return reason.Errorf(reason.InvalidInput, "run %q has the form of a ULID: such names are those of the runs that the gateway drives", req.GetRun()).
			WithRemedy("Name the run otherwise, or leave run out; to add to a run of the gateway, send it a message over RunStream.")
	}
	caller := callerOf(ctx)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	sender := &callSender{stream: stream, cancel: cancel, reader: reader{mayExplain(g.engine, caller)}}
	_, err := g.pipeline.Call(ctx, toolcall.Submission{
		Caller: caller, Tool: req.GetTool(), Input: req.GetInputJson(), Session: req.GetSession(), Run: req.GetRun(),
		Channel: req.GetChannel(), IdempotencyKey: req.GetIdempotencyKey(), Precedence: callPrecedence(ctx, g.engine, req.GetRun()),
	}, func(e toolcall.Event) {
		hold(ctx, e.Follows || e.Attestation != nil) // the end of the stream follows the attestation
		sender.observe(e)
	})
	return errors.Join(err, sender.err)
}

// may reports whether the caller has a permission beside the one of the method.
func may(engine *policy.Engine, caller access.Caller, p access.Permission) bool {
	return engine.Current().Authorize(policy.AccessRequest{Caller: caller, Permission: p}).Allowed
}

// mayExplain reports whether the caller may read which rules decide.
func mayExplain(engine *policy.Engine, caller access.Caller) bool {
	return may(engine, caller, access.PermPolicyExplain)
}

// callSender turns events into numbered messages.
type callSender struct {
	reader
	stream   *connect.ServerStream[palyrav1.CallToolResponse]
	cancel   context.CancelCauseFunc
	sequence int64
	err      error
}

func (s *callSender) observe(e toolcall.Event) {
	switch {
	case e.Proposed != nil:
		s.send(&palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_Proposed{Proposed: proposedMessage(*e.Proposed)}})
	case e.Asked != nil:
		s.send(&palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_ApprovalRequested{ApprovalRequested: s.asked(*e.Asked)}})
	case e.Resolved != nil:
		s.send(&palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_ApprovalResolved{
			ApprovalResolved: &palyrav1.ApprovalResolved{
				ApprovalId: e.Resolved.ApprovalID(), State: answerState(*e.Resolved), GrantId: e.Resolved.GrantID(),
			},
		}})
	case e.Decision != nil:
		s.send(&palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_Decision{Decision: s.decision(*e.Decision)}})
	case e.Output != nil:
		s.send(&palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_Output{Output: outputMessage(*e.Output)}})
	case e.Result != nil:
		for _, part := range resultMessages(*e.Result) {
			s.send(&palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_Result{Result: part}})
		}
	case e.Attestation != nil:
		s.send(&palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_Attestation{Attestation: attestationMessage(*e.Attestation)}})
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
		ProposalApprovalRequired: v.Effect() == policy.Ask,
		ApprovalSubjectId:        e.Plan.Subject, GrantId: v.GrantID(),
	}
	if code := v.Reason(); code != "" {
		res.Message = reason.Lookup(code).Sentence
	}
	if mayExplain(g.engine, caller) {
		res.Determining = determiningMessages(v.Determining())
	}
	return res, nil
}

// EndSession ends a session of the caller, its runs first: what they do after
// their session's grants are gone would ask anew.
func (g *gateway) EndSession(ctx context.Context, req *palyrav1.EndSessionRequest) (*palyrav1.EndSessionResponse, error) {
	caller := callerOf(ctx)
	session := toolcall.SessionID(caller, req.GetSession())
	if err := g.runs.EndSession(ctx, caller, session); err != nil {
		return nil, err
	}
	if err := g.desk.EndSession(ctx, session); err != nil {
		return nil, err
	}
	return &palyrav1.EndSessionResponse{}, nil
}
