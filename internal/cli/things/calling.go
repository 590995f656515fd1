package things

import (
	"context"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/calls/ask"
	"palyra/internal/cli/client"
	"palyra/internal/core/reason"
)

// startTool is the tool that starts an upstream server whose program receives secrets by value.
// Each such server has one.
const startTool = "mcp.start"

// started starts and inspects a server that gets secrets. If the start is denied, it returns
// the error, and the server is unchanged.
func (a *upstreamCommands) started(ctx context.Context, g *client.Gateway, up *palyrav1.Upstream) (*palyrav1.Upstream, error) {
	s := up.GetServer()
	if len(s.GetInject()) == 0 {
		return up, nil
	}
	if _, err := a.call(ctx, g, s.GetName()+"/"+startTool, nil, "starting "+s.GetName()+" ..."); err != nil {
		a.Say("%s was not started: run `palyra mcp refresh %s` to try again", s.GetName(), s.GetName())
		return nil, err
	}
	reply, err := g.Mcp.RefreshUpstream(ctx, &palyrav1.RefreshUpstreamRequest{Name: s.GetName()})
	return reply.GetUpstream(), err
}

// refreshed reconnects to a server.
func (a *upstreamCommands) refreshed(ctx context.Context, g *client.Gateway, name string) (*palyrav1.Upstream, error) {
	known, err := g.Mcp.GetUpstream(ctx, &palyrav1.GetUpstreamRequest{Name: name})
	if err != nil {
		return nil, err
	}
	if up := known.GetUpstream(); len(up.GetServer().GetInject()) > 0 {
		return a.started(ctx, g, up)
	}
	reply, err := g.Mcp.RefreshUpstream(ctx, &palyrav1.RefreshUpstreamRequest{Name: name})
	return reply.GetUpstream(), err
}

// call makes a tool call and asks for its approvals at the terminal. doing is printed when it is
// allowed.
func (a *upstreamCommands) call(ctx context.Context, g *client.Gateway, name string, input []byte, doing string) (result []byte, err error) {
	c := &calling{a: a, g: g, doing: doing}
	defer c.close()
	stream, err := g.Calls.CallTool(ctx, &palyrav1.CallToolRequest{Tool: name, InputJson: input, Session: a.Terminal, IdempotencyKey: ask.NewKey()})
	if err != nil {
		return nil, err
	}
	defer func() { _ = stream.Close() }()
	for stream.Receive() {
		c.event(ctx, stream.Msg())
	}
	if err := stream.Err(); err != nil && c.last == nil {
		return nil, err
	}
	return c.result, c.failure()
}

// calling follows a call.
type calling struct {
	a        *upstreamCommands
	g        *client.Gateway
	doing    string
	question *ask.Question
	decision *palyrav1.ToolDecision
	result   []byte
	last     *palyrav1.ToolResult
}

func (c *calling) close() {
	if c.question != nil {
		c.question.Close()
		c.question = nil
	}
}

func (c *calling) event(ctx context.Context, msg *palyrav1.CallToolResponse) {
	switch e := msg.GetEvent().(type) {
	case *palyrav1.CallToolResponse_ApprovalRequested:
		v := e.ApprovalRequested.GetApproval()
		if _, ok := ask.Answerer(ctx, c.a.App, c.g, v); !ok {
			ask.SayHowToAnswer(ctx, c.a.App, c.g, v)
			return
		}
		c.question = ask.New(c.a.App, c.g, v, ask.Unary(c.g))
		c.question.Put(ctx)
	case *palyrav1.CallToolResponse_ApprovalResolved:
		c.close()
		c.a.Say("approval %s: %s", e.ApprovalResolved.GetApprovalId(), ask.ResolvedWord(e.ApprovalResolved))
	case *palyrav1.CallToolResponse_Decision:
		if c.decision = e.Decision; c.decision.GetAllowed() {
			c.a.Say("%s", c.doing)
		}
	case *palyrav1.CallToolResponse_Result:
		c.result, c.last = append(c.result, e.Result.GetResultJson()...), e.Result
	}
}

// failure returns why the call failed, or nil.
func (c *calling) failure() error {
	if d := c.decision; d != nil && !d.GetAllowed() {
		return client.Failure(d.GetReason(), d.GetMessage(), d.GetRemedy())
	}
	switch r := c.last; {
	case r == nil || r.GetMore():
		return reason.Errorf(reason.OutcomeUnknown, "the gateway ended the stream without a result").WithRemedy("Run the command again.")
	case r.GetOutcome() != "succeeded":
		return client.Failure(r.GetReason(), r.GetMessage(), r.GetRemedy())
	}
	return nil
}
