// Package explain says why a call is decided as it is, and what a person could
// change to have it decided otherwise. It reads a policy.View: what it offers was
// tried, and nothing of it is a verdict.
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

// Explanation says why a call is decided as it is, and what would decide it
// otherwise. What tool.Redact hides in the arguments is hidden here, too:
// tool.Redaction stands in its place.
type Explanation struct {
	Effect policy.Effect
	// Reason, Remedy and Missing are those of the verdict. Errors say which
	// expression of which policy failed, and why.
	Reason  reason.Code
	Remedy  string
	Missing string
	Errors  []string
	// Gate is what was said of running the skill whose tool is called, nil for none. If
	// it does not let the call pass, Context and Policies are those of that question.
	Gate *policy.SkillGate
	// Summary says in one sentence what decided and what to change.
	Summary string

	PolicyVersion  string
	SnapshotDigest string
	Tool           string
	Principal      access.Principal
	// Path is the file that is explained when the call changes several: the
	// first that denies, else the first that asks.
	Path string
	// Context is what policy saw, as canonical JSON; nil when the call could
	// not be put into Cedar's terms.
	Context json.RawMessage

	// Policies are those whose scope matches, the determining ones first.
	Policies []Policy
	// Nearest is the permit closest to allowing the call. It is nil for what
	// is allowed, and when no permit is about the tool.
	Nearest *Nearest
	// Flips are changes that turn the verdict, the best first: fewest steps,
	// then those that are easiest to make.
	Flips []Flip
}

// Outcomes of policies and of conjuncts.
const (
	OutcomeSatisfied    = "satisfied"
	OutcomeNotSatisfied = "not_satisfied"
	OutcomeError        = "error"
	OutcomeTrue         = "true"
	OutcomeFalse        = "false"
	// OutcomeSkipped is of what was not reached, as Cedar stops where the
	// result is settled.
	OutcomeSkipped = "skipped"
)

// Policy is one policy with its conditions.
type Policy struct {
	ID   string
	File string
	Line int
	// Effect is "permit" or "forbid".
	Effect string
	// Determining is true when the verdict rests on it.
	Determining bool
	// Outcome is satisfied, not_satisfied or error.
	Outcome   string
	Conjuncts []Conjunct
	Reason    string
	Remedy    string
}

// Conjunct is one conjunct of a condition, or a part of one.
type Conjunct struct {
	// Text is the expression as it is written, on one line.
	Text string
	Line int
	// Column counts characters from 1.
	Column int
	// Clause is "when" or "unless".
	Clause string
	// Outcome is true, false, error or skipped. It is that of the expression:
	// all true satisfies a when and fails an unless.
	Outcome string
	// Values are what the expression reads.
	Values []Value
	// Parts are those of a disjunction, a negation or an if.
	Parts []Conjunct
	// Error is why it failed.
	Error string
}

// Value is one place that an expression reads, such as
// context.exec.basename, and what stands there.
type Value struct {
	Path string
	// Value is as Cedar writes it, at most maxShownValue characters;
	// ValueAbsent when there is none.
	Value string
}

// ValueAbsent stands for an optional attribute that a call does not have.
const ValueAbsent = "(absent)"

// Nearest is a permit for the tool that does not hold.
type Nearest struct {
	ID   string
	File string
	Line int
	// False is what is not as the permit wants it: parts of its scope in
	// words, then conjuncts of its conditions.
	False []string
}

// String returns "id (file:line): what is false".
func (n *Nearest) String() string {
	if n == nil {
		return ""
	}
	return fmt.Sprintf("%s (%s:%d): %s", n.ID, n.File, n.Line, strings.Join(n.False, "; "))
}

// Verdict explains the verdict on a call: that of Judge if the votes of the
// approval allow it, else that of Evaluate.
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

// Policies explains the policies of a call alone, without the search for what
// would turn the verdict, with those by which its skill may run; none for a call that has no Cedar form.
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

// look shows the call for the one file that settles the verdict, nil when it
// has no Cedar form.
func look(s *policy.Set, r policy.Request, a policy.Approval, grants []policy.Grant, v policy.Verdict) (*sight, policy.Request) {
	one := decisive(s, r)
	shown := approvalShown(v, a, grants)
	c, ok := s.View().Call(one, shown)
	if !ok {
		return nil, one
	}
	return newSight(s, c, one, r.Facts.Paths), one
}

// failuresIn lists what failed, by policy and expression.
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

// decisive returns the call for the one file that settles the verdict.
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

// approvalShown is the approval under which the policies are shown: the votes
// cast, else the grant that decided or was not enough, else none.
func approvalShown(v policy.Verdict, a policy.Approval, grants []policy.Grant) policy.Approval {
	if len(a.Votes) > 0 && v.GrantID() == "" {
		return a
	}
	for _, g := range grants {
		if v.Effect() != policy.Allow || g.ID == v.GrantID() {
			shown := g.Approval
			shown.Standing = true
			return shown
		}
	}
	return policy.Approval{}
}
