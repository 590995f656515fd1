package call

import (
	"context"
	"slices"
	"time"

	"palyra/internal/call/policy"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// planAgain plans the call again after people were asked: a file that the call reads
// may have been edited while it waited. If the new plan has the same call digest,
// and differs in no fact that a policy reads, the call is judged again with the new
// facts. Otherwise planAgain changes nothing; dispatch will then find the difference
// and refuse the call, and the answer is used up.
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

// sameAgain plans the call once more, and reports whether it comes to the same
// call of other facts that no policy reads.
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

// rejudge says whether a decided call is still allowed on a machine that gives
// something else than policy was told.
func (c *call) rejudge(now tool.Facts) error {
	request := c.request
	request.Facts = now
	if c.enough(request) {
		return nil
	}
	return reason.Errorf(reason.BindingMismatch, "what the machine gives a sandbox changed between decision and dispatch, and policy does not allow the call with it").
		WithField("sandbox", "not what policy judged")
}

// mayRead says whether policy lets the call read a file that it found. Nobody is
// asked about a single file: where policy would ask, the answer is no, unless the
// votes on the call itself are enough for this file, too.
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

// mayDisclose reports whether policy allows the caller, and the asker if there is one, to
// read all of the files without an approval. Votes on the call do not count, because they
// approve the call's effect only.
func (a *authorization) mayDisclose(files []tool.FileAccess) bool {
	asker := a.sub.Asker
	return a.mayDiscloseTo(a.sub.Caller, files) && (asker.Principal.IsZero() || a.mayDiscloseTo(asker, files))
}

// restricted reports whether the digest and the subject of the call confirm a guess of files
// that its caller may not read: those that planning looked at, whether or not they are there,
// the operands, and a program of a workspace, of which only people who decide see the digest.
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

// conflictError returns why a call that policy does not deny cannot be made, with the
// details that its caller may read.
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

// enough asks the policy now in force about a request with the votes that were
// cast.
func (a *authorization) enough(r policy.Request) bool {
	facts := policy.Approval{
		Votes: policyVotes(a.answer.Votes(), a.LiveDevice), Now: time.Now().UTC(),
		Standing: a.answer.Standing(),
	}
	return a.Evaluator.Current().Judge(r, facts).Allowed
}
