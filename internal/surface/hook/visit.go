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

// visit is one call of an agent, from its hook's question to the agent's report.
type visit struct {
	agent *Agent
	msg   *Message
	// tool is the name of the tool, asked the digest of the canonical input that the agent
	// asked about.
	tool, asked string
	// said takes the one report of the agent, and over is closed when its session ends.
	said chan statement
	over chan struct{}
	// began is closed when the call was let run, and ended when nothing is waited for
	// any more. known is closed when all is known that was said before it.
	began, known, ended chan struct{}
	once                struct{ began, over, known, ended sync.Once }
	stopping            <-chan struct{}

	// mu guards what follows.
	mu       sync.Mutex
	proposal string
	// digest is of the input that is let run: the one asked for, or what people made of
	// it.
	digest   string
	reported bool
	// announced is the digest of the call that the gateway's own MCP server would get, as
	// it was before people were asked; "" for others.
	announced string
	// answer is what people said, where they were asked; arrived is true once the call
	// came to the gateway's own MCP server.
	answer  approval.Answer
	arrived bool
	// edited is the input that people made of it.
	edited json.RawMessage
	// handed is the agent's id of the call that was told that it may run, "" for none.
	handed string
}

func newVisit(a *Agent, m *Message, toolName string, stopping <-chan struct{}) *visit {
	return &visit{
		agent: a, msg: m, tool: toolName, stopping: stopping,
		said: make(chan statement, 1), over: make(chan struct{}), began: make(chan struct{}), known: make(chan struct{}), ended: make(chan struct{}),
	}
}

type visitKey struct{}

// ReachesExecutors lets the tools of agents see the visit that their call came by (tool.Isolate).
func (visitKey) ReachesExecutors() {}

func withVisit(ctx context.Context, v *visit) context.Context {
	return context.WithValue(ctx, visitKey{}, v)
}

// visitOf is the visit that a call under way belongs to, nil for any other call.
func visitOf(ctx context.Context) *visit {
	v, _ := ctx.Value(visitKey{}).(*visit)
	return v
}

// answered notes what people said.
func (v *visit) answered(a approval.Answer) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.answer = a
}

// bind notes the proposal that the visit became.
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

// hand gives the yes to the call that asks for it. One decision is good for one run:
// whoever comes for it under another name gets none.
func (v *visit) hand(to *visit, r row) Answer {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.handed != "" && v.handed != to.msg.CallID || v.reported {
		return Answer{Reason: reason.PermitRefused, Text: answerText(reason.PermitRefused, "the decision about the same call was used by the call before", "Make the call again.")}
	}
	v.handed = to.msg.CallID
	return Answer{Allowed: true, Own: r.own, Edited: v.edited, Text: v.notice()}
}

// notice returns what the agent reads of an edited call. The answer with the names of the
// editors may arrive after the call was prepared, but not after its decision is known.
func (v *visit) notice() string {
	if v.edited == nil {
		return ""
	}
	by := "somebody"
	if m := v.answer.Amended(); m != nil {
		by = strings.Join(m.By(), ", ")
	}
	return "palyra: executed_as_edited: " + by + " changed the input of this call before it was approved; what runs is not what was asked for: " + string(v.edited)
}

// edit notes the input that the call was let run with, if it is another than the agent
// asked about.
func (v *visit) edit(p tool.Proposal) {
	v.mu.Lock()
	defer v.mu.Unlock()
	digest := digestOf(p.Input)
	if digest == v.digest {
		return
	}
	v.edited, v.digest = p.Input, digest
}

// decided is the digest of the input that was let run, or is asked about.
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

// report takes the first report of the agent. It returns what there is to say of one
// that comes when it should not.
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
	v.said <- s
	return true, true
}

// digestOf is the digest of JSON in its canonical form, "" for what has none.
func digestOf(input []byte) string {
	text, err := canonical.JSON(input)
	if err != nil {
		return ""
	}
	return canonical.Digest(text)
}
