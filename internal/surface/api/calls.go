package api

import (
	"context"
	"errors"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/call"
	"palyra/internal/call/decision"
	"palyra/internal/call/record"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// mostArguments is the largest size in bytes of arguments that a list returns for a call.
const mostArguments = 4 << 10

// ListCalls returns one page, newest first: the caller's own, or all for callers
// that may read the journal.
func (g *gateway) ListCalls(ctx context.Context, req *palyrav1.ListCallsRequest) (*palyrav1.ListCallsResponse, error) {
	principal, err := principalOf(req.GetPrincipal())
	if err != nil {
		return nil, err
	}
	filter := call.Filter{
		Principal: principal, Run: req.GetRun(), Open: req.GetOpen(), PageSize: int(req.GetPageSize()), PageToken: req.GetPageToken(),
	}
	if caller := callerOf(ctx); !may(g.engine, caller, access.PermJournalRead) {
		filter.Of = caller.Principal
	}
	list, next, err := g.pipeline.PastCalls(ctx, filter)
	if err != nil {
		return nil, err
	}
	res := &palyrav1.ListCallsResponse{NextPageToken: next}
	for i := range list {
		m := callMessage(&list[i])
		// Arguments that are not stored or not readable are omitted, and the list is still
		// returned.
		if arguments, err := g.pipeline.Arguments(ctx, &list[i]); err == nil && len(arguments) <= mostArguments {
			m.ArgumentsJson = arguments
		}
		res.Calls = append(res.Calls, m)
	}
	return res, nil
}

// findCall returns a call of the caller, or any call if the caller has the permission others. A
// call that the caller may not see yields the same error as an unknown call.
func (g *gateway) findCall(ctx context.Context, id string, others access.Permission) (call.PastCall, error) {
	past, err := g.pipeline.PastCall(ctx, id)
	caller := callerOf(ctx)
	if reason.Of(err) == reason.NotFound || err == nil && !past.Caller.Is(caller.Principal) && !may(g.engine, caller, others) {
		return call.PastCall{}, call.NoCall(id)
	}
	return past, err
}

// GetCall returns one call and its events.
func (g *gateway) GetCall(ctx context.Context, req *palyrav1.GetCallRequest) (*palyrav1.GetCallResponse, error) {
	past, err := g.findCall(ctx, req.GetProposalId(), access.PermJournalRead)
	if err != nil {
		return nil, err
	}
	m := callMessage(&past)
	arguments, lost := g.pipeline.Arguments(ctx, &past)
	if m.ArgumentsJson = arguments; lost == nil {
		lost = g.pipeline.ResultKept(ctx, &past)
	}
	if known := (&reason.Error{}); errors.As(lost, &known) && m.GetMessage() == "" {
		m.Message = string(known.Code) + ": " + known.Message
	}
	res := &palyrav1.GetCallResponse{Call: m}
	for i := range past.Steps {
		res.Steps = append(res.Steps, stepMessage(&past.Steps[i]))
	}
	return res, nil
}

// CancelCall cancels a call that is waiting or running.
func (g *gateway) CancelCall(ctx context.Context, req *palyrav1.CancelCallRequest) (*palyrav1.CancelCallResponse, error) {
	caller := callerOf(ctx)
	past, err := g.findCall(ctx, req.GetProposalId(), access.PermGatewayFreeze)
	if err != nil {
		return nil, err
	}
	if err := g.pipeline.CancelCall(ctx, caller.Principal, past.ProposalID, req.GetReason()); err != nil {
		return nil, err
	}
	if past, err = g.pipeline.PastCall(ctx, past.ProposalID); err != nil {
		return nil, err
	}
	m := callMessage(&past)
	if !past.Caller.Is(caller.Principal) && !may(g.engine, caller, access.PermJournalRead) {
		// Permission to stop a call does not include permission to read it.
		m = &palyrav1.Call{ProposalId: m.GetProposalId(), State: m.GetState(), Outcome: m.GetOutcome(), EndedAt: m.GetEndedAt()}
	}
	return &palyrav1.CancelCallResponse{Call: m}, nil
}

// Outcomes of calls in addition to the outcomes of package tool.
const (
	endDenied    = "denied"
	endAmbiguous = "ambiguous"
	// endUngoverned is the outcome of a call that ran without permission, as an agent reported.
	endUngoverned = "ungoverned"
)

func callMessage(c *call.PastCall) *palyrav1.Call {
	m := &palyrav1.Call{
		ProposalId: c.ProposalID, Tool: c.Tool, Principal: c.Caller.Principal, OnBehalfOf: c.Caller.OnBehalfOf,
		Session: c.Session, Run: c.Run, ApprovalId: c.WaitsFor,
	}
	if len(c.Steps) > 0 {
		m.ProposedAt = timeMessage(c.Steps[0].At)
	}
	if p := c.Proposed; p != nil {
		m.CallId = p.CallID
	}
	if d := c.Decided; d != nil {
		m.DecisionId, m.GrantId = d.ID, d.GrantID
		if m.ApprovalId == "" {
			m.ApprovalId = d.ApprovalID
		}
	}
	if m.State = stateOfCall(c); m.State == palyrav1.CallState_CALL_STATE_ENDED {
		endOfCall(m, c)
	}
	return m
}

func stateOfCall(c *call.PastCall) palyrav1.CallState {
	switch {
	case !c.Live, c.Attested != nil, c.Refused != nil, c.Ambiguous != nil, c.Decided != nil && !c.Decided.Allowed:
		return palyrav1.CallState_CALL_STATE_ENDED
	case c.WaitsFor != "":
		return palyrav1.CallState_CALL_STATE_WAITING
	case c.Running:
		return palyrav1.CallState_CALL_STATE_RUNNING
	}
	return palyrav1.CallState_CALL_STATE_PROPOSED
}

// endOfCall sets the outcome of a call, its reason, and the time of the end. A call that has no
// recorded end and is not active was interrupted by a stop of the gateway.
func endOfCall(m *palyrav1.Call, c *call.PastCall) {
	switch d := c.Decided; {
	case c.Attested != nil:
		r := c.Attested.Report
		m.Outcome, m.Reason, m.Message, m.Remedy = string(r.Outcome), r.Reason, r.Message, r.Remedy
		m.AttestationId = c.Attested.AttestationID
		if r.ExitCode != nil {
			code := int32(*r.ExitCode)
			m.ExitCode = &code
		}
	case c.Ambiguous != nil:
		m.Outcome, m.Reason, m.Message = endAmbiguous, string(c.Ambiguous.Reason), c.Ambiguous.Message
	case d != nil && !d.Allowed:
		m.Outcome, m.Reason, m.Message, m.Remedy = endDenied, string(d.Reason), d.Message, d.Remedy
		if d.Reason == reason.Cancelled {
			m.Outcome = string(tool.Stopped)
		}
	case c.Refused != nil:
		m.Outcome, m.Reason, m.Message, m.Remedy = string(tool.Refused), string(c.Refused.Reason), c.Refused.Message, c.Refused.Remedy
		if c.Refused.Reason == reason.Cancelled {
			m.Outcome = string(tool.Stopped)
		}
	case d == nil && c.Sighted != nil:
		m.Outcome, m.Reason, m.Message = endUngoverned, string(c.Sighted.Reason), c.Sighted.Message
	case d != nil:
		m.Outcome, m.Reason, m.Message = endAmbiguous, string(reason.OutcomeUnknown), reason.Lookup(reason.OutcomeUnknown).Sentence
		return
	default:
		m.Outcome, m.Reason, m.Message = string(tool.Refused), string(reason.ShuttingDown), "the gateway stopped before the call was decided"
		return
	}
	m.EndedAt = timeMessage(c.Steps[len(c.Steps)-1].At)
}

func stepMessage(s *record.Step) *palyrav1.CallStep {
	m := &palyrav1.CallStep{Seq: s.Seq, At: timeMessage(s.At)}
	switch p := s.Payload.(type) {
	case *record.Proposed:
		m.What, m.Kind, m.Id = "proposed", "proposal", p.ProposalID
	case *record.Evaluated:
		m.What, m.Message = "evaluated", p.Verdict.Effect
	case *decision.Record:
		m.What, m.Kind, m.Id, m.Reason, m.Message = allowedOr(p.Allowed, endDenied), "decision", p.ID, string(p.Reason), p.Message
	case *record.Refused:
		m.What, m.Reason, m.Message = string(tool.Refused), string(p.Reason), p.Message
	case *record.Sighted:
		m.What, m.Reason, m.Message = "sighted", string(p.Reason), p.Message
	case *record.Gated:
		m.What, m.Reason, m.Message = "changes "+allowedOr(p.Allowed, string(tool.Refused)), string(p.Reason), p.Message
		if p.ApprovalID != "" {
			m.Kind, m.Id = "approval", p.ApprovalID
		}
	case *record.Violated:
		m.What = "violated"
	case *record.Attested:
		m.What, m.Kind, m.Id, m.Reason, m.Message = string(p.Report.Outcome), "attestation", p.AttestationID, p.Report.Reason, p.Report.Message
	case *record.Ambiguous:
		m.What, m.Reason, m.Message = endAmbiguous, string(p.Reason), p.Message
	}
	return m
}

func allowedOr(allowed bool, no string) string {
	if allowed {
		return "allowed"
	}
	return no
}
