package policy

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/access"
	"palyra/internal/reason"
)

// Explanation says why a call is decided as it is, and what would decide it
// otherwise. What tool.Redact hides in the arguments is hidden here, too:
// tool.Redaction stands in its place.
type Explanation struct {
	Effect Effect
	// Reason, Remedy and Missing are those of the verdict. Errors say which
	// expression of which policy failed, and why.
	Reason  reason.Code
	Remedy  string
	Missing string
	Errors  []string
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
	Policies []ExplainedPolicy
	// Nearest is the permit closest to allowing the call. It is nil for what
	// is allowed, and when no permit is about the tool.
	Nearest *NearestPermit
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

// ExplainedPolicy is one policy with its conditions.
type ExplainedPolicy struct {
	ID   string
	File string
	Line int
	// Effect is "permit" or "forbid".
	Effect string
	// Determining is true when the verdict rests on it.
	Determining bool
	// Outcome is satisfied, not_satisfied or error.
	Outcome   string
	Conjuncts []ExplainedConjunct
	Reason    string
	Remedy    string
}

// ExplainedConjunct is one conjunct of a condition, or a part of one.
type ExplainedConjunct struct {
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
	Values []ExplainedValue
	// Parts are those of a disjunction, a negation or an if.
	Parts []ExplainedConjunct
	// Error is why it failed.
	Error string
}

// ExplainedValue is one place that an expression reads, such as
// context.exec.basename, and what stands there.
type ExplainedValue struct {
	Path string
	// Value is as Cedar writes it, at most maxShownValue characters;
	// ValueAbsent when there is none.
	Value string
}

// ValueAbsent stands for an optional attribute that a call does not have.
const ValueAbsent = "(absent)"

// NearestPermit is a permit for the tool that does not hold.
type NearestPermit struct {
	ID   string
	File string
	Line int
	// False is what is not as the permit wants it: parts of its scope in
	// words, then conjuncts of its conditions.
	False []string
}

// String returns "id (file:line): what is false".
func (n *NearestPermit) String() string {
	if n == nil {
		return ""
	}
	return fmt.Sprintf("%s (%s:%d): %s", n.ID, n.File, n.Line, strings.Join(n.False, "; "))
}

// Explain explains the verdict on a call: that of Judge if the votes of the
// approval allow it, else that of Evaluate.
func (s *Set) Explain(r Request, a Approval, grants []Grant) Explanation {
	v, allowedByVotes := s.verdictWith(r, a, grants)
	out := Explanation{
		Effect: v.effect, Reason: v.Reason(), Remedy: v.Remedy(), Missing: v.missing, Errors: v.Errors(),
		PolicyVersion: s.version, SnapshotDigest: s.snapshotDigest, Tool: r.Tool, Principal: r.Caller.Principal,
	}
	one := s.decisive(r)
	if len(r.Facts.Paths) > 1 {
		out.Path = one.Facts.Path
	}
	var seen *sight
	if c, refused := s.prepare(one); refused == nil {
		seen = s.viewCall(c, one)
		seen.files = r.Facts.Paths
		seen.see(s.factsShown(c, v, a, grants, allowedByVotes))
		out.Context = seen.contextJSON()
		out.Policies = seen.policies(v.determining)
		if failures := failuresIn(out.Policies); len(out.Errors) > 0 && len(failures) > 0 {
			out.Errors = failures
		}
		if v.effect != Allow {
			out.Nearest = seen.nearest()
		}
	}
	if v.effect != Allow {
		out.Flips = s.flips(r, a, v, seen)
	}
	out.Summary = summarize(&out, v)
	return out
}

// failuresIn lists what failed, by policy and expression.
func failuresIn(policies []ExplainedPolicy) []string {
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

// verdictWith is Evaluate for a call for which some votes were cast.
func (s *Set) verdictWith(r Request, a Approval, grants []Grant) (v Verdict, byVotes bool) {
	v = s.Evaluate(r, grants)
	if len(a.Votes) == 0 {
		return v, false
	}
	j := s.Judge(r, a)
	if j.Allowed {
		return Verdict{effect: Allow, determining: j.Determining, snapshot: s.snapshotDigest, version: s.version}, true
	}
	if v.effect == Ask {
		v.missing = j.Missing
	}
	return v, false
}

// decisive returns the call for the one file that settles the verdict.
func (s *Set) decisive(r Request) Request {
	list := r.perPath()
	if len(list) == 1 {
		return list[0]
	}
	verdicts := s.evaluateAll(list, nil)
	for _, effect := range []Effect{Deny, Ask} {
		if i := slices.IndexFunc(verdicts, func(v Verdict) bool { return v.effect == effect }); i >= 0 {
			return list[i]
		}
	}
	return list[0]
}

// factsShown is the approval under which the policies are shown: the votes
// cast, else the grant that decided or was not enough, else none.
func (s *Set) factsShown(c *call, v Verdict, a Approval, grants []Grant, byVotes bool) types.Record {
	if byVotes || len(a.Votes) > 0 && v.grantID == "" {
		return s.tally.facts(s.ballots(a, c.requester), a.Standing)
	}
	for _, g := range grants {
		if v.effect != Allow || g.ID == v.grantID {
			return s.tally.facts(s.ballots(g.Approval, c.requester), true)
		}
	}
	return s.noApproval
}
