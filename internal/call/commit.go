package call

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"palyra/internal/call/approval"
	"palyra/internal/call/decision"
	"palyra/internal/call/record"
	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

const (
	// mostProtected bounds the protected paths of one commit, so that a person can review them.
	mostProtected = 1000
	// mostNamed bounds the paths in a note, mostSubject the bytes of paths in a subject.
	mostNamed, mostSubject = 20, 512
)

// commit decides whether the changes of a call to its copy of a workspace may be applied. This
// is a separate decision: policy evaluates workspace.commit, people approve where policy
// requires it, and the ruling is durable before it is returned. On any error the workspace
// stays unchanged.
//
// ctx is the context of the call. When it ends, the wait ends and the changes are discarded.
func (d *decided) commit(ctx context.Context, r *tool.CommitRequest, observe func(Event)) (tool.CommitRuling, error) {
	g, err := d.gate(r, observe)
	if err != nil {
		return tool.CommitRuling{}, err
	}
	return g.pass(ctx, r)
}

// gate decides whether the changes of a call may be committed to its workspace. Its question is
// like the one about the call, with the change set in place of the arguments.
type gate struct {
	*question
	budget decision.Budget
	// ruled is the journaled form of the ruling.
	ruled record.Gated
}

func (d *decided) gate(r *tool.CommitRequest, observe func(Event)) (*gate, error) {
	facts := r.Facts
	if len(facts.Protected) > mostProtected {
		facts.Protected = facts.Protected[:mostProtected]
	}
	if len(facts.Top) > mostProtected {
		facts.Top = facts.Top[:mostProtected]
	}
	arguments, err := canonical.Marshal(commitArguments{facts})
	if err != nil {
		return nil, err
	}
	own := *d.scope
	own.drafts, own.observe = &drafts{ledger: d.Ledger, of: d.drafts.of}, observe
	g := &gate{budget: d.budget, question: &question{
		scope: &own, proposed: d.proposed, ofCall: d.question, proposal: d.proposal, plan: d.plan, request: d.request,
		subjectID: approval.CommitSubject + facts.Workspace + ":" + facts.Root,
	}}
	g.proposal.Input, g.proposal.Tool.SecretPaths = arguments, nil
	g.plan.Injections = nil
	g.proposal.Tool.Title = "Commit changes to workspace " + facts.Workspace

	if g.plan.Subject, err = commitSubject(facts, d.plan.Subject); err != nil {
		return nil, err
	}
	g.plan.SubjectCovers = commitCovers(facts, d.plan.SubjectCovers)
	g.plan.Binding.Arguments = arguments
	g.plan.Preview = r.Preview
	g.plan.Preview.Notes = slices.Concat(r.Preview.Notes, commitNotes(facts))
	if g.plan.Preview.Summary == "" {
		g.plan.Preview.Summary = fmt.Sprintf("Apply the changes of the call to workspace %s: %d added, %d modified, %d deleted.",
			facts.Workspace, facts.Added, facts.Modified, facts.Deleted)
	}
	if g.digest, err = g.plan.Binding.Digest(); err != nil {
		return nil, err
	}
	g.request.Args, g.request.Commit, g.request.Time = nil, &facts, time.Now().UTC()
	g.request.SessionFacts = d.counted.Facts()

	g.ruled = record.Gated{ProposalID: d.proposal.ID, DecisionID: d.record.ID, CallDigest: g.digest, Facts: facts, Files: r.Files}
	files, err := canonical.Marshal(canonical.List(r.Files))
	if err != nil {
		return nil, err
	}
	if len(files) > inlineArguments {
		g.ruled.Files, g.ruled.FilesBlob = nil, canonical.Digest(files)
		own.drafts.Blobs = append(own.drafts.Blobs, files)
	}
	return g, nil
}

// commitArguments is the part of a commit's approval binding that replaces the arguments.
type commitArguments struct {
	Commit tool.CommitFacts `json:"commit"`
}

// commitSubject is the subject that a grant with the matcher subject covers: changes by the
// same program to the same workspace, with exactly the same protected paths.
func commitSubject(f tool.CommitFacts, by string) (string, error) {
	paths, err := canonical.Marshal(canonical.List(f.Protected))
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

// commitCovers describes commitSubject in words: all changes of such calls to the same
// protected files.
func commitCovers(f tool.CommitFacts, by string) string {
	if by == "" || len(f.Protected) > mostNamed {
		return ""
	}
	where := "workspace " + f.Workspace
	if len(f.Protected) > 0 {
		where += ", of protected files exactly " + strings.Join(f.Protected, ", ")
	}
	return "whatever is changed in " + where + ", by " + by
}

// commitNotes lists the points that a reviewer should check.
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

// pass settles the commit and journals the ruling.
func (g *gate) pass(ctx context.Context, r *tool.CommitRequest) (tool.CommitRuling, error) {
	answered, err := g.settleCommit(ctx, r)
	if reason.Of(err) == reason.JournalUnavailable {
		return tool.CommitRuling{}, err
	}
	var why *reason.Error
	if err = cut(ctx, err); err != nil {
		why = g.because(ctx, err)
	}
	g.rule(decision.Make(answered.decisionInput()), why)
	if answered.verdict.SnapshotDigest() != "" {
		verdict := record.VerdictOf(answered.verdict)
		g.ruled.Verdict = &verdict
	}
	err = answered.writeDecision(ctx, g.ruled.Allowed,
		func() (event.Draft, error) { return newRedacted(event.Gated, &g.proposal, &g.ruled) },
		func(lost *reason.Error) { g.rule(decision.Record{}, lost) })
	if err != nil {
		return tool.CommitRuling{}, err
	}
	// A revocation (of the answer or the caller), a freeze, and the end of the call take
	// precedence over a recorded approval.
	if g.ruled.Allowed {
		if err := cut(ctx, answered.checkValid(ctx)); err != nil {
			g.rule(decision.Record{}, g.because(ctx, err))
		}
	}
	ruling := g.ruling()
	g.observe(Event{Ruling: &ruling})
	return ruling, nil
}

// settleCommit determines the verdict and the answer. It fails if the changes are too many to
// decide on, or if the call has ended. If it fails, the value has
// the verdict and the answer of that moment.
func (g *gate) settleCommit(ctx context.Context, r *tool.CommitRequest) (*answered, error) {
	unanswered := &answered{evaluated: evaluated{question: g.question}, budget: g.budget}
	if n := len(r.Facts.Protected); n > mostProtected {
		return unanswered, reason.Errorf(reason.CommitRefused, "deciding on the commit: %d protected paths changed, at most %d are allowed in one commit", n, mostProtected)
	}
	if n := len(r.Facts.Top); n > mostProtected {
		return unanswered, reason.Errorf(reason.CommitRefused, "deciding on the commit: %d top-level directories changed, at most %d are allowed in one commit", n, mostProtected)
	}
	if err := cut(ctx, nil); err != nil {
		return unanswered, err
	}
	// A stop of the gateway also ends the approval request, because the changes are lost then.
	asking, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, stop)()
	return g.settle(asking, g.budget)
}

// rule sets the decision. why is the refusal, if it is not nil.
func (g *gate) rule(d decision.Record, why *reason.Error) {
	p := &g.ruled
	p.Allowed, p.ApprovalID, p.GrantID = d.Allowed, d.ApprovalID, d.GrantID
	p.Reason, p.Message, p.Remedy = d.Reason, d.Message, d.Remedy
	if p.Reason == reason.PolicyDenied {
		p.Reason, p.Message = reason.CommitRefused, "policy does not allow these changes; the workspace is unchanged"
	}
	if why != nil {
		p.Allowed, p.Reason, p.Message, p.Remedy = false, why.Code, why.Message, why.NextStep()
	}
}

func (g *gate) ruling() tool.CommitRuling {
	p := &g.ruled
	return tool.CommitRuling{
		Allowed: p.Allowed, ApprovalID: p.ApprovalID, GrantID: p.GrantID,
		Reason: string(p.Reason), Message: p.Message, Remedy: p.Remedy,
	}
}
