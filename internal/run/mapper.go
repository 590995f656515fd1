package run

import (
	"encoding/json"
	"fmt"

	"palyra/internal/call"
	"palyra/internal/call/approval"
	"palyra/internal/call/decision"
	"palyra/internal/call/record"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/journal"
)

// PerEvent is how many sequence numbers of the tape belong to one sequence number of the journal.
// The tape's events of the journal's event 7 have numbers from 7*PerEvent to 8*PerEvent-1.
const PerEvent = 1 << placeBits

// The layout of the PerEvent numbers of one journal event. The journal's event 7 yields at most
// 8 events of the tape, with the numbers 7<<20, 7<<20 + 1<<12, 7<<20 + 2<<12 and so on. The
// 1<<12 numbers of each event are for the parts of a result that is larger than an API message.
// Unjournaled events after event 7, such as output, have the numbers from 7<<20 +
// firstProvisional on.
const (
	placeBits        = 20
	partBits         = 12
	firstProvisional = 8 << partBits
	lastProvisional  = PerEvent - 1
)

// entry is one event of a tape, with the names of the blobs that complete it.
type entry struct {
	Event
	approvalID string
	// textBlob contains the message or turn, resultBlob the result; inputBlobs contain the inputs
	// of the turn's calls, in order.
	textBlob   string
	resultBlob string
	inputBlobs map[int]string
	// durable is false for events that exist only in memory.
	durable bool
}

// mapper converts the journal's events of one run to events of its tape. It must receive all of
// them, in order.
type mapper struct {
	// base is the record as of the start of the run.
	base Record
	// calls are the run's own proposals; events of other proposals are skipped.
	calls map[string]*callState
	usage Usage
	// finished is set by the run's last event.
	finished bool
}

// callState is the state of a call on the tape.
type callState struct {
	id string
	// pendingApproval is the id of the approval that the call waits for, or "".
	pendingApproval string
	decided         bool
	ended           bool
}

func newMapper(r Record) *mapper {
	return &mapper{base: r.asStarted(), calls: make(map[string]*callState)}
}

// asStarted returns the record as of the start of the run.
func (r Record) asStarted() Record {
	return Record{
		ID: r.ID, State: Running, Principal: r.Principal, OnBehalfOf: r.OnBehalfOf, Device: r.Device, Session: r.Session,
		Model: r.Model, Workspace: r.Workspace, Message: r.Message, Interactive: r.Interactive,
		StartedAt: r.StartedAt, Budget: r.Budget,
	}
}

// next returns the tape entries of one journal event.
func (m *mapper) next(e journal.Event) ([]*entry, error) {
	if e.Erased() {
		return nil, nil
	}
	list, err := m.convert(e)
	if err != nil {
		return nil, fmt.Errorf("reading event %d of run %s: %w", e.Seq, m.base.ID, err)
	}
	for i, en := range list {
		en.Sequence, en.At, en.durable = e.Seq<<placeBits+int64(i)<<partBits, e.At, true
	}
	return list, nil
}

func (m *mapper) convert(e journal.Event) ([]*entry, error) {
	switch e.Code {
	case event.RunStarted:
		return m.started(e)
	case event.UserMessage:
		return m.message(e)
	case event.ModelTurn:
		return m.turn(e)
	case event.RunFinished:
		return m.end(e)
	case event.Asked, event.Joined:
		return m.asked(e)
	case event.Proposed, event.Refused, event.Decided, event.Gated, event.Attested, event.Ambiguous:
		return m.ofCall(e)
	}
	return nil, nil
}

func (m *mapper) started(e journal.Event) ([]*entry, error) {
	var p StartedPayload
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return nil, err
	}
	m.base.StartedAt = e.At
	r := m.base
	r.Message = p.Message
	return []*entry{{Event: Event{Started: &r}, textBlob: p.MessageBlob}}, nil
}

func (m *mapper) message(e journal.Event) ([]*entry, error) {
	var p MessagePayload
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return nil, err
	}
	return []*entry{{Event: Event{Message: &Message{Text: p.Text}}, textBlob: p.TextBlob}}, nil
}

func (m *mapper) turn(e journal.Event) ([]*entry, error) {
	var p TurnPayload
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return nil, err
	}
	m.usage.Turns++
	m.usage.InputTokens += p.InputTokens
	m.usage.OutputTokens += p.OutputTokens
	t := &Turn{
		N: p.Turn, Text: p.Text, Stop: string(p.Stop), InputTokens: p.InputTokens, OutputTokens: p.OutputTokens, Model: p.Model,
		Calls: make([]TurnCall, len(p.Calls)),
	}
	en := &entry{Event: Event{Turn: t}, textBlob: p.TextBlob}
	for i, c := range p.Calls {
		t.Calls[i] = TurnCall{CallID: c.CallID, Tool: c.Tool, Input: c.Input}
		if c.InputBlob != "" {
			if en.inputBlobs == nil {
				en.inputBlobs = make(map[int]string)
			}
			en.inputBlobs[i] = c.InputBlob
		}
	}
	return []*entry{en}, nil
}

func (m *mapper) end(e journal.Event) ([]*entry, error) {
	var p FinishedPayload
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return nil, err
	}
	m.finished = true
	r := m.base
	r.State, r.EndedAt, r.Reason, r.Detail, r.Remedy, r.CancelledBy = p.State, e.At, p.Reason, p.Message, p.Remedy, p.By
	r.Usage = Usage{Calls: p.Usage.Calls, Turns: p.Usage.Turns, InputTokens: p.Usage.InputTokens, OutputTokens: p.Usage.OutputTokens}
	return []*entry{{Event: Event{Finished: &r}}}, nil
}

// own reports whether the run's principal caused an event. A run of another principal is another
// run, even if it has the same name.
func (m *mapper) own(e journal.Event) bool { return e.Actor == m.base.Principal.String() }

// callEntry returns an entry of a call.
func callEntry(proposal string, c *callState, e Event) *entry {
	e.ProposalID, e.CallID = proposal, c.id
	return &entry{Event: e}
}

// propose registers a call.
func (m *mapper) propose(e journal.Event, proposal, callID, name, digest string) *entry {
	c := &callState{id: callID}
	m.calls[proposal] = c
	m.usage.Calls++
	return callEntry(proposal, c, Event{Proposed: &call.Proposed{
		ProposalID: proposal, CallID: callID, Session: e.Session, Run: e.Run, Tool: name, InputDigest: digest,
	}})
}

// ofCall converts an event of a call. A call that was not proposed here does not belong to the run.
func (m *mapper) ofCall(e journal.Event) ([]*entry, error) {
	payload, err := record.Decode(&e)
	if err != nil {
		return nil, err
	}
	switch p := payload.(type) {
	case *record.Proposed:
		if m.own(e) {
			return []*entry{m.propose(e, e.Subject, p.CallID, p.Tool, p.ArgumentsDigest)}, nil
		}
		return nil, nil
	case *record.Refused:
		return m.refused(e, p), nil
	}
	c := m.calls[e.Subject]
	if c == nil {
		return nil, nil
	}
	switch p := payload.(type) {
	case *decision.Record:
		list := m.resolved(e, c, answered(p.Reason), p.GrantID)
		c.decided, c.ended = true, !p.Allowed
		return append(list, callEntry(e.Subject, c, Event{Decision: p})), nil
	case *record.Gated:
		return m.resolved(e, c, answered(p.Reason), p.GrantID), nil
	case *record.Attested:
		c.ended = true
		result := callEntry(e.Subject, c, Event{Result: &p.Report})
		result.resultBlob = p.ResultBlob
		return []*entry{result, callEntry(e.Subject, c, Event{Attestation: &call.Attestation{Envelope: p.Signed(), Seq: e.Seq}})}, nil
	case *record.Ambiguous:
		c.ended = true
		return []*entry{callEntry(e.Subject, c, Event{Result: &tool.Report{
			Outcome: tool.Unknown, Reason: string(p.Reason), Message: p.Message, StartedAt: e.At, FinishedAt: e.At,
		}})}, nil
	}
	return nil, nil
}

// refused converts a refusal without a policy decision. If the input of a call was refused, this is
// the first event of the call, and the call is registered here.
func (m *mapper) refused(e journal.Event, p *record.Refused) []*entry {
	if !m.own(e) {
		return nil
	}
	var list []*entry
	c := m.calls[e.Subject]
	if c == nil {
		list = append(list, m.propose(e, e.Subject, p.CallID, p.Tool, ""))
		c = m.calls[e.Subject]
	}
	c.decided, c.ended = true, true
	return append(list, callEntry(e.Subject, c, Event{Decision: &decision.Record{
		ProposalID: e.Subject, Reason: p.Reason, Message: p.Message, Remedy: p.Remedy, At: e.At,
	}}))
}

func (m *mapper) asked(e journal.Event) ([]*entry, error) {
	var p approval.JoinedPayload // the members that both payloads have
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return nil, err
	}
	c := m.calls[p.ProposalID]
	if c == nil {
		return nil, nil
	}
	c.pendingApproval = p.ApprovalID
	en := callEntry(p.ProposalID, c, Event{Asked: &approval.Record{ID: p.ApprovalID}})
	en.approvalID = p.ApprovalID
	return []*entry{en}, nil
}

// resolved adds the answer of an approval that a call waited for, if any. A call may wait again
// after an edit.
func (m *mapper) resolved(e journal.Event, c *callState, state approval.State, grant string) []*entry {
	if c.pendingApproval == "" {
		return nil
	}
	id := c.pendingApproval
	c.pendingApproval = ""
	return []*entry{callEntry(e.Subject, c, Event{Resolved: &Resolved{ApprovalID: id, State: state, GrantID: grant}})}
}

// answered returns the state of an answered approval, from the reason of the decision.
func answered(why reason.Code) approval.State {
	switch why {
	case reason.ApprovalDenied:
		return approval.Denied
	case reason.ApprovalExpired:
		return approval.Expired
	case reason.ApprovalCancelled, reason.Cancelled, reason.GatewayFrozen, reason.ShuttingDown, reason.TimedOut:
		return approval.Cancelled
	case reason.ApprovalRevoked:
		return approval.Revoked
	}
	return approval.Allowed
}
