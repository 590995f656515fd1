package hook

import (
	"context"
	"encoding/json"
	"strings"
	"sync"

	"palyra/internal/call/approval"
	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// visit is one call of an agent, from its hook's request to the agent's report.
type visit struct {
	agent *Agent
	msg   *Message
	// tool is the name of the tool, asked the digest of the canonical input in the request.
	tool, asked string
	// reports receives the agent's report, and over is closed when its session ends.
	reports chan statement
	over    chan struct{}
	// began is closed when the call is allowed to run. known is closed when all answers before the
	// decision are known. ended is closed when no report is awaited.
	began, known, ended chan struct{}
	once                struct{ began, over, known, ended sync.Once }
	stopping            <-chan struct{}

	// mu guards the following fields.
	mu       sync.Mutex
	proposal string
	// digest is the digest of the allowed input: the requested input, or the input as edited by
	// approvers.
	digest   string
	reported bool
	// announced is the digest of the call that the gateway's own MCP server would receive, before
	// any edit by approvers; "" for other tools.
	announced string
	// answer is the approvers' answer, if they were asked; arrived is true once the call reached
	// the gateway's own MCP server.
	answer  approval.Answer
	arrived bool
	// edited is the input as edited by approvers.
	edited json.RawMessage
	// handed is the agent's id of the call that received the permission, "" for none.
	handed string
}

func newVisit(a *Agent, m *Message, toolName string, stopping <-chan struct{}) *visit {
	return &visit{
		agent: a, msg: m, tool: toolName, stopping: stopping,
		reports: make(chan statement, 1), over: make(chan struct{}), began: make(chan struct{}), known: make(chan struct{}), ended: make(chan struct{}),
	}
}

type visitKey struct{}

// ReachesExecutors passes the visit of a call to the tools of agents (tool.Isolate).
func (visitKey) ReachesExecutors() {}

func withVisit(ctx context.Context, v *visit) context.Context {
	return context.WithValue(ctx, visitKey{}, v)
}

// visitOf returns the visit of a call in progress, nil for any other call.
func visitOf(ctx context.Context) *visit {
	v, _ := ctx.Value(visitKey{}).(*visit)
	return v
}

// answered records the approvers' answer.
func (v *visit) answered(a approval.Answer) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.answer = a
}

// bind records the proposal of the visit.
func (v *visit) bind(p tool.Proposal) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.proposal = p.ID
}

func (v *visit) id() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.proposal
}

func (v *visit) begin() { v.once.began.Do(func() { close(v.began) }) }
func (v *visit) knows() { v.once.known.Do(func() { close(v.known) }) }
func (v *visit) leave() { v.once.over.Do(func() { close(v.over) }) }
func (v *visit) close() { v.once.ended.Do(func() { close(v.ended) }) }

// hand gives the permission to the call that requests it. One decision is valid for one run: a
// request with another call id is refused.
func (v *visit) hand(to *visit, r row) Answer {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.handed != "" && v.handed != to.msg.CallID || v.reported {
		return Answer{Reason: reason.PermitRefused, Text: answerText(reason.PermitRefused, "the decision was already used by an identical call", "Make the call again.")}
	}
	v.handed = to.msg.CallID
	return Answer{Allowed: true, Own: r.own, Edited: v.edited, Text: v.notice()}
}

// notice returns the notice to the agent about an edited call. The answer with the names of the
// editors may arrive after the call was prepared, but not after its decision is known.
func (v *visit) notice() string {
	if v.edited == nil {
		return ""
	}
	by := "somebody"
	if m := v.answer.Amended(); m != nil {
		by = strings.Join(m.By(), ", ")
	}
	return "palyra: executed_as_edited: " + by + " changed the input of this call before it was approved; it runs with this input instead: " + string(v.edited)
}

// edit records the allowed input if it differs from the requested one.
func (v *visit) edit(p tool.Proposal) {
	v.mu.Lock()
	defer v.mu.Unlock()
	digest := digestOf(p.Input)
	if digest == v.digest {
		return
	}
	v.edited, v.digest = p.Input, digest
}

// decided returns the digest of the allowed or requested input.
func (v *visit) decided() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.digest
}

func (v *visit) hasBegun() bool { return closed(v.began) }

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// report accepts the first report of the agent. It returns whether the report is the first, and
// whether it is in time.
func (v *visit) report(s statement) (first, inTime bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.reported {
		return false, false
	}
	v.reported = true
	if closed(v.ended) || closed(v.over) {
		return true, false
	}
	v.reports <- s
	return true, true
}

// digestOf returns the digest of JSON in its canonical form, "" if it has none.
func digestOf(input []byte) string {
	text, err := canonical.JSON(input)
	if err != nil {
		return ""
	}
	return canonical.Digest(text)
}
