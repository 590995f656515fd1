package policy

import (
	"context"
	"slices"
	"time"

	"palyra/internal/call/policy/finding"

	"palyra/internal/call/policy/internal/expr"
	"palyra/internal/core/reason"
)

// Set is one immutable set of policies with its schema and its entities. It is safe for
// concurrent use.
//
// A set MUST NOT allow a call that a policy with an error might have forbidden. Its decisions
// MUST depend only on the request, the grants and its own content, so that its snapshot digest
// explains every verdict.
type Set struct {
	// config has the inputs of the set.
	config    Config
	rules     *rules
	access    *AccessRules
	voting    *voting
	evaluator *evaluator
	catalog   *Catalog
	findings  []finding.Finding
	// past is the union of the policies' reads of the past.
	past PastReads

	version        string
	snapshotDigest string
	snapshotJSON   []byte
}

// SnapshotDigest returns the digest of SnapshotJSON.
func (s *Set) SnapshotDigest() string { return s.snapshotDigest }

// Evaluate decides a proposal. It allows the call without an approval, or by the first grant
// that suffices. Otherwise it asks if the strongest approval that users could give would allow
// the call, and denies if not. It returns the error of ctx; any error in policy is a denial
// with reason PolicyError.
func (e *Engine) Evaluate(ctx context.Context, r Request, grants []Grant) (Verdict, error) {
	if err := ctx.Err(); err != nil {
		return Verdict{}, err
	}
	s := e.Current()
	if s == nil {
		return Verdict{code: reason.PolicyError, errors: []string{"no policy set is loaded"}}, nil
	}
	return s.decide(&r, grants), nil
}

// Evaluate is Engine.Evaluate with this set.
func (s *Set) Evaluate(r Request, grants []Grant) Verdict { return s.decide(&r, grants) }

func (s *Set) decide(r *Request, grants []Grant) Verdict {
	gate := s.access.skillGate(r)
	var v Verdict
	if gate != nil && !gate.Allowed {
		v = gate.verdict()
	} else {
		v = s.evaluator.evaluate(r, grants)
		v.gate = gate
	}
	v.snapshot, v.version = s.snapshotDigest, s.version
	return v
}

// evaluate decides a call that changes at most one file: without an approval, with each grant, and
// with the strongest approval that users could give.
func (c *call) evaluate(grants []Grant) Verdict {
	bare := c.under(c.voting.noApproval)
	if v, done := settled(bare); done {
		return v
	}
	// Grants and votes do not lift the forbids that do not read the approval.
	absolute := slices.DeleteFunc(slices.Clone(bare.determining), func(p *compiled) bool { return p.Permits() || p.approval })
	if len(absolute) > 0 {
		return denial(absolute)
	}
	for _, g := range grants {
		facts := c.facts(c.voting.ballots(g.Approval, c.requester), true)
		if v, done := settled(c.under(facts)); done {
			if v.effect == Allow {
				v.grantID = g.ID
			}
			return v
		}
	}
	return c.ask(bare)
}

// settled returns the verdict of an outcome that allows or fails.
func settled(o outcome) (Verdict, bool) {
	switch {
	case len(o.errors) > 0:
		return Verdict{code: reason.PolicyError, errors: o.errors}, true
	case o.allowed:
		return Verdict{effect: Allow, determining: describe(o.determining)}, true
	default:
		return Verdict{}, false
	}
}

// ask determines whether the strongest approval that existing users could give would allow a call
// that bare, the outcome without an approval, does not allow.
func (c *call) ask(bare outcome) Verdict {
	voters := c.voters(c.voting.offers, "")
	best := c.under(voters.facts)
	var v Verdict
	if best.allowed {
		causes := askCauses(bare, best)
		v.determining, v.timeout, v.severity = describeCauses(causes), shortestTimeout(causes), highestSeverity(causes)
		// The severity restricts the voters, so evaluate again with those.
		if exact := c.voters(c.voting.offers, v.severity); !exact.same(voters) {
			voters, best = exact, c.under(exact.facts)
		}
	}
	if len(best.errors) > 0 {
		return Verdict{code: reason.PolicyError, errors: best.errors}
	}
	if !best.allowed {
		return c.deny(voters, best)
	}
	v.wanted = shortfall{c, nil}.wanted()
	v.missing = v.wanted.String()
	v.effect, v.code, v.remedy = Ask, reason.ApprovalRequired, reason.Lookup(reason.ApprovalRequired).Remedy
	return v
}

// deny explains a call that the existing users cannot allow. If additional users could, the
// remedy names the missing approvers.
func (c *call) deny(voters *electorate, best outcome) Verdict {
	v := denial(best.determining)
	if lack := c.lacking(voters); lack.text != "" {
		v.code = reason.ApprovalUnattainable
		v.missing, v.remedy = lack.text, lack.remedy
		return v
	}
	if f := &c.request.Facts; len(v.determining) == 0 && f.EgressMode == "none" && f.SandboxTier != "external" {
		v.remedy = openNetwork
	}
	return v
}

// openNetwork is the next step for a program that would have the network of the machine, which
// no default policy permits.
const openNetwork = "The operator set process_runner.egress_enforcement_mode = \"unrestricted\". Ask an operator to set it to \"strict\", or to add a permit with context.egress.mode == \"none\"."

// denial is a denial by policies, with the first remedy among them.
func denial(by []*compiled) Verdict {
	described := describe(by)
	return Verdict{code: reason.PolicyDenied, determining: described, remedy: firstRemedy(described)}
}

// askCauses returns the forbids that an approval lifts, and the permits that need one.
func askCauses(bare, best outcome) []*compiled {
	causes := slices.Clone(best.determining)
	for _, p := range bare.determining {
		if !p.Permits() && !slices.Contains(causes, p) {
			causes = append(causes, p)
		}
	}
	// A permit that does not read the approval was not the cause.
	causes = slices.DeleteFunc(causes, func(p *compiled) bool { return p.Permits() && !p.approval })
	sortByID(causes)
	return causes
}

func highestSeverity(causes []*compiled) string {
	best := -1
	for _, p := range causes {
		best = max(best, slices.Index(expr.Severities, p.Notes.Severity))
	}
	if best < 0 {
		return SeverityMedium
	}
	return expr.Severities[best]
}

// shortestTimeout returns 0 if no cause has a timeout.
func shortestTimeout(causes []*compiled) time.Duration {
	shortest := time.Duration(0)
	for _, p := range causes {
		shortest = shorter(shortest, p.Notes.Timeout)
	}
	return shortest
}

// shorter returns the shorter of two times of which 0 means none.
func shorter(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// judge judges a call that changes at most one file.
func (c *call) judge(a Approval) Judgement {
	cast := c.voting.ballots(a, c.requester)
	out := c.under(c.facts(cast, a.Standing))
	j := Judgement{Allowed: out.allowed, Determining: describe(out.determining), Errors: out.errors}
	if !j.Allowed && len(j.Errors) == 0 {
		j.Missing, j.Wanted = c.missing(cast, c.voters(c.voting.offers, ""))
	}
	return j
}

// Current returns the set in force.
func (e *Engine) Current() *Set { return e.current.Load() }

// SomebodyDecides reports whether any user could approve more calls for the caller.
func (s *Set) SomebodyDecides(r Request, severity string) bool {
	return len(s.voting.electorate(s.rules.dir.Requester(r.Caller), severity).ballots) > 0
}
