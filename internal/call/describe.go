package call

import (
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

// Description is a call that a client describes, to learn what policy would say,
// instead of making it.
type Description struct {
	Submission Submission
	// Facts replace those that planning would find (policytests.ReplaceFacts).
	Facts []byte
	// By is who describes it, where that is another than whose call it would be. Who may not
	// read the files is told of a call with the facts that its arguments give.
	By access.Caller
	// At is when the call is taken to be proposed; zero is now.
	At time.Time
}

// Describe returns the policy request of a described call and the grants that match
// it. The call is checked and planned like a real one, but nothing is counted,
// journaled, asked or run. When the call cannot be planned here, such as for a
// program that this machine does not have, the request is made of d.Facts alone.
func (p *Pipeline) Describe(ctx context.Context, d Description) (policy.Request, []policy.Grant, error) {
	s := d.Submission
	s.Run = ""
	c := newCall(p, &s, nil, func(Event) {})
	if !d.At.IsZero() {
		c.proposedAt = d.At.UTC()
	}
	descriptor, input, err := p.Dispatcher.Check(s.Tool, s.Input)
	c.proposal.Tool, c.proposal.Input = descriptor, input
	session := tool.SessionFacts{CallsInRun: 1}
	switch {
	case err != nil && (len(s.Input) > 0 || reason.Of(err) != reason.InvalidInput):
		return policy.Request{}, nil, err
	case err != nil:
		// The changes of a call are described without its arguments.
		c.request = c.policyRequest(session)
		if wrong := policytests.ReplaceFacts(&c.request, d.Facts); wrong != nil || c.request.Commit == nil {
			return policy.Request{}, nil, errors.Join(wrong, err)
		}
		return c.request, nil, nil
	}
	var grants []policy.Grant
	err = c.planCall(ctx, session)
	c.look(d.By.Principal)
	if err == nil {
		c.restrictFacts(d.By)
	}
	switch {
	case err == nil:
		if grants, err = c.grants(ctx); err != nil {
			return policy.Request{}, nil, err
		}
	case len(d.Facts) == 0 || ctx.Err() != nil:
		return policy.Request{}, nil, err
	default: // it is described without what was found
		c.plan = tool.Plan{}
		c.request = c.policyRequest(session)
	}
	if err = policytests.ReplaceFacts(&c.request, d.Facts); c.request.Commit != nil {
		grants = nil // those of the call do not cover its changes
	}
	return c.request, grants, err
}

// restrictFacts leaves the facts that the arguments of the call give to a reader, the caller if
// there is no other, who may not read the files.
func (c *call) restrictFacts(reader access.Caller) {
	if reader.Principal.IsZero() {
		reader = c.sub.Caller
	}
	if c.plan.Named == nil || !c.plan.Unlisted && c.mayDiscloseTo(reader, c.plan.Contents) {
		return
	}
	c.plan.Facts = *c.plan.Named
	c.request.Facts = c.plan.Facts
	c.request.Capabilities = capabilities(&c.proposal.Tool, &c.plan.Facts)
}

// GrantAt gives a grant as the facts that policy read when a call used it.
func GrantAt(g approval.Grant, at time.Time) policy.Grant {
	return policyGrants([]approval.Grant{g}, func(string) bool { return true }, at)[0]
}

// Look is one call that was evaluated or explained and not made: planning it read files.
type Look struct {
	// By asked, and As is as whom the call would be made.
	By, As access.Principal
	Tool   string
	// Files are those that planning looked at, as far as they are known: "workspace:path" or
	// an absolute path.
	Files []string
}

// look tells Config.Looked of a call that was planned for an answer.
func (a *authorization) look(by access.Principal) {
	if a.Looked == nil {
		return
	}
	if by.IsZero() {
		by = a.proposal.Caller.Principal
	}
	a.Looked(Look{By: by, As: a.proposal.Caller.Principal, Tool: a.proposal.Tool.Name, Files: filesOf(&a.plan)})
}

// filesOf are the files that a plan is made of.
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
