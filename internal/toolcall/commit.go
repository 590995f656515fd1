package toolcall

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"palyra/internal/approval"
	"palyra/internal/callrecord"
	"palyra/internal/canonical"
	"palyra/internal/decision"
	"palyra/internal/event"
	"palyra/internal/policy"
	"palyra/internal/reason"
	"palyra/internal/tool"
)

const (
	// mostProtected bounds the protected paths of one commit: nobody could look
	// at more.
	mostProtected = 1000
	// mostNamed bounds the paths that a note lists, and the bytes of those that
	// a subject does.
	mostNamed, mostSubject = 20, 512
)

// commit decides whether what a call changed in its copy of a workspace may be
// applied. It is a decision of its own: policy is asked about workspace.commit,
// people where policy wants them, and the answer is durable before it is
// returned. Whatever goes wrong keeps the workspace as it is.
//
// ctx is the call's. Its end ends the wait, and the changes are discarded.
func (c *call) commit(ctx context.Context, r *tool.CommitRequest, observe func(Event)) (tool.CommitRuling, error) {
	g, err := c.gate(r, observe)
	if err != nil {
		return tool.CommitRuling{}, err
	}
	return g.pass(ctx, r)
}

// gate is the call as it waits for the commit of its changes: what it is
// decided by is the change set, in the place of the arguments.
func (c *call) gate(r *tool.CommitRequest, observe func(Event)) (*call, error) {
	g := *c
	g.gateOf = c
	g.observe, g.pending, g.verdict, g.answer, g.waited = observe, Entry{}, policy.Verdict{}, approval.Answer{}, false

	facts := r.Facts
	if len(facts.Protected) > mostProtected {
		facts.Protected = facts.Protected[:mostProtected]
	}
	arguments, err := canonical.Marshal(commitArguments{facts})
	if err != nil {
		return nil, err
	}
	g.proposal.Input, g.proposal.Tool.SecretPaths = arguments, nil
	g.proposal.Tool.Title = "Commit changes to workspace " + facts.Workspace
	g.subjectID = approval.CommitSubject + facts.Workspace + ":" + facts.Root

	if g.plan.Subject, err = commitSubject(facts, c.plan.Subject); err != nil {
		return nil, err
	}
	g.plan.Binding.Arguments = arguments
	g.plan.Preview = r.Preview
	g.plan.Preview.Notes = slices.Concat(r.Preview.Notes, commitNotes(facts))
	if g.plan.Preview.Summary == "" {
		g.plan.Preview.Summary = fmt.Sprintf("Apply to workspace %s what the call changed: %d added, %d modified, %d deleted.",
			facts.Workspace, facts.Added, facts.Modified, facts.Deleted)
	}
	if g.digest, err = g.plan.Binding.Digest(); err != nil {
		return nil, err
	}
	g.request.Args, g.request.Commit, g.request.Time = nil, &facts, time.Now().UTC()
	g.request.SessionFacts = c.counted.Facts()
	return &g, nil
}

// commitArguments is what an approval of a commit binds to, beside the call.
type commitArguments struct {
	Commit tool.CommitFacts `json:"commit"`
}

// commitSubject is what a grant with the matcher subject covers: changes by the
// same program to the same workspace, of exactly the same protected paths.
func commitSubject(f tool.CommitFacts, by string) (string, error) {
	paths, err := canonical.Marshal(notNil(f.Protected))
	if err != nil {
		return "", err
	}
	what := string(paths)
	if len(what) > mostSubject {
		what = fmt.Sprintf("%d protected paths, %s", len(f.Protected), canonical.Digest(paths))
	}
	subject := approval.CommitSubject + f.Workspace + ":" + what
	if by != "" {
		subject += " by " + by
	}
	return subject, nil
}

// commitNotes say what a person should look at.
func commitNotes(f tool.CommitFacts) []string {
	var notes []string
	if len(f.Protected) > 0 {
		named := f.Protected[:min(len(f.Protected), mostNamed)]
		note := "Protected paths: " + strings.Join(named, ", ")
		if more := len(f.Protected) - len(named); more > 0 {
			note += fmt.Sprintf(", and %d more that the arguments list", more)
		}
		notes = append(notes, note)
	}
	if len(f.Classes) > 0 {
		notes = append(notes, "They are protected because of: "+strings.Join(f.Classes, ", "))
	}
	if f.ExitCode != 0 {
		notes = append(notes, fmt.Sprintf("The program ended with exit code %d.", f.ExitCode))
	}
	return notes
}

// pass settles the commit and records what came of it.
func (c *call) pass(ctx context.Context, r *tool.CommitRequest) (tool.CommitRuling, error) {
	payload, err := c.gatedPayload(r)
	if err != nil {
		return tool.CommitRuling{}, err
	}
	why := c.settleCommit(ctx, r)
	if reason.Of(why) == reason.JournalUnavailable {
		return tool.CommitRuling{}, why
	}
	if why = cut(ctx, why); why != nil {
		why = c.because(ctx, why)
	}
	rule(&payload, c.commitDecision(), why)
	if c.verdict.SnapshotDigest() != "" {
		verdict := callrecord.VerdictOf(c.verdict)
		payload.Verdict = &verdict
	}
	if err := c.writeGated(ctx, &payload); err != nil {
		return tool.CommitRuling{}, err
	}
	// A revoke, a freeze and the end of the call beat a yes that is recorded.
	if payload.Allowed {
		if err := cut(ctx, c.Approver.Recheck(ctx, c.answer)); err != nil {
			rule(&payload, decision.Record{}, c.because(ctx, err))
		}
	}
	ruling := rulingOf(&payload)
	c.observe(Event{Ruling: &ruling})
	return ruling, nil
}

// settleCommit gets verdict and answer, unless the changes are too many to
// decide on or the call has ended.
func (c *call) settleCommit(ctx context.Context, r *tool.CommitRequest) error {
	if n := len(r.Facts.Protected); n > mostProtected {
		return reason.Errorf(reason.CommitRefused, "%d protected paths changed, and at most %d are decided on at once", n, mostProtected)
	}
	if err := cut(ctx, nil); err != nil {
		return err
	}
	// A stop of the gateway ends the question, too: what it is about is gone then.
	asking, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, stop)()
	return c.settle(asking)
}

// cut is why the call ended, if it did, else err.
func cut(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	known := &reason.Error{}
	switch cause := context.Cause(ctx); {
	case errors.As(cause, &known):
		return known
	case errors.Is(cause, context.DeadlineExceeded):
		return reason.Errorf(reason.TimedOut, "the call ran into its deadline while it waited")
	default:
		return reason.Errorf(reason.Cancelled, "the call was cancelled while it waited: %w", cause)
	}
}

// commitDecision is what verdict and answer come to. The permit that goes with a
// decision is for starting a call, so that nobody gets it.
func (c *call) commitDecision() decision.Record {
	record, _ := decision.Make(decision.Input{
		DecisionID: ulid.Make().String(), ProposalID: c.proposal.ID, CallDigest: c.digest, FactsDigest: policy.BoundDigest(c.plan),
		Verdict: c.verdict, Answer: c.answer, Budget: c.budget, Now: time.Now().UTC(),
	})
	return record
}

// gatedPayload begins the payload of event.Gated.
func (c *call) gatedPayload(r *tool.CommitRequest) (callrecord.Gated, error) {
	p := callrecord.Gated{
		ProposalID: c.proposal.ID, DecisionID: c.decisionID, CallDigest: c.digest, Facts: *c.request.Commit, Files: r.Files,
	}
	files, err := canonical.Marshal(notNil(r.Files))
	if err != nil {
		return p, err
	}
	if len(files) > inlineArguments {
		p.Files, p.FilesBlob = nil, canonical.Digest(files)
		c.pending.Blobs = append(c.pending.Blobs, files)
	}
	return p, nil
}

// writeGated makes the ruling durable. An approval or grant is used up in the
// same transaction; when somebody was faster, the ruling is a refusal.
func (c *call) writeGated(ctx context.Context, p *callrecord.Gated) error {
	if !p.Allowed || !usesAnswer(c.answer) {
		c.Approver.Release(c.answer)
		return c.flushGated(ctx, p)
	}
	if err := c.flush(ctx); err != nil {
		return err
	}
	if err := c.draftRedacted(event.Gated, p); err != nil {
		return err
	}
	draft := c.pending.Drafts[0]
	c.pending.Drafts = nil
	err := c.Approver.Consume(context.WithoutCancel(ctx), c.answer, draft)
	if lost := answerLost(err); lost != nil {
		rule(p, decision.Record{}, lost)
		return c.flushGated(ctx, p)
	}
	return unwritten(err)
}

func (c *call) flushGated(ctx context.Context, p *callrecord.Gated) error {
	if err := c.draftRedacted(event.Gated, p); err != nil {
		return err
	}
	return c.flush(ctx)
}

// rule sets what was decided; why, unless nil, refuses.
func rule(p *callrecord.Gated, d decision.Record, why error) {
	p.Allowed, p.ApprovalID, p.GrantID = d.Allowed, d.ApprovalID, d.GrantID
	p.Reason, p.Message, p.Remedy = d.Reason, d.Message, d.Remedy
	if p.Reason == reason.PolicyDenied {
		p.Reason, p.Message = reason.CommitRefused, "policy does not allow these changes; the workspace is as it was"
	}
	if why == nil {
		return
	}
	known := &reason.Error{}
	if !errors.As(why, &known) {
		known = reason.Errorf(reason.Internal, "%s", reason.Lookup(reason.Internal).Sentence)
	}
	p.Allowed, p.Reason, p.Message, p.Remedy = false, known.Code, known.Message, known.NextStep()
}

func rulingOf(p *callrecord.Gated) tool.CommitRuling {
	return tool.CommitRuling{
		Allowed: p.Allowed, ApprovalID: p.ApprovalID, GrantID: p.GrantID,
		Reason: string(p.Reason), Message: p.Message, Remedy: p.Remedy,
	}
}

func notNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
