package call

import (
	"context"
	"slices"
	"time"

	"palyra/internal/call/policy"
	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// planAgain plans the call again after an approval: a file that the call reads may have been
// edited while it waited. If the new plan has the same call digest, and all facts that policy
// reads are equal, the call is judged again with the new facts. Otherwise planAgain changes
// nothing; dispatch then detects the difference and refuses the call, and the answer is
// consumed.
func (a *authorization) planAgain(ctx context.Context) error {
	if !a.waited || !a.answer.Allowed() || len(a.plan.Files) == 0 || a.ran != nil {
		return nil
	}
	plan, request, same := a.sameAgain(ctx)
	if !same {
		return nil
	}
	a.plan, a.request = plan, request
	return a.evaluate(ctx)
}

// sameAgain plans the call again. It reports whether the plan has the same call digest and
// differs only in facts that no policy reads.
func (a *authorization) sameAgain(ctx context.Context) (tool.Plan, policy.Request, bool) {
	request := a.request
	plan, err := a.Dispatcher.Plan(ctx, a.proposal)
	if err != nil {
		return plan, request, false
	}
	request.Facts = plan.Facts
	digest, err := plan.Binding.Digest()
	same := err == nil && digest == a.digest && policy.BoundDigest(&plan) != policy.BoundDigest(&a.plan) &&
		!a.Evaluator.Current().ReadsChanged(a.request, request)
	return plan, request, same
}

// rejudge evaluates a decided call again with the sandbox facts of the machine at dispatch. It
// returns the reason if policy does not allow the call with them.
func (c *call) rejudge(now tool.Facts) error {
	request := c.request
	request.Facts = now
	if c.enough(request) {
		return nil
	}
	return reason.Errorf(reason.BindingMismatch, "the isolation of the machine changed between decision and dispatch, and policy denies the call with it").
		WithField("sandbox", "not what policy judged")
}

// mayRead reports whether policy allows the call to read a file that it found. No approval is
// requested for a single file. If policy requires one, the file is denied unless the votes on
// the call itself satisfy policy for this file too.
func (c *call) mayRead(a tool.FileAccess) bool {
	set := c.Evaluator.Current()
	request := c.request
	request.Tool, request.Args, request.Facts = a.Tool, a.Input, a.Facts
	verdict := set.Evaluate(request, nil)
	switch verdict.Effect() {
	case policy.Allow:
		return true
	case policy.Ask:
		return subset(verdict.Determining(), c.verdict.Determining()) && c.enough(request)
	default:
		return false
	}
}

// mayDisclose reports whether policy allows the caller, and the asker if set, to read all of
// the files without an approval. Votes on the call do not count, because they approve the
// call's effect only.
func (a *authorization) mayDisclose(files []tool.FileAccess) bool {
	asker := a.sub.Asker
	return a.mayDiscloseTo(a.sub.Caller, files) && (asker.Principal.IsZero() || a.mayDiscloseTo(asker, files))
}

// restricted reports whether the digest and the subject of the call would confirm a guess about
// files that its caller may not read. These files are the ones that planning inspected
// (existing or not), the operands, and a workspace program whose digest only approvers see.
func (a *authorization) restricted(ctx context.Context) bool {
	exec := a.plan.Facts.Exec
	return exec != nil && exec.Origin == tool.OriginWorkspace || a.plan.Unlisted || !a.mayDisclose(a.plan.Contents) ||
		slices.ContainsFunc(a.plan.Binding.Operands, func(o tool.Operand) bool {
			return !a.MayReadFile(ctx, a.sub.Caller, a.plan.Facts.Workspace, o.Path)
		})
}

func (a *authorization) mayDiscloseTo(reader access.Caller, files []tool.FileAccess) bool {
	set := a.Evaluator.Current()
	return !slices.ContainsFunc(files, func(f tool.FileAccess) bool {
		request := a.request
		request.Caller, request.Editors = reader, nil
		request.Tool, request.Args, request.Facts = f.Tool, f.Input, f.Facts
		request.Capabilities = []tool.Capability{tool.FilesystemRead}
		return set.Evaluate(request, nil).Effect() != policy.Allow
	})
}

// conflictError returns the reason why a call that policy does not deny cannot be made, with
// the details that its caller may read.
func (a *authorization) conflictError() error {
	if a.conflict == nil || a.verdict.Effect() == policy.Deny {
		return nil
	}
	return tool.Disclose(a.conflict, a.mayDisclose)
}

// subset reports whether each policy of one list is in the other.
func subset(one, other []policy.Determining) bool {
	return !slices.ContainsFunc(one, func(d policy.Determining) bool {
		return !slices.ContainsFunc(other, func(o policy.Determining) bool { return o.ID == d.ID })
	})
}

// enough reports whether the votes that were cast satisfy the policy now in force.
func (a *authorization) enough(r policy.Request) bool {
	facts := policy.Approval{
		Votes: policyVotes(a.answer.Votes(), a.LiveDevice), Now: time.Now().UTC(),
		Standing: a.answer.Standing(),
	}
	return a.Evaluator.Current().Judge(r, facts).Allowed
}

// MayReadFile reports whether policy allows the caller to read a file of a workspace without an
// approval, as if by a call of fs.read. The caller needs no permission to make calls. path is
// relative to the workspace, and the file need not exist. The result is false if the request
// cannot be evaluated, and if the path leads to another file. In that case policy judged the
// other file's name, and not the name under which the content was read.
func (p *Pipeline) MayReadFile(ctx context.Context, caller access.Caller, workspace, path string) bool {
	input, err := canonical.Marshal(readInput{path, workspace})
	if err != nil {
		return false
	}
	c, err := p.planned(ctx, &Submission{Caller: caller, Tool: tool.ReadFile, Input: input})
	if err != nil {
		return false
	}
	return c.plan.Facts.Path == path && c.Evaluator.Current().Evaluate(c.request, nil).Effect() == policy.Allow
}
