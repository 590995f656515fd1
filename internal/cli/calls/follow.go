package calls

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"connectrpc.com/connect"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/calls/ask"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/core/reason"
)

// callRun follows the events of one call.
type callRun struct {
	a    *app
	g    *client.Gateway
	tool string
	// key and session identify the call: a repeated call with both returns the result of this one.
	key, session string

	proposed *palyrav1.ToolProposed
	// waiting is the approval that the call waits for, or nil.
	waiting *palyrav1.Approval
	// answered is true once an approval was answered.
	answered bool
	question *ask.Question
	decision *palyrav1.ToolDecision
	// parts are the received bytes of the result; last is its last message.
	parts    []byte
	last     *palyrav1.ToolResult
	attested *palyrav1.ToolAttestation
	// shown is true if output was printed while the tool ran.
	shown    outputPrinter
	progress *time.Timer
}

// run sends the proposal and follows the call to its end.
func (c *callRun) run(ctx context.Context, req *palyrav1.CallToolRequest) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.g.Calls.CallTool(ctx, req)
	if err != nil {
		return c.lost(ctx, err)
	}
	defer func() { _ = stream.Close() }()
	defer c.closeQuestion()
	defer c.stopProgress()
	for stream.Receive() {
		if err := c.event(ctx, stream.Msg()); err != nil {
			return err
		}
	}
	c.stopProgress()
	c.closeQuestion()
	if err := stream.Err(); err != nil && !c.complete() {
		return c.lost(ctx, err)
	}
	return c.finish()
}

func (c *callRun) complete() bool { return c.last != nil && !c.last.GetMore() }

func (c *callRun) event(ctx context.Context, msg *palyrav1.CallToolResponse) error {
	if c.a.Format() == printer.FormatNDJSON {
		if err := c.a.PrintNDJSON(printer.Document("CallEvent", printer.ProtoObject(msg))); err != nil {
			return err
		}
	}
	switch e := msg.GetEvent().(type) {
	case *palyrav1.CallToolResponse_Proposed:
		c.proposed = e.Proposed
		if e.Proposed.GetReplayed() {
			c.a.Say("this idempotency key was used before; these are the events of that call")
		}
	case *palyrav1.CallToolResponse_ApprovalRequested:
		c.asked(ctx, e.ApprovalRequested.GetApproval())
	case *palyrav1.CallToolResponse_ApprovalResolved:
		c.resolved(e.ApprovalResolved)
	case *palyrav1.CallToolResponse_Decision:
		c.decision = e.Decision
		c.sayGrant()
		c.startProgress()
	case *palyrav1.CallToolResponse_Output:
		c.stopProgress()
		return c.shown.chunk(c.a, e.Output)
	case *palyrav1.CallToolResponse_Result:
		c.stopProgress()
		if lines := ask.EditedLines(e.Result.GetExecutedAsEdited()); len(lines) > 0 {
			for _, line := range lines {
				c.a.Say("%s", line)
			}
		}
		c.parts = append(c.parts, e.Result.GetResultJson()...)
		c.last = e.Result
	case *palyrav1.CallToolResponse_Attestation:
		c.attested = e.Attestation
	}
	return nil
}

// asked asks a user at the terminal who may answer the approval, or prints how to answer it.
func (c *callRun) asked(ctx context.Context, v *palyrav1.Approval) {
	c.stopProgress()
	c.waiting = v
	if _, ok := ask.Answerer(ctx, c.a.App, c.g, v); ok {
		c.question = ask.New(c.a.App, c.g, v, ask.Unary(c.g))
		c.question.Put(ctx)
		return
	}
	ask.SayHowToAnswer(ctx, c.a.App, c.g, v)
}

// sayGrant prints the grant that allowed the call without approval.
func (c *callRun) sayGrant() {
	if d := c.decision; d.GetAllowed() && d.GetGrantId() != "" && !c.answered {
		c.a.Say("%s", ask.ByGrant(d))
	}
}

func (c *callRun) closeQuestion() {
	if c.question != nil {
		c.question.Close()
		c.question = nil
	}
}

func (c *callRun) resolved(r *palyrav1.ApprovalResolved) {
	c.waiting, c.answered = nil, true
	c.closeQuestion()
	c.a.Say("approval %s: %s", r.GetApprovalId(), ask.ResolvedWord(r))
}

// lost explains a stream that ended before the result.
func (c *callRun) lost(ctx context.Context, err error) error {
	if ctx.Err() != nil && client.IsCancelled(err) {
		c.sayInterrupted()
		return command.Exit(reason.Lookup(reason.Cancelled).Exit)
	}
	remote := client.AsRemote(err)
	unsent := c.proposed == nil && remote.Code() == connect.CodeUnavailable
	if unsent || client.ErrorInfo(remote) != nil {
		return err
	}
	e := client.Explain(nil, err)
	return e.WithRemedy("The call may have run. Repeat it with %s: this returns its result without running it twice.", c.again())
}

// again returns the flags that repeat the same call from any terminal.
func (c *callRun) again() string {
	if c.session == "" {
		return "--idempotency-key " + c.key
	}
	return "--session " + c.session + " --idempotency-key " + c.key
}

// sayInterrupted prints that the call continues without its client, and how to end it or get
// its result.
func (c *callRun) sayInterrupted() {
	switch {
	case c.decision != nil && !c.decision.GetAllowed():
		c.a.Say("\ninterrupted: the call was denied; nothing ran")
	case c.waiting != nil && c.decision != nil:
		id := c.waiting.GetApprovalId()
		c.a.Say("\ninterrupted: the changes of the call are still waiting for approval %s and will be committed if it is allowed", id)
		c.a.Say("  discard it:      palyra approvals cancel %s", id)
		c.a.Say("  get its result:  the same palyra call with %s", c.again())
	case c.waiting != nil:
		id := c.waiting.GetApprovalId()
		c.a.Say("\ninterrupted: the call is still waiting for approval %s and will run if it is allowed", id)
		c.a.Say("  withdraw it:     palyra approvals cancel %s", id)
		c.a.Say("  get its result:  the same palyra call with %s", c.again())
	case c.decision != nil:
		c.a.Say("\ninterrupted: the call continues")
		c.a.Say("  end it:          palyra calls cancel %s", c.proposed.GetProposalId())
		c.a.Say("  get its result:  the same palyra call with %s", c.again())
	default:
		c.a.Say("\ninterrupted: if the gateway received the call, it continues")
		c.a.Say("  get its result:  the same palyra call with %s", c.again())
	}
}

// finish prints the result, or why none exists, and selects the exit code.
func (c *callRun) finish() error {
	if c.decision != nil && !c.decision.GetAllowed() {
		return c.denied()
	}
	if !c.complete() {
		return reason.Errorf(reason.OutcomeUnknown, "the gateway ended the stream without a result").
			WithRemedy("Repeat it with %s: this returns its result without running it twice.", c.again())
	}
	sum := sha256.Sum256(c.parts)
	if got := "sha256:" + hex.EncodeToString(sum[:]); c.last.GetExecutionDigest() != "" && got != c.last.GetExecutionDigest() {
		return reason.Errorf(reason.VerificationFailed, "the result does not match the recorded one").
			WithField("received", got).WithField("recorded", c.last.GetExecutionDigest())
	}
	if err := c.printResult(); err != nil {
		return err
	}
	return c.verdict()
}

// denied prints why the call was denied.
func (c *callRun) denied() error {
	d := c.decision
	e := client.Failure(d.GetReason(), d.GetMessage(), d.GetRemedy())
	for _, line := range ask.DeterminingLines(d.GetDetermining()) {
		c.a.Say("  %s", line)
	}
	if c.a.Format() == printer.FormatName && c.proposed != nil {
		if err := c.a.WriteOut(printer.VisibleLine(c.proposed.GetProposalId()) + "\n"); err != nil {
			return err
		}
	}
	return e
}

// verdict returns the error of a dispatched call, which selects the exit code; nil for a
// success. A program that exits by itself is a success, with any exit code.
func (c *callRun) verdict() error {
	r := c.last
	if r.GetOutcome() == "succeeded" {
		return nil
	}
	byOutcome := map[string]reason.Code{
		"timed_out": reason.TimedOut, "cancelled": reason.Cancelled, "ambiguous": reason.OutcomeUnknown,
	}[r.GetOutcome()]
	code := cmp.Or(reason.Code(r.GetReason()), byOutcome, reason.ToolFailed)
	return client.Failure(string(code), r.GetMessage(), r.GetRemedy())
}

func (c *callRun) startProgress() {
	if c.a.ErrTerminal && c.decision.GetAllowed() {
		c.progress = time.AfterFunc(client.Patience, func() { c.a.Say("running %s ...", c.tool) })
	}
}

func (c *callRun) stopProgress() {
	if c.progress != nil {
		c.progress.Stop()
	}
}
