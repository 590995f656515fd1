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
// the request is built from d.Facts alone.
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
	default: // the description has no planned facts
		c.plan = tool.Plan{}
		c.request = c.policyRequest(session)
	}
	if err = policytests.ReplaceFacts(&c.request, d.Facts); c.request.Commit != nil {
		grants = nil // grants of the call do not cover its changes
	}
	return c.request, grants, err
}

// restrictFacts removes all facts except those given by the arguments, if the reader may not
// read the files. The reader defaults to the caller.
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
func (a *authorization) look(by access.Principal) {
	if a.Looked == nil {
		return
	}
	if by.IsZero() {
		by = a.proposal.Caller.Principal
	}
	a.Looked(Look{By: by, As: a.proposal.Caller.Principal, Tool: a.proposal.Tool.Name, Files: filesOf(&a.plan)})
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
func (p *Pipeline) CallDigest(ctx context.Context, s Submission) (string, error) {
	c, err := p.planned(ctx, &s)
	if c != nil {
		c.look(access.Principal{})
	}
	if err != nil {
		return "", err
	}
	return c.digest, nil
}
