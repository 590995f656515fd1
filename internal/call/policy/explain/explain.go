// Package explain describes why a call is decided as it is, and which changes would alter the
// decision. It reads a policy.View: its proposals have been tried, but are not verdicts.
package explain

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"palyra/internal/call/policy"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
)

// Explanation describes the reason of a decision and the changes that would alter it. Arguments
// that tool.Redact hides are replaced by tool.Redaction here, too.
type Explanation struct {
	Effect policy.Effect
	// Reason, Remedy and Missing are copied from the verdict. Errors name the policies and
	// expressions that failed, with the error.
	Reason  reason.Code
	Remedy  string
	Missing string
	Errors  []string
	// Gate is the decision on running the skill whose tool is called, nil without a skill. If
	// it is closed, Context and Policies describe the gate.
	Gate *policy.SkillGate
	// Summary names the deciding policies and the best change in one sentence.
	Summary string

	PolicyVersion  string
	SnapshotDigest string
	Tool           string
	Principal      access.Principal
	// Path is the file that is explained if the call changes several: the first that is denied,
	// or else the first that needs an approval.
	Path string
	// Context is the context that policy evaluated, as canonical JSON; nil if the call has no
	// Cedar form.
	Context json.RawMessage

	// Policies are the policies with a matching scope, the determining ones first.
	Policies []Policy
	// Nearest is the permit closest to allowing the call. It is nil for allowed calls, and if
	// no permit covers the tool.
	Nearest *Nearest
	// Flips are changes that alter the verdict, the best first: fewest steps, then the easiest.
	Flips []Flip
}

// Outcomes of policies and of conjuncts.
const (
	OutcomeSatisfied    = "satisfied"
	OutcomeNotSatisfied = "not_satisfied"
	OutcomeError        = "error"
	OutcomeTrue         = "true"
	OutcomeFalse        = "false"
	// OutcomeSkipped marks an expression that Cedar did not evaluate because the result was
	// already determined.
	OutcomeSkipped = "skipped"
)

// Policy is one policy with its conditions.
type Policy struct {
	ID   string
	File string
	Line int
	// Effect is "permit" or "forbid".
	Effect string
	// Determining is true if the verdict rests on it.
	Determining bool
	// Outcome is satisfied, not_satisfied or error.
	Outcome   string
	Conjuncts []Conjunct
	Reason    string
	Remedy    string
}

// Conjunct is one conjunct of a condition, or a part of one.
type Conjunct struct {
	// Text is the source text of the expression, on one line.
	Text string
	Line int
	// Column counts characters from 1.
	Column int
	// Clause is "when" or "unless".
	Clause string
	// Outcome is true, false, error or skipped. It is the outcome of the expression: if all are
	// true, a when is satisfied and an unless is not.
	Outcome string
	// Values are the values that the expression reads.
	Values []Value
	// Parts are the parts of a disjunction, a negation or an if.
	Parts []Conjunct
	// Error is the reason of a failure.
	Error string
}

// Value is one place that an expression reads, such as context.exec.basename, with its value.
type Value struct {
	Path string
	// Value is in Cedar syntax, at most maxShownValue characters; ValueAbsent if it is missing.
	Value string
}

// ValueAbsent stands for an optional attribute that a call does not have.
const ValueAbsent = "(absent)"

// Nearest is a permit for the tool that is not satisfied.
type Nearest struct {
	ID   string
	File string
	Line int
	// False lists the unsatisfied parts of the permit: parts of its scope in words, then
	// conjuncts of its conditions.
	False []string
}

// String returns "id (file:line): unsatisfied parts".
func (n *Nearest) String() string {
	if n == nil {
		return ""
	}
	return fmt.Sprintf("%s (%s:%d): %s", n.ID, n.File, n.Line, strings.Join(n.False, "; "))
}

// Verdict explains the verdict on a call. It explains the result of Judge if the votes of the
// approval allow the call, otherwise the result of Evaluate.
func Verdict(s *policy.Set, r policy.Request, a policy.Approval, grants []policy.Grant) Explanation {
	v := s.Simulate(r, a, grants)
	out := Explanation{
		Effect: v.Effect(), Reason: v.Reason(), Remedy: v.Remedy(), Missing: v.Missing(), Errors: v.Errors(), Gate: v.SkillGate(),
		PolicyVersion: s.Version(), SnapshotDigest: s.SnapshotDigest(), Tool: r.Tool, Principal: r.Caller.Principal,
	}
	seen, one := look(s, r, a, grants, v)
	if len(r.Facts.Paths) > 1 {
		out.Path = one.Facts.Path
	}
	if seen != nil {
		out.Context = seen.contextJSON()
		out.Policies = seen.policies(v.Determining())
		if failures := failuresIn(out.Policies); len(out.Errors) > 0 && len(failures) > 0 {
			out.Errors = failures
		}
		if v.Effect() != policy.Allow {
			out.Nearest = seen.nearest()
		}
	}
	if v.Effect() != policy.Allow {
		out.Flips = flips(s, r, a, v, seen)
	}
	out.Summary = summarize(&out, v)
	return out
}

// Policies explains only the policies of a call and of its skill gate, without the search for
// changes. It returns none for a call without a Cedar form.
func Policies(s *policy.Set, r policy.Request, a policy.Approval, grants []policy.Grant, v policy.Verdict) []Policy {
	seen, one := look(s, r, a, grants, v)
	if seen == nil {
		return nil
	}
	out := seen.policies(v.Determining())
	if gate := v.SkillGate(); gate != nil && gate.Allowed {
		if c, ok := s.View().Gate(one); ok {
			out = append(out, newSight(s, c, one, nil).policies(gate.Determining)...)
		}
	}
	return out
}

// look returns the call for the file that determines the verdict, nil if it has no Cedar form.
func look(s *policy.Set, r policy.Request, a policy.Approval, grants []policy.Grant, v policy.Verdict) (*sight, policy.Request) {
	one := decisive(s, r)
	displayed := approvalShown(v, a, grants)
	c, ok := s.View().Call(one, displayed)
	if !ok {
		return nil, one
	}
	return newSight(s, c, one, r.Facts.Paths), one
}

// failuresIn lists the failures by policy and expression.
func failuresIn(policies []Policy) []string {
	var out []string
	for _, p := range policies {
		for _, c := range p.Conjuncts {
			if c.Outcome == OutcomeError {
				out = append(out, fmt.Sprintf("%s (%s:%d): %s", p.ID, p.File, c.Line, c.Error))
			}
		}
	}
	return out
}

// decisive returns the call for the file that determines the verdict.
func decisive(s *policy.Set, r policy.Request) policy.Request {
	list := r.PerPath()
	best := list[0]
	if len(list) == 1 {
		return best
	}
	for i := len(list) - 1; i >= 0; i-- {
		list[i].Facts.Paths = nil
	}
	effects := make([]policy.Effect, len(list))
	for i, one := range list {
		effects[i] = s.Evaluate(one, nil).Effect()
	}
	for _, effect := range []policy.Effect{policy.Deny, policy.Ask} {
		if i := slices.Index(effects, effect); i >= 0 {
			return list[i]
		}
	}
	return best
}

// approvalShown returns the approval for displaying the policies: the votes cast, else the
// grant that decided or did not suffice, else none.
func approvalShown(v policy.Verdict, a policy.Approval, grants []policy.Grant) policy.Approval {
	if len(a.Votes) > 0 && v.GrantID() == "" {
		return a
	}
	for _, g := range grants {
		if v.Effect() != policy.Allow || g.ID == v.GrantID() {
			displayed := g.Approval
			displayed.Standing = true
			return displayed
		}
	}
	return policy.Approval{}
}
