package policy

import (
	"slices"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/call/policy/internal/names"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
)

// Permit is Authorize with an error result: nil if the caller has the permission, otherwise
// reason.PermissionDenied, or reason.PolicyError if the rules could not be evaluated. Reason
// and remedy of the deciding forbid are included if it has them.
func (a *AccessRules) Permit(r AccessRequest) error {
	j := a.Authorize(r)
	if j.Allowed {
		return nil
	}
	if len(j.Errors) > 0 {
		return reason.Errorf(reason.PolicyError, "the access rules could not be evaluated for %s", r.Permission)
	}
	e := reason.Errorf(reason.PermissionDenied, "%s may not %s", r.Caller.Principal, r.Permission).
		WithField("permission", string(r.Permission))
	if j.Missing != "" {
		e.Message += ": " + j.Missing
		e = e.WithRemedy("Ask a member with this permission to create a token with the scope: `palyra tokens create NAME --scope %s`.", r.Permission)
	}
	for _, d := range j.Determining {
		if d.Reason != "" {
			e.Message += ": " + d.Reason
		}
		if d.Remedy != "" {
			e = e.WithRemedy("%s", d.Remedy)
		}
	}
	return e
}

// LetsIn reports whether the configuration and the ceilings set by commands allow a member to
// act at all. Policies cannot override this.
func (a *AccessRules) LetsIn(p access.Principal) bool {
	return slices.Contains(a.rules.dir.Ancestors[names.UID(p)], types.NewEntityUID(names.TypePrincipalSet, names.SetAllowed))
}

// Requester returns the user who is responsible for a caller's calls, according to the access
// rules; zero if none exists.
func (a *AccessRules) Requester(c access.Caller) access.Principal { return a.rules.dir.Requester(c) }

// Policy does not decide whether a session may make more calls than max_calls_per_session. An
// extension needs one approver for that requester, independent of the requirements of the call
// that reached the bound. Policy defines the approvers (approval.decide), so that self-approval
// stays forbidden where policy forbids it.

// JudgeMoreCalls judges the votes on an extension of the session of a request's caller.
func (s *Set) JudgeMoreCalls(r Request, a Approval) Judgement {
	if len(s.voting.ballots(a, s.rules.dir.Requester(r.Caller))) > 0 {
		return Judgement{Allowed: true}
	}
	return Judgement{Missing: "a person who may decide approvals"}
}
