package policy

import "palyra/internal/reason"

// Permit is Authorize as an error: nil when the caller has the permission,
// else reason.PermissionDenied, or reason.PolicyError when the rules could not
// be evaluated. The forbid that decided says why and what to do, if it does.
func (s *Set) Permit(r AccessRequest) error {
	j := s.Authorize(r)
	if j.Allowed {
		return nil
	}
	if len(j.Errors) > 0 {
		return reason.Errorf(reason.PolicyError, "the access rules could not be evaluated for %s", r.Permission)
	}
	e := reason.Errorf(reason.PermissionDenied, "%s may not %s", r.Caller.Principal, r.Permission).
		WithField("permission", string(r.Permission))
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
