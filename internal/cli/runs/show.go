package runs

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/calls/ask"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/core/text"
	"palyra/internal/evidence/attest"
)

func (a *app) runsShow() *cobra.Command {
	return &cobra.Command{
		Use:   "show ID",
		Short: "Show one run with the timeline of its calls",
		Long: "Show one run: its record, and for each call when it was proposed, asked about,\n" +
			"answered, decided and done, with the ids of approval, decision and attestation.\n" +
			"Of a run that goes on, it shows what happened so far.",
		Example:           "palyra runs show 01J...\npalyra runs show 01J... -o json",
		Args:              command.Args(1, 1),
		ValidArgsFunction: a.completeRuns(false),
		RunE:              a.Connected(func(ctx context.Context, g *client.Gateway, given []string) error { return a.showRun(ctx, g, given[0]) }),
	}
}

func (a *app) showRun(ctx context.Context, g *client.Gateway, id string) error {
	id, err := findRun(ctx, g, id)
	if err != nil {
		return err
	}
	reply, err := g.Calls.GetRun(ctx, &palyrav1.GetRunRequest{RunId: id})
	if err != nil {
		return err
	}
	r := reply.GetRun()
	story := &runStory{known: map[string]*callStory{}}
	if err := readTape(ctx, g, id, reply.GetLastSequence(), story.add); err != nil {
		return err
	}
	rec := a.runRecord(r)
	rec.Body = append(rec.Body, printer.Member{"calls", story.objects()}, printer.Member{"text", story.text})
	return a.PrintOne("Run", rec, func(p *printer.Page) { a.runPage(p, r, story) })
}

// readTape reads the events of a run up to the sequence number last, because the tape of an
// active run has no end.
func readTape(ctx context.Context, g *client.Gateway, id string, last int64, add func(*palyrav1.RunEvent)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := g.Calls.WatchRun(ctx, &palyrav1.WatchRunRequest{RunId: id})
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }()
	for stream.Receive() {
		e := stream.Msg().GetEvent()
		switch {
		case e == nil: // opens the stream
			continue
		case e.GetSequence() <= last:
			add(e)
		}
		if e.GetSequence() >= last {
			return nil
		}
	}
	return stream.Err()
}

// runStory contains the calls and the last answer of a tape.
type runStory struct {
	calls []*callStory
	known map[string]*callStory
	text  string
}

// callStory contains the steps of one call, in order.
type callStory struct {
	tool  string
	input []byte
	steps []callStep
	// egress is the network data of its attestation, nil before it exists.
	egress *attest.Egress
}

// callStep is one step of a call. id is the id of the proposal, approval, decision or attestation.
type callStep struct {
	at   *timestamppb.Timestamp
	what string
	// kind is the type of the id; both are empty for a result.
	kind, id string
	reason   string
	// detail is how an approval ended, how long a call took, or the position of its attestation.
	detail string
}

func (s *runStory) add(e *palyrav1.RunEvent) {
	if turn := e.GetModelTurn(); turn != nil {
		s.text = turn.GetText()
		for _, c := range turn.GetCalls() {
			s.known[c.GetCallId()] = s.begin(c.GetTool(), c.GetInput())
		}
		return
	}
	step, ok := stepOf(e)
	if !ok {
		return
	}
	c := s.of(e)
	if p := e.GetProposed(); p != nil {
		c.tool = p.GetTool()
	}
	if a := e.GetAttestation(); a != nil {
		// This is not verified here; `palyra attest show` verifies it.
		if statement, err := attest.Read(a.GetEnvelopeJson()); err == nil {
			c.egress = &statement.Predicate.Egress
		}
	}
	c.steps = append(c.steps, step)
}

func (s *runStory) begin(tool string, input []byte) *callStory {
	c := &callStory{tool: tool, input: input}
	s.calls = append(s.calls, c)
	return c
}

func (s *runStory) of(e *palyrav1.RunEvent) *callStory {
	if c := s.known[e.GetProposalId()]; c != nil && e.GetProposalId() != "" {
		return c
	}
	c := s.known[e.GetCallId()]
	if c == nil {
		c = s.begin("", nil)
	}
	s.known[e.GetProposalId()] = c
	return c
}

func stepOf(e *palyrav1.RunEvent) (step callStep, ok bool) {
	step.at = e.GetAt()
	switch m := e.GetEvent().(type) {
	case *palyrav1.RunEvent_Proposed:
		step.what, step.kind, step.id = "proposed", "proposal", m.Proposed.GetProposalId()
	case *palyrav1.RunEvent_ApprovalRequested:
		step.what, step.kind, step.id = "asked", "approval", m.ApprovalRequested.GetApproval().GetApprovalId()
	case *palyrav1.RunEvent_ApprovalResolved:
		step.what, step.kind, step.id = "answered", "approval", m.ApprovalResolved.GetApprovalId()
		step.detail = ask.ResolvedWord(m.ApprovalResolved)
	case *palyrav1.RunEvent_Decision:
		step.what, step.kind, step.id = "denied", "decision", m.Decision.GetDecisionId()
		if m.Decision.GetAllowed() {
			step.what = "allowed"
		}
		step.reason = m.Decision.GetReason()
	case *palyrav1.RunEvent_Result:
		if m.Result.GetMore() {
			return step, false
		}
		step.what, step.reason = m.Result.GetOutcome(), m.Result.GetReason()
		if d := m.Result.GetDuration(); d != nil {
			step.detail = tidy(d.AsDuration())
		}
	case *palyrav1.RunEvent_Attestation:
		step.what, step.kind, step.id = "attested", "attestation", m.Attestation.GetAttestationId()
		step.detail = fmt.Sprintf("journal %d", m.Attestation.GetJournalSeq())
	default:
		return step, false
	}
	return step, true
}

// objects is the timeline for machines.
func (s *runStory) objects() []any {
	out := make([]any, len(s.calls))
	for i, c := range s.calls {
		steps := make([]any, len(c.steps))
		for n, step := range c.steps {
			steps[n] = printer.Object{{"at", printer.Stamp(step.at)}, {"what", step.what}, {"kind", step.kind}, {"id", step.id}, {"reason", step.reason}, {"detail", step.detail}}
		}
		out[i] = printer.Object{{"call", i + 1}, {"tool", c.tool}, {"input", string(c.input)}, {"steps", steps}, {"egress", c.egress}}
	}
	return out
}

// mostConnections is the maximum number of listed connections per call.
const mostConnections = 20

func (a *app) runPage(p *printer.Page, r *palyrav1.Run, story *runStory) {
	p.Field("run", r.GetRunId())
	p.Field("state", printer.Enum(r.GetState()))
	p.Field("reason", r.GetReason())
	p.Field("because", r.GetDetail())
	p.Field("cancelled by", r.GetCancelledBy())
	p.Field("next", r.GetRemedy())
	if task := strings.TrimSpace(r.GetMessage()); strings.Contains(task, "\n") {
		p.Block("task", task)
	} else {
		p.Field("task", task)
	}
	p.Field("model", r.GetModel())
	p.Field("workspace", r.GetWorkspace())
	p.Field("for", printer.OnBehalf(r.GetPrincipal(), r.GetOnBehalfOf()))
	p.Field("session", r.GetSession())
	p.Field("started", a.Moment(r.GetStartedAt()))
	p.Field("ended", a.Moment(r.GetEndedAt()))
	p.Field("used", runUsed(r))
	p.Field("at most", runAllowed(r.GetBudget()))
	for i, c := range story.calls {
		p.Gap()
		p.Heading("[%d] %s", i+1, c.tool)
		if input := ask.Arguments(c.input); input != "" {
			p.Item(input)
		}
		callSteps(p, c)
		if c.egress != nil && len(c.egress.Observed) > 0 {
			ask.Ledger(p, *c.egress, mostConnections)
		}
	}
	if story.text != "" {
		p.Gap()
		p.Block("last answer", story.text)
	}
}

func runUsed(r *palyrav1.Run) string {
	u := r.GetUsage()
	return fmt.Sprintf("%s, %s, %s in, %d out, %s", text.Plural(int(u.GetCalls()), "call"), text.Plural(int(u.GetTurns()), "turn"),
		text.Plural(int(u.GetInputTokens()), "token"), u.GetOutputTokens(), tidy(u.GetWallClock().AsDuration()))
}

func runAllowed(b *palyrav1.RunBudget) string {
	if b == nil {
		return ""
	}
	return fmt.Sprintf("%s, %s, %s", text.Plural(int(b.GetCalls()), "call"), text.Plural(int(b.GetTokens()), "token"), printer.Span(b.GetWallClock().AsDuration()))
}

// callSteps prints one line for each step of a call.
func callSteps(p *printer.Page, c *callStory) {
	for _, step := range c.steps {
		var more []string
		for _, part := range []string{strings.TrimSpace(step.kind + " " + step.id), step.reason, step.detail} {
			if part != "" {
				more = append(more, part)
			}
		}
		p.Item(fmt.Sprintf("%s  %-10s %s", step.at.AsTime().UTC().Format("15:04:05.000"), step.what, strings.Join(more, ", ")))
	}
}
