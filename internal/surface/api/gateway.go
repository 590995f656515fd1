package api

import (
	"cmp"
	"context"
	"errors"
	"time"

	"connectrpc.com/connect"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/call"
	"palyra/internal/call/dispatch"
	"palyra/internal/call/policy"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/run"
	"palyra/internal/surface/api/presenceproof"
)

type gateway struct {
	prompts
	guard    *guard
	router   *dispatch.Router
	engine   *policy.Engine
	runs     *run.Manager
	presence *presenceproof.Service
	// stopping is closed when the gateway is about to stop.
	stopping  <-chan struct{}
	firstWait time.Duration
}

// CallTool streams one call.
func (g *gateway) CallTool(ctx context.Context, req *palyrav1.CallToolRequest, stream *connect.ServerStream[palyrav1.CallToolResponse]) error {
	if err := cmp.Or(call.CheckClientName("run", req.GetRun()), call.CheckClientName("session", req.GetSession())); err != nil {
		return err
	}
	select {
	case <-g.stopping:
		return reason.Errorf(reason.ShuttingDown, "the gateway is stopping")
	default:
	}
	caller := callerOf(ctx)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	sender := &callSender{stream: stream, cancel: cancel, reader: g.readerOf(ctx, caller)}
	defer hold(ctx, true) // the end of the stream follows
	_, err := g.pipeline.Call(ctx, call.Submission{
		Caller: caller, Tool: req.GetTool(), Input: req.GetInputJson(), Session: req.GetSession(), Run: req.GetRun(),
		Channel: req.GetChannel(), Reason: req.GetRequesterReason(), IdempotencyKey: req.GetIdempotencyKey(), Precedence: callPrecedence(ctx, g.engine, req.GetRun()),
	}, func(e call.Event) {
		// The decision usually follows the proposal soon, and the end of the stream follows the
		// attestation.
		hold(ctx, e.Follows || e.Proposed != nil || e.Attestation != nil)
		sender.observe(e)
		if e.Proposed != nil {
			holdAWhile(ctx)
		}
	})
	return errors.Join(err, sender.err)
}

// may reports whether the caller has a permission in addition to the method's own.
func may(engine *policy.Engine, caller access.Caller, p access.Permission) bool {
	return engine.Current().Access().Authorize(policy.AccessRequest{Caller: caller, Permission: p}).Allowed
}

// mayExplain reports whether the caller may read the rules of a decision.
func mayExplain(engine *policy.Engine, caller access.Caller) bool {
	return may(engine, caller, access.PermPolicyExplain)
}

// callSender sends events as numbered messages.
type callSender struct {
	reader
	stream   *connect.ServerStream[palyrav1.CallToolResponse]
	cancel   context.CancelCauseFunc
	sequence int64
	err      error
}

func (s *callSender) observe(e call.Event) {
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
		s.send(&palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_Decision{Decision: s.decision(*e.Decision, e.Restricted)}})
	case e.Output != nil:
		s.send(&palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_Output{Output: outputMessage(*e.Output)}})
	case e.Result != nil:
		for _, part := range s.result(*e.Result) {
			s.send(&palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_Result{Result: part}})
		}
	case e.Attestation != nil:
		s.send(&palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_Attestation{Attestation: s.attestation(*e.Attestation, e.Restricted)}})
	}
}

// send numbers and sends a message. A disconnected client cancels the call.
func (s *callSender) send(m *palyrav1.CallToolResponse) {
	if s.err != nil {
		return
	}
	s.sequence++
	m.Sequence = s.sequence
	if err := s.stream.Send(m); err != nil {
		s.err = reason.Errorf(reason.Cancelled, "the client disconnected: %w", err)
		s.cancel(s.err)
	}
}

// ListTools lists the tools that policy could allow the caller to call. Callers that may
// explain policy also receive the other tools, as hidden tools. A call of a hidden tool is
// proposed, denied and journaled like any other, with the reason and remedy of the policy. A
// refusal without a record would hide the attempt.
func (g *gateway) ListTools(ctx context.Context, _ *palyrav1.ListToolsRequest) (*palyrav1.ListToolsResponse, error) {
	caller, set := callerOf(ctx), g.engine.Current()
	explained := mayExplain(g.engine, caller)
	catalog := make(map[string]bool)
	for _, entry := range set.Catalog().Tools(caller) {
		catalog[entry.Tool] = entry.MayAsk
	}
	res := &palyrav1.ListToolsResponse{}
	for _, d := range g.router.Descriptors() {
		mayAsk, listed := catalog[d.Name]
		if !listed && !explained {
			continue
		}
		m, err := toolMessage(d, mayAsk)
		if err != nil {
			return nil, err
		}
		unusable := g.router.Unusable(d.Name)
		switch {
		case listed && unusable == nil:
			res.Tools = append(res.Tools, m)
		case explained:
			res.Hidden = append(res.Hidden, hiddenMessage(m, unusable, set.Catalog().Bars(caller, d.Name)))
		}
	}
	return res, nil
}

// hiddenMessage returns why no call can use a tool: the tool is unusable, a policy forbids every
// call, or no member could approve it.
func hiddenMessage(m *palyrav1.Tool, unusable error, bars []policy.Determining) *palyrav1.HiddenTool {
	why := reason.Errorf(reason.ApprovalUnattainable, "a call needs an approval, and no member can give it")
	switch {
	case unusable != nil:
		why = reason.Known(unusable, reason.Internal)
	case len(bars) > 0:
		why = reason.Errorf(reason.PolicyDenied, "%s", cmp.Or(bars[0].Reason, "policy "+bars[0].ID+" forbids every call")).
			WithRemedy("%s", cmp.Or(bars[0].Remedy, reason.Lookup(reason.PolicyDenied).Remedy))
	}
	return &palyrav1.HiddenTool{
		Tool: m, Reason: string(why.Code), Message: why.Message, Remedy: why.NextStep(), Determining: determiningMessages(bars),
	}
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

// EvaluateTool returns the decision that policy would make.
func (g *gateway) EvaluateTool(ctx context.Context, req *palyrav1.EvaluateToolRequest) (*palyrav1.EvaluateToolResponse, error) {
	caller := callerOf(ctx)
	e, err := g.pipeline.Evaluate(ctx, call.Submission{
		Caller: caller, Tool: req.GetTool(), Input: req.GetInputJson(), Session: req.GetSession(), Channel: req.GetChannel(),
		Reason: req.GetRequesterReason(),
	})
	if err != nil {
		return nil, err
	}
	v := e.Verdict
	res := &palyrav1.EvaluateToolResponse{
		Verdict: v.Effect().String(), Reason: string(v.Reason()), Remedy: v.Remedy(),
		PolicyVersion: v.PolicyVersion(), SnapshotDigest: v.SnapshotDigest(), CallDigest: e.CallDigest,
		ProposalApprovalRequired: v.Effect() == policy.Ask,
		ApprovalSubjectId:        e.Plan.Subject, GrantId: v.GrantID(), RequesterReasonWanted: e.ReasonWanted, Frozen: e.Frozen,
		DeniedHosts: e.Plan.DeniedHosts,
	}
	explained := mayExplain(g.engine, caller)
	if code := v.Reason(); code != "" {
		res.Message = reason.Lookup(code).Sentence
	}
	if explained {
		res.Determining = determiningMessages(v.Determining())
	}
	res.SkillGateDecision = skillGateMessage(v.SkillGate(), explained)
	for _, s := range e.Secrets {
		res.Secrets = append(res.Secrets, secretEvaluation(s, explained))
	}
	return res, nil
}

// skillGateMessage includes the policies for callers that may see them.
func skillGateMessage(g *policy.SkillGate, explained bool) *palyrav1.SkillGateDecision {
	if g == nil {
		return nil
	}
	out := &palyrav1.SkillGateDecision{Skill: g.Skill, Allowed: g.Allowed, Message: g.Message(), Remedy: g.Remedy()}
	if explained {
		out.Determining = determiningMessages(g.Determining)
	}
	return out
}

func secretEvaluation(s call.SecretEvaluation, explained bool) *palyrav1.SecretEvaluation {
	i, v := s.Injection, s.Verdict
	out := &palyrav1.SecretEvaluation{
		Ref: i.Secret, Version: uint32(i.Version), Env: i.Env, File: i.File, Skill: i.Skill,
		Verdict: v.Effect().String(), Reason: string(v.Reason()), Remedy: v.Remedy(),
	}
	if code := v.Reason(); code != "" {
		out.Message = reason.Lookup(code).Sentence
	}
	if explained {
		out.Determining = determiningMessages(v.Determining())
	}
	return out
}

// EndSession ends a session of the caller. The runs end first: without the grants of the
// session, their calls would request approval again.
func (g *gateway) EndSession(ctx context.Context, req *palyrav1.EndSessionRequest) (*palyrav1.EndSessionResponse, error) {
	caller := callerOf(ctx)
	session := call.SessionID(caller, req.GetSession())
	if err := g.runs.EndSession(ctx, caller, session); err != nil {
		return nil, err
	}
	if err := g.desk.EndSession(ctx, session); err != nil {
		return nil, err
	}
	return &palyrav1.EndSessionResponse{}, nil
}
