package api

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/run"
)

const runStatePrefix = "RUN_STATE"

// runMessage converts the current state of a run to its API message.
func runMessage(r run.Record) *palyrav1.Run {
	if r.EndedAt.IsZero() {
		return runMessageAt(r, time.Now())
	}
	return runMessageAt(r, r.EndedAt)
}

func runMessageAt(r run.Record, now time.Time) *palyrav1.Run {
	return &palyrav1.Run{
		RunId: r.ID, State: palyrav1.RunState(palyrav1.RunState_value[enumName(runStatePrefix, string(r.State))]),
		Principal: r.Principal.String(), OnBehalfOf: r.OnBehalfOf.String(), Device: r.Device, Session: r.Session,
		Model: r.Model, Workspace: r.Workspace, Message: r.Message, Interactive: r.Interactive,
		StartedAt: timeMessage(r.StartedAt), EndedAt: timeMessage(r.EndedAt),
		Budget: &palyrav1.RunBudget{
			Calls: int32(r.Budget.Calls), Tokens: r.Budget.Tokens, WallClock: durationpb.New(r.Budget.WallClock),
		},
		Usage: &palyrav1.RunUsage{
			Calls: int32(r.Usage.Calls), InputTokens: r.Usage.InputTokens, OutputTokens: r.Usage.OutputTokens,
			Turns: int32(r.Usage.Turns), WallClock: durationpb.New(now.Sub(r.StartedAt)),
		},
		Reason: string(r.Reason), Detail: r.Detail, Remedy: r.Remedy, CancelledBy: r.CancelledBy.String(),
	}
}

func runStartOf(req *palyrav1.StartRunRequest) run.Start {
	return run.Start{
		Session: req.GetSession(), Message: req.GetMessage(), Model: req.GetModel(), Workspace: req.GetWorkspace(),
		Budget: run.Budget{
			Calls: int(req.GetBudget().GetCalls()), Tokens: req.GetBudget().GetTokens(),
			WallClock: req.GetBudget().GetWallClock().AsDuration(),
		},
		Interactive: req.GetInteractive(), IdempotencyKey: req.GetIdempotencyKey(),
	}
}

// tapeReader sends each event of a run's tape once, to a client that received them up to a sequence
// number.
type tapeReader struct {
	reader
	seen int64
	send func(*palyrav1.RunEvent) error
}

// begin returns the sequence number after which the tape must be read: the number before the
// journal event to which the client's last number belongs. The tape stores a large result as one
// event. The result is sent in parts with a number each, and the client may have received only
// some of them.
func (t *tapeReader) begin() int64 { return max(0, t.seen/run.PerEvent*run.PerEvent-1) }

func (t *tapeReader) observe(e run.Event) error {
	for _, m := range t.messages(e) {
		if m.GetSequence() <= t.seen {
			continue
		}
		if err := t.send(m); err != nil {
			return err
		}
		t.seen = m.GetSequence()
	}
	return nil
}

// messages converts one event to messages: one, except for the parts of a result.
func (t *tapeReader) messages(e run.Event) []*palyrav1.RunEvent {
	m := &palyrav1.RunEvent{Sequence: e.Sequence, At: timeMessage(e.At), ProposalId: e.ProposalID, CallId: e.CallID}
	switch {
	case e.Started != nil:
		m.Event = &palyrav1.RunEvent_Started{Started: &palyrav1.RunStarted{Run: runMessageAt(*e.Started, e.Started.StartedAt)}}
	case e.Message != nil:
		m.Event = &palyrav1.RunEvent_UserMessage{UserMessage: &palyrav1.UserMessage{Text: e.Message.Text}}
	case e.Delta != nil:
		m.Event = &palyrav1.RunEvent_ModelDelta{ModelDelta: &palyrav1.ModelDelta{Text: e.Delta.Text}}
	case e.Retry != nil:
		m.Event = &palyrav1.RunEvent_ModelRetry{ModelRetry: &palyrav1.ModelRetry{
			Attempt: int32(e.Retry.Attempt), Message: e.Retry.Message, After: durationpb.New(e.Retry.After),
		}}
	case e.Turn != nil:
		m.Event = &palyrav1.RunEvent_ModelTurn{ModelTurn: turnMessage(*e.Turn)}
	case e.Proposed != nil:
		m.Event = &palyrav1.RunEvent_Proposed{Proposed: proposedMessage(*e.Proposed)}
	case e.Asked != nil:
		m.Event = &palyrav1.RunEvent_ApprovalRequested{ApprovalRequested: t.asked(*e.Asked)}
	case e.Resolved != nil:
		m.Event = &palyrav1.RunEvent_ApprovalResolved{ApprovalResolved: &palyrav1.ApprovalResolved{
			ApprovalId: e.Resolved.ApprovalID, State: stateMessage(e.Resolved.State), GrantId: e.Resolved.GrantID,
		}}
	case e.Decision != nil:
		m.Event = &palyrav1.RunEvent_Decision{Decision: t.decision(*e.Decision, func() bool { return true })}
	case e.Output != nil:
		m.Event = &palyrav1.RunEvent_Output{Output: outputMessage(*e.Output)}
	case e.Result != nil:
		return resultParts(m, t.result(*e.Result))
	case e.Attestation != nil:
		m.Event = &palyrav1.RunEvent_Attestation{Attestation: t.attestation(*e.Attestation, e.Attestation.Envelope.NamesFiles)}
	case e.Finished != nil:
		m.Event = &palyrav1.RunEvent_Finished{Finished: &palyrav1.RunFinished{Run: runMessage(*e.Finished)}}
	}
	return []*palyrav1.RunEvent{m}
}

// resultParts numbers the parts of a result, starting at the number of its event.
func resultParts(first *palyrav1.RunEvent, parts []*palyrav1.ToolResult) []*palyrav1.RunEvent {
	list := make([]*palyrav1.RunEvent, len(parts))
	for i, part := range parts {
		list[i] = &palyrav1.RunEvent{
			Sequence: first.GetSequence() + int64(i), At: first.GetAt(), ProposalId: first.GetProposalId(), CallId: first.GetCallId(),
			Event: &palyrav1.RunEvent_Result{Result: part},
		}
	}
	return list
}

func turnMessage(t run.Turn) *palyrav1.ModelTurn {
	m := &palyrav1.ModelTurn{
		Turn: int32(t.N), Text: t.Text, Stop: t.Stop, InputTokens: t.InputTokens, OutputTokens: t.OutputTokens, Model: t.Model,
	}
	for _, c := range t.Calls {
		m.Calls = append(m.Calls, &palyrav1.ModelToolCall{CallId: c.CallID, Tool: c.Tool, Input: []byte(c.Input)})
	}
	return m
}
