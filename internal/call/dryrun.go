package call

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"palyra/internal/call/approval"
	"palyra/internal/call/policy"
	"palyra/internal/call/policy/policytests"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// DryRuns judges calls that are not made here.
type DryRuns struct{ *services }

// Evaluation is the policy verdict on a call that is not made.
type Evaluation struct {
	Verdict policy.Verdict
	// CallDigest, Plan.Subject and Plan.DeniedHosts are empty if the caller may not read the files of
	// the call.
	CallDigest string
	Plan       tool.Plan
	// Secrets are the verdicts on the secrets of the call's program; empty if the call itself
	// is denied.
	Secrets []SecretEvaluation
	// ReasonWanted is the reason that policy requires from the requester before approvers are
	// asked about the call or one of its secrets; "" if none is required or one was given.
	ReasonWanted string
	// Frozen is true while the gateway is frozen and would refuse the call.
	Frozen bool
}

// SecretEvaluation is the policy verdict on one secret of a call.
type SecretEvaluation struct {
	Injection tool.Injection
	Verdict   policy.Verdict
}

// Evaluate is a dry run: it checks, plans and evaluates the call. It does not count the call,
// request an approval or run a tool. The files that it read are reported to Config.Looked.
// CallDigest is empty for callers that may not read the files of the call: the digest covers
// file content and would confirm a guess of it.
func (d *DryRuns) Evaluate(ctx context.Context, s Submission) (Evaluation, error) {
	q, e, err := d.weigh(ctx, s, false)
	if q != nil {
		q.look(access.Principal{})
	}
	if err == nil && q.restricted(ctx) {
		e.CallDigest, e.Plan.Subject, e.Plan.DeniedHosts = "", "", nil
	}
	return e.Evaluation, err
}

// weighed is a question of a dry run, with its verdict and the verdicts on its secrets.
type weighed struct {
	evaluated
	Evaluation
}

// weigh checks, plans and evaluates a call that is not made. The question is nil if the call was
// not planned. elsewhere is true for a call that another gateway runs.
func (d *DryRuns) weigh(ctx context.Context, s Submission, elsewhere bool) (*question, weighed, error) {
	s.Run = ""
	c := newCall(d.services, &s, nil, func(Event) {})
	c.elsewhere = elsewhere
	checked, err := c.check()
	if err != nil {
		return nil, weighed{}, err
	}
	q, err := c.plan(ctx, checked, tool.SessionFacts{CallsInRun: 1})
	if err != nil {
		return q, weighed{}, err
	}
	e, err := q.evaluate(ctx)
	if err != nil {
		return q, weighed{}, err
	}
	if err := e.conflictError(); err != nil {
		return q, weighed{}, err
	}
	secrets, err := e.evaluateSecrets(ctx)
	w := weighed{e, Evaluation{Verdict: e.verdict, CallDigest: q.digest, Plan: q.plan, Secrets: secrets, Frozen: d.Dispatcher.Frozen()}}
	if checked.reason == "" {
		w.ReasonWanted = e.verdict.AskReason()
		for _, one := range secrets {
			w.ReasonWanted = cmp.Or(w.ReasonWanted, one.Verdict.AskReason())
		}
	}
	return q, w, err
}

func (e *evaluated) evaluateSecrets(ctx context.Context) ([]SecretEvaluation, error) {
	if e.verdict.Effect() == policy.Deny {
		return nil, nil
	}
	var list []SecretEvaluation
	for _, i := range e.plan.Injections {
		q, err := e.injection(i, e.request.SessionFacts)
		if err != nil {
			return nil, err
		}
		one, err := q.evaluate(ctx)
		if err != nil {
			return nil, err
		}
		list = append(list, SecretEvaluation{i, one.verdict})
	}
	return list, nil
}

// Description is a call that a client describes in order to get its policy verdict without
// making it.
type Description struct {
	Submission Submission
	// Facts replace the facts that planning would find (policytests.ReplaceFacts).
	Facts []byte
	// By is the caller who describes the call, if that is not the call's own caller. A reader
	// who may not read the call's files gets only the facts that the arguments give.
	By access.Caller
	// At is the assumed time of the proposal; zero is now.
	At time.Time
}

// Describe returns the policy request of a described call and the grants that match it. The
// call is checked and planned like a real one, but it is not counted, journaled, approved or
// run. If the call cannot be planned here, for example because its program is not installed,
// the request is built from of.Facts alone.
func (d *DryRuns) Describe(ctx context.Context, of Description) (policy.Request, []policy.Grant, error) {
	s := of.Submission
	s.Run = ""
	c := newCall(d.services, &s, nil, func(Event) {})
	if !of.At.IsZero() {
		c.proposedAt = of.At.UTC()
	}
	checked, err := c.check()
	session := tool.SessionFacts{CallsInRun: 1}
	switch {
	case err != nil && (len(s.Input) > 0 || reason.Of(err) != reason.InvalidInput):
		return policy.Request{}, nil, err
	case err != nil:
		// The changes of a call are described without its arguments.
		request := c.policyRequest(checked, &tool.Plan{}, session)
		if wrong := policytests.ReplaceFacts(&request, of.Facts); wrong != nil || request.Commit == nil {
			return policy.Request{}, nil, errors.Join(wrong, err)
		}
		return request, nil, nil
	}
	var grants []policy.Grant
	q, err := c.plan(ctx, checked, session)
	q.look(of.By.Principal)
	request := q.request
	switch {
	case err == nil:
		q.restrictFacts(of.By, &request)
		if grants, err = q.grants(ctx); err != nil {
			return policy.Request{}, nil, err
		}
	case len(of.Facts) == 0 || ctx.Err() != nil:
		return policy.Request{}, nil, err
	default: // the description has no planned facts
		request = c.policyRequest(checked, &tool.Plan{}, session)
	}
	if err = policytests.ReplaceFacts(&request, of.Facts); request.Commit != nil {
		grants = nil // grants of the call do not cover its changes
	}
	return request, grants, err
}

// restrictFacts removes all facts from the request except those given by the arguments, if the
// reader may not read the files. The reader defaults to the caller.
func (q *question) restrictFacts(reader access.Caller, r *policy.Request) {
	if reader.Principal.IsZero() {
		reader = q.sub.Caller
	}
	if q.plan.Named == nil || !q.plan.Unlisted && q.mayDiscloseTo(reader, q.plan.Contents) {
		return
	}
	r.Facts = *q.plan.Named
	r.Capabilities = capabilities(&q.proposal.Tool, &r.Facts)
}

// GrantAt converts a grant to the facts that policy evaluated when a call used it.
func GrantAt(g approval.Grant, at time.Time) policy.Grant {
	return policyGrants([]approval.Grant{g}, func(string) bool { return true }, at)[0]
}

// Look reports one call that was evaluated or explained but not made; planning it read files.
type Look struct {
	// By made the request, and As is the principal that the call would be made as.
	By, As access.Principal
	Tool   string
	// Files are the files that planning inspected, as far as known: "workspace:path" or an
	// absolute path.
	Files []string
}

// look reports to Config.Looked a call that was planned only to answer a query.
func (q *question) look(by access.Principal) {
	if q.Looked == nil {
		return
	}
	if by.IsZero() {
		by = q.proposal.Caller.Principal
	}
	q.Looked(Look{By: by, As: q.proposal.Caller.Principal, Tool: q.proposal.Tool.Name, Files: filesOf(&q.plan)})
}

// filesOf returns the files that a plan was made from.
func filesOf(plan *tool.Plan) (files []string) {
	f := &plan.Facts
	paths := f.Paths
	if len(paths) == 0 && f.Path != "" {
		paths = []string{f.Path}
	}
	for _, path := range paths {
		files = append(files, f.Workspace+":"+path)
	}
	if path := plan.Binding.Executable.Path; path != "" {
		files = append(files, path)
	}
	for _, o := range plan.Binding.Operands {
		if named := f.Workspace + ":" + o.Path; !slices.Contains(files, named) {
			files = append(files, named)
		}
	}
	return files
}

// CallDigest returns the digest of a call without deciding the call. The files that planning read
// are journaled (Config.Looked). The digest must not be sent to clients.
func (d *DryRuns) CallDigest(ctx context.Context, s Submission) (string, error) {
	q, err := d.planned(ctx, &s)
	if q != nil {
		q.look(access.Principal{})
	}
	if err != nil {
		return "", err
	}
	return q.digest, nil
}
