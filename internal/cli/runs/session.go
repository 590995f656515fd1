package runs

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/calls/ask"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/core/reason"
)

// voteSettles is how long to wait for the effect of a vote on the stream before querying the
// gateway.
const voteSettles = time.Second

// voteTries is the maximum number of attempts to deliver a vote.
const voteTries = 5

// runSession follows a run over its link: it prints events, asks for approvals and messages, and
// converts Ctrl-C to a cancellation.
type runSession struct {
	a    *app
	g    *client.Gateway
	link *runLink
	// view is nil when every event is printed as a document instead.
	view *runView
	// watching is true for a read-only session, and interactive if the user can send messages.
	watching, interactive bool

	// id is the run's id, once it is known; seen is the last printed event.
	id   string
	seen int64
	// waiting are the approvals that the user was not asked about yet, in order.
	waiting  []*palyrav1.Approval
	question *ask.Question
	// refusals receives the refusals of the vote in flight.
	refusals chan *palyrav1.MessageRefused
	prompt   *messagePrompt
	// sent is a message that the run has not confirmed yet.
	sent string
	// losses counts the lost connections.
	losses int
	// answer is the text of the last turn.
	answer     string
	cancelling bool
	// idleSaid is the last printed waiting state.
	idleSaid string
}

// run follows the run to its end. An interrupt requests the end of the run and waits for it, so
// the work uses a context that outlives the interrupt.
func (s *runSession) run(ctx context.Context) error {
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		s.link.follow(work, s.a.Retry)
	}()
	defer func() {
		s.closePrompt()
		s.closeQuestion()
		stop()
		<-gone
	}()
	interrupted, again, release := ctx.Done(), (<-chan struct{})(nil), func() {}
	defer func() { release() }()
	idle := time.NewTimer(client.Patience)
	defer idle.Stop()
	for {
		select {
		case n := <-s.link.news:
			idle.Reset(client.Patience)
			if done, err := s.take(work, n); done {
				return err
			}
		case <-s.questionDone():
			s.closeQuestion()
			s.nextQuestion(work)
		case typed := <-s.promptLine():
			s.say(work, typed)
		case <-idle.C:
			s.sayIdle()
		case <-interrupted:
			if s.watching {
				return s.left()
			}
			var second context.Context
			second, release = s.a.Interrupt(work)
			interrupted, again = nil, second.Done()
			s.cancel()
		case <-again:
			return s.leave()
		}
	}
}

// take processes one item; done is true for the last.
func (s *runSession) take(ctx context.Context, n runNews) (done bool, err error) {
	switch {
	case n.end != nil:
		return true, s.lost(n.end)
	case n.lost > 0:
		s.losses++
		s.endLine()
		s.note("connection lost; trying again in %s", n.lost)
		if s.sent != "" {
			s.note("your last message may not have arrived; type it again if the model does not answer")
			s.sent = ""
			s.askMessage(ctx)
		}
		return false, nil
	case n.refused != nil:
		return false, s.refused(ctx, n.refused)
	}
	s.seen = n.event.GetSequence()
	if err := s.show(n.event); err != nil {
		return true, err
	}
	switch m := n.event.GetEvent().(type) {
	case *palyrav1.RunEvent_Started:
		s.id = m.Started.GetRun().GetRunId()
	case *palyrav1.RunEvent_UserMessage:
		s.sent = ""
	case *palyrav1.RunEvent_ModelTurn:
		s.answer, s.idleSaid = m.ModelTurn.GetText(), ""
		if len(m.ModelTurn.GetCalls()) == 0 {
			s.askMessage(ctx)
		}
	case *palyrav1.RunEvent_ApprovalRequested:
		s.waiting = append(s.waiting, m.ApprovalRequested.GetApproval())
		s.nextQuestion(ctx)
	case *palyrav1.RunEvent_ApprovalResolved:
		s.resolved(ctx, m.ApprovalResolved.GetApprovalId())
	case *palyrav1.RunEvent_Finished:
		s.closePrompt()
		s.closeQuestion()
		return true, s.finish(m.Finished.GetRun())
	}
	return false, nil
}

func (s *runSession) show(e *palyrav1.RunEvent) error {
	if s.view == nil {
		if s.a.Format() == printer.FormatNDJSON {
			return s.a.PrintNDJSON(printer.Document("RunEvent", printer.ProtoObject(e)))
		}
		return nil
	}
	if e.GetFinished() == nil { // the outcome is printed after the answer
		s.view.event(e)
	}
	return nil
}

// finish prints the answer and the outcome of the run, and selects the exit code.
func (s *runSession) finish(r *palyrav1.Run) error {
	if err := s.printAnswer(r); err != nil {
		return err
	}
	if s.view != nil {
		s.view.finished(r)
	}
	switch r.GetState() {
	case palyrav1.RunState_RUN_STATE_COMPLETED:
		return nil
	case palyrav1.RunState_RUN_STATE_CANCELLED:
		return command.Exit(reason.Lookup(reason.Code(cmp.Or(r.GetReason(), string(reason.Cancelled)))).Exit)
	}
	return client.Failure(r.GetReason(), r.GetDetail(), r.GetRemedy())
}

// printAnswer writes the run's answer to stdout, unless it is on the screen
// already.
func (s *runSession) printAnswer(r *palyrav1.Run) error {
	completed := r.GetState() == palyrav1.RunState_RUN_STATE_COMPLETED
	switch a := s.a; a.Format() {
	case printer.FormatNDJSON:
		return nil
	case printer.FormatName:
		return a.WriteOut(printer.VisibleLine(r.GetRunId()) + "\n")
	case printer.FormatJSON, printer.FormatYAML:
		result := printer.Object{{"run", printer.ProtoObject(r)}, {"text", ""}}
		if completed {
			result[1].Value = strings.ToValidUTF8(s.answer, "�")
		}
		if a.Format() == printer.FormatYAML {
			return a.PrintYAML(printer.Document("RunResult", result))
		}
		return a.PrintJSON(printer.Document("RunResult", result))
	}
	if !completed || s.view.live && s.a.OutTerminal {
		return nil
	}
	s.view.answer = ""
	if s.a.OutTerminal {
		return s.a.WriteOut(printer.WithNewline(printer.VisibleText(s.answer)))
	}
	return s.a.WriteOut(printer.WithNewline(s.answer))
}

// lost explains an end of the link before the end of the run.
func (s *runSession) lost(err error) error {
	s.endLine()
	if s.id != "" {
		return client.Explain(nil, err).WithRemedy("The run continues without this command: `palyra runs watch %s --after %d`.", s.id, s.seen)
	}
	return mayHaveStarted(err, s.losses > 0)
}

// mayHaveStarted adds a hint to an error if the gateway may have started the run: lost is true
// after an established connection was lost.
func mayHaveStarted(err error, lost bool) error {
	e := client.Explain(nil, err)
	if client.ErrorInfo(client.AsRemote(err)) != nil || e.Code == reason.NotConnected && !lost {
		return err
	}
	return e.WithRemedy("The run may have been started; look with `palyra runs list`.")
}

// left ends watching a run that continues.
func (s *runSession) left() error {
	s.endLine()
	s.a.Say("the run goes on; see it again with `palyra runs watch %s --after %d`", s.id, s.seen)
	return nil
}

// cancel asks for the run's end once.
func (s *runSession) cancel() {
	s.cancelling = true
	s.closePrompt()
	s.closeQuestion()
	s.endLine()
	s.a.Say("cancelling the run and waiting for its end; Ctrl-C again leaves at once")
	s.link.sendCancel("interrupted at the terminal")
}

// leave ends the command before the run, whose end was requested.
func (s *runSession) leave() error {
	s.endLine()
	if s.id == "" {
		s.a.Say("leaving; the gateway may have started the run: see `palyra runs list`")
	} else {
		s.a.Say("leaving; the run is being cancelled: see `palyra runs show %s`", s.id)
	}
	return command.Exit(reason.ExitFailure)
}

// refused prints that a message had no effect; a refused vote is passed to its sender.
func (s *runSession) refused(ctx context.Context, r *palyrav1.MessageRefused) error {
	if r.GetApprovalId() != "" && s.question != nil {
		select {
		case s.refusals <- r:
		default:
		}
		return nil
	}
	if s.view == nil && s.a.Format() == printer.FormatNDJSON {
		return s.a.PrintNDJSON(printer.Document("MessageRefused", printer.ProtoObject(r)))
	}
	s.endLine()
	s.a.PrintError(refusal(r))
	if s.sent != "" {
		s.sent = ""
		s.askMessage(ctx)
	}
	return nil
}

func refusal(r *palyrav1.MessageRefused) *reason.Error {
	return client.Failure(r.GetReason(), r.GetMessage(), r.GetRemedy())
}

// endLine ends an incomplete line of the model's text before other output.
func (s *runSession) endLine() {
	if s.view != nil {
		s.view.endText()
	}
}

// note prints a line that is not an event of the run.
func (s *runSession) note(format string, args ...any) {
	if s.view != nil {
		s.view.line(format, args...)
		return
	}
	s.a.Say(format, args...)
}

// sayIdle prints once what the run is waiting for.
func (s *runSession) sayIdle() {
	if s.view == nil || !s.view.live || s.question != nil || s.prompt != nil {
		return
	}
	text := "waiting for the model ..."
	if running, asked := s.view.calls.open(); len(running) > 0 {
		text = "running " + strings.Join(running, ", ") + " ..."
	} else if asked {
		return
	}
	if text != s.idleSaid {
		s.idleSaid = text
		s.view.line("%s", text)
	}
}

// nextQuestion asks a user who may answer about the first pending approval, or prints how to answer
// it.
func (s *runSession) nextQuestion(ctx context.Context) {
	for s.question == nil && len(s.waiting) > 0 && !s.cancelling {
		v := s.waiting[0]
		s.waiting = s.waiting[1:]
		if reply, err := s.g.Approvals.GetApproval(ctx, &palyrav1.GetApprovalRequest{ApprovalId: v.GetApprovalId()}); err == nil {
			v = reply.GetApproval()
		}
		if v.GetState() != palyrav1.ApprovalState_APPROVAL_STATE_PENDING {
			continue // its result is among the next events
		}
		s.endLine()
		me, ok := ask.Answerer(ctx, s.a.App, s.g, v)
		if !ok {
			ask.SayHowToAnswer(ctx, s.a.App, s.g, v)
			continue
		}
		s.closePrompt() // input is now the answer, not a message
		cast := ask.Unary(s.g)
		if !s.watching {
			s.refusals = make(chan *palyrav1.MessageRefused, 1)
			cast = func(ctx context.Context, vote *palyrav1.DecideApprovalRequest) (*palyrav1.Approval, error) {
				return s.castOnStream(ctx, vote, me, s.refusals)
			}
		}
		s.question = ask.New(s.a.App, s.g, v, cast)
		if s.view != nil {
			s.view.pause()
		}
		s.question.Put(ctx)
	}
}

// castOnStream votes over the run's stream. The stream reports a refusal and the end of the
// approval, which closes the question. It does not report a vote if more votes are missing.
// Data written while the connection breaks is lost, so a vote that the gateway did not receive
// is sent again.
func (s *runSession) castOnStream(ctx context.Context, vote *palyrav1.DecideApprovalRequest, me string, refusals <-chan *palyrav1.MessageRefused) (*palyrav1.Approval, error) {
	for try := range voteTries {
		if err := s.link.send(ctx, &palyrav1.RunStreamRequest{Message: &palyrav1.RunStreamRequest_Approval{Approval: vote}}); err != nil {
			return nil, err
		}
		var refused *palyrav1.MessageRefused
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case refused = <-refusals:
			if try == 0 {
				return nil, refusal(refused)
			} // an earlier attempt may have arrived
		case <-time.After(voteSettles):
		}
		v, err := s.voted(ctx, vote.GetApprovalId(), me)
		switch {
		case err == nil && v != nil:
			return v, nil
		case refused != nil:
			return nil, refusal(refused)
		case err != nil:
			return nil, err
		}
	}
	return nil, reason.Errorf(reason.NotConnected, "the answer did not reach the gateway")
}

// voted returns an approval that has the user's vote or is decided, nil if it is still pending.
func (s *runSession) voted(ctx context.Context, id, me string) (*palyrav1.Approval, error) {
	reply, err := s.g.Approvals.GetApproval(ctx, &palyrav1.GetApprovalRequest{ApprovalId: id})
	if err != nil {
		return nil, err
	}
	v := reply.GetApproval()
	mine := slices.ContainsFunc(v.GetVotes(), func(one *palyrav1.ApprovalVote) bool { return one.GetUser() == me })
	if v.GetState() == palyrav1.ApprovalState_APPROVAL_STATE_PENDING && !mine {
		return nil, nil
	}
	return v, nil
}

// resolved removes an answered approval.
func (s *runSession) resolved(ctx context.Context, id string) {
	s.waiting = slices.DeleteFunc(s.waiting, func(v *palyrav1.Approval) bool { return v.GetApprovalId() == id })
	if s.question != nil && s.question.ApprovalID() == id {
		s.closeQuestion()
	}
	s.nextQuestion(ctx)
}

func (s *runSession) closeQuestion() {
	if s.question == nil {
		return
	}
	s.question.Close()
	s.question = nil
	if s.view != nil {
		s.view.resume()
	}
}

func (s *runSession) questionDone() <-chan struct{} {
	if s.question == nil {
		return nil
	}
	return s.question.Done()
}
