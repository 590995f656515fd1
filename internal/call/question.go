package call

import (
	"context"
	"errors"
	"slices"

	"palyra/internal/call/approval"
	"palyra/internal/call/policy"
	"palyra/internal/call/record"
	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// question is what policy judges, and people where policy requires it: a call, the changes of a
// call, or the use of a secret by its program. A question MUST NOT change after the function that
// built it returned: a later version, for example with current facts, is a new question.
type question struct {
	*scope
	proposed *proposed
	// ofCall is the question about the call, if this one is about its changes or a secret.
	ofCall   *question
	proposal tool.Proposal
	plan     tool.Plan
	// conflict is set if the content of files prevents the call. It is returned only if policy
	// does not deny the call.
	conflict *tool.RestrictedError
	digest   string
	request  policy.Request
	// argumentsDigest is the digest of the input in the evidence.
	argumentsDigest string
	// edited and edits describe how people changed the call; both are nil for an unedited call.
	edited *tool.Edited
	edits  []approval.Edit
	// subjectType and subjectID are the subject of the approval, "" for the call itself.
	subjectType approval.SubjectType
	subjectID   string
}

// plan determines the effects of the call, as facts for policy. With an error, the question has
// the files that planning read.
func (c *call) plan(ctx context.Context, p *proposed, session tool.SessionFacts) (*question, error) {
	q := &question{scope: &c.scope, proposed: p, proposal: p.proposal, argumentsDigest: p.argumentsDigest}
	var err error
	if q.plan, err = c.Dispatcher.Plan(ctx, q.proposal); errors.As(err, &q.conflict) {
		q.plan, err = q.conflict.Plan, nil
	}
	if err != nil {
		return q, err
	}
	if c.elsewhere {
		q.plan.RunElsewhere()
	}
	if q.digest, err = q.plan.Binding.Digest(); err != nil {
		return q, err
	}
	q.request = c.policyRequest(p, &q.plan, session)
	return q, nil
}

// capabilities returns the capabilities that a call of a tool requests.
func capabilities(d *tool.Descriptor, facts *tool.Facts) []tool.Capability {
	if len(facts.Secrets) > 0 && !slices.Contains(d.Capabilities, tool.SecretsRead) {
		return append(slices.Clone(d.Capabilities), tool.SecretsRead)
	}
	return d.Capabilities
}

// policyRequest returns the planned call as a policy request.
func (c *call) policyRequest(p *proposed, plan *tool.Plan, session tool.SessionFacts) policy.Request {
	return policy.Request{
		Caller:          c.sub.Caller,
		Tool:            p.proposal.Tool.Name,
		Capabilities:    capabilities(&p.proposal.Tool, &plan.Facts),
		Args:            p.proposal.Input,
		Session:         p.proposal.Session,
		Run:             p.proposal.Run,
		GatewaySession:  c.sessionID(),
		Channel:         p.proposal.Channel,
		SkillID:         p.proposal.Tool.Skill,
		RequesterReason: p.reason,
		Facts:           plan.Facts,
		SessionFacts:    session,
		Time:            c.proposedAt,
	}
}

// evaluated is a question with its verdict.
type evaluated struct {
	*question
	verdict policy.Verdict
}

// evaluate gets the verdict, and drafts it.
func (q *question) evaluate(ctx context.Context) (evaluated, error) {
	grants, err := q.grants(ctx)
	if err != nil {
		return evaluated{}, err
	}
	verdict, err := q.Evaluator.Evaluate(ctx, q.request, grants)
	switch {
	case err != nil && ctx.Err() != nil:
		return evaluated{}, reason.Errorf(reason.Cancelled, "the caller disconnected before the call was decided: %w", ctx.Err())
	case err != nil:
		return evaluated{}, reason.Errorf(reason.PolicyError, "policy could not be evaluated: %w", err)
	}
	e := evaluated{q, verdict}
	return e, e.draftVerdict()
}

func (e *evaluated) draftVerdict() error {
	request := e.request
	request.Args = nil
	return e.drafts.draftRedacted(event.Evaluated, record.Evaluated{
		ProposalID: e.proposal.ID, CallDigest: e.digest, Verdict: record.VerdictOf(e.verdict), Request: request, MaySend: e.plan.MaySend,
	})
}

// grants returns the matching standing grants. They never cover secrets or edited calls.
func (q *question) grants(ctx context.Context) ([]policy.Grant, error) {
	if q.request.Injection != nil || len(q.edits) > 0 {
		return nil, nil
	}
	list, err := q.Grants.Find(ctx, approval.QueryOf(&q.proposal, &q.plan, q.digest, q.subjectID))
	return policyGrants(list, q.LiveDevice, q.request.Time), err
}

// conflictError returns the reason why a call that policy does not deny cannot be made, with
// the details that its caller may read.
func (e *evaluated) conflictError() error {
	if e.conflict == nil || e.verdict.Effect() == policy.Deny {
		return nil
	}
	return tool.Disclose(e.conflict, e.mayDisclose)
}

// reasonGiven returns an error if the policies require a reason from the requester
// (@ask_reason) and the call has none: then no approval is requested.
func (e *evaluated) reasonGiven() error {
	question := e.verdict.AskReason()
	if question == "" || e.request.RequesterReason != "" {
		return nil
	}
	err := reason.Errorf(reason.RequestReasonNeeded, "policy requires a reason from the requester before approvers are asked: %s", question).WithField("question", question)
	if e.sub.ReasonBy != "" {
		err = err.WithRemedy("%s", e.sub.ReasonBy)
	}
	return err
}

// mayDisclose reports whether policy allows the caller, and the asker if set, to read all of
// the files without an approval. Votes on the call do not count, because they approve the
// call's effect only.
func (q *question) mayDisclose(files []tool.FileAccess) bool {
	asker := q.sub.Asker
	return q.mayDiscloseTo(q.sub.Caller, files) && (asker.Principal.IsZero() || q.mayDiscloseTo(asker, files))
}

// restricted reports whether the digest and the subject of the call would confirm a guess about
// files that its caller may not read. These files are the ones that planning inspected
// (existing or not), the operands, and a workspace program whose digest only approvers see.
func (q *question) restricted(ctx context.Context) bool {
	exec := q.plan.Facts.Exec
	return exec != nil && exec.Origin == tool.OriginWorkspace || q.plan.Unlisted || !q.mayDisclose(q.plan.Contents) ||
		slices.ContainsFunc(q.plan.Binding.Operands, func(o tool.Operand) bool {
			return !q.MayReadFile(ctx, q.sub.Caller, q.plan.Facts.Workspace, o.Path)
		})
}

func (q *question) mayDiscloseTo(reader access.Caller, files []tool.FileAccess) bool {
	set := q.Evaluator.Current()
	return !slices.ContainsFunc(files, func(f tool.FileAccess) bool {
		request := q.request
		request.Caller, request.Editors = reader, nil
		request.Tool, request.Args, request.Facts = f.Tool, f.Input, f.Facts
		request.Capabilities = []tool.Capability{tool.FilesystemRead}
		return set.Evaluate(request, nil).Effect() != policy.Allow
	})
}

// MayReadFile reports whether policy allows the caller to read a file of a workspace without an
// approval, as if by a call of fs.read. The caller needs no permission to make calls. path is
// relative to the workspace, and the file need not exist. The result is false if the request
// cannot be evaluated, and if the path leads to another file. In that case policy judged the
// other file's name, and not the name under which the content was read.
func (p *services) MayReadFile(ctx context.Context, caller access.Caller, workspace, path string) bool {
	input, err := canonical.Marshal(readInput{path, workspace})
	if err != nil {
		return false
	}
	q, err := p.planned(ctx, &Submission{Caller: caller, Tool: tool.ReadFile, Input: input})
	if err != nil {
		return false
	}
	return q.plan.Facts.Path == path && q.Evaluator.Current().Evaluate(q.request, nil).Effect() == policy.Allow
}

// readInput is the input of tool.ReadFile.
type readInput struct {
	Path      string `json:"path"`
	Workspace string `json:"workspace"`
}

// planned plans a call that is not made. The question is nil if the arguments are refused. It is
// not nil if planning fails, because planning may have read files.
func (p *services) planned(ctx context.Context, s *Submission) (*question, error) {
	c := newCall(p, s, nil, func(Event) {})
	checked, err := c.check()
	if err != nil {
		return nil, err
	}
	return c.plan(ctx, checked, tool.SessionFacts{CallsInRun: 1})
}
