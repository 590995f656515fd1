package policy

import (
	"slices"
	"strings"
	"time"

	"palyra/internal/call/policy/internal/expr"
	"palyra/internal/core/reason"
)

// Effect is the result of a policy evaluation. The zero value is Deny.
type Effect int

// The effects.
const (
	Deny Effect = iota
	Allow
	Ask
)

// String returns "deny", "allow" or "ask".
func (e Effect) String() string {
	switch e {
	case Allow:
		return "allow"
	case Ask:
		return "ask"
	default:
		return "deny"
	}
}

// SeverityMedium is the severity of an ask without a @severity.
const SeverityMedium = expr.SeverityMedium

// Determining is a policy that determined a verdict, with its annotations for people.
type Determining struct {
	ID   string `json:"id"`
	File string `json:"file"`
	// Line is the line of the policy's first token, from 1.
	Line int `json:"line"`
	// Effect is "permit" or "forbid".
	Effect string `json:"effect"`
	// Condition is the text of the policy's when and unless clauses on one line, at most 300
	// characters; "" if it has none. In an ask it has only the conjuncts that read
	// context.approval.
	Condition string `json:"condition,omitempty"`
	Reason    string `json:"reason,omitempty"`
	Remedy    string `json:"remedy,omitempty"`
	Severity  string `json:"severity,omitempty"`
	// AskReason is the policy's question for the requester before approvers are asked, or "".
	AskReason string `json:"ask_reason,omitempty"`
}

// Verdict is the result of evaluating a proposal. It is sealed: only this package creates a
// verdict, and the zero value denies.
//
// A verdict that asks MUST NOT be treated as an allow unless decision.Make allows the call by an
// answer for the same call digest. A verdict MUST be used only for the request that it was
// evaluated for.
type Verdict struct {
	effect      Effect
	code        reason.Code
	remedy      string
	determining []Determining
	grantID     string
	snapshot    string
	version     string
	timeout     time.Duration
	severity    string
	missing     string
	wanted      *Wanted
	errors      []string
	gate        *SkillGate
}

// Effect returns allow, ask or deny.
func (v Verdict) Effect() Effect { return v.effect }

// Reason returns "" for an allow, ApprovalRequired for an ask, and the reason of a denial.
func (v Verdict) Reason() reason.Code {
	if v.effect == Deny && v.code == "" {
		return reason.PolicyDenied
	}
	return v.code
}

// Remedy returns the next step in plain words, "" for an allow.
func (v Verdict) Remedy() string {
	if v.remedy == "" && v.effect == Deny {
		return reason.Lookup(v.Reason()).Remedy
	}
	return v.remedy
}

// Determining returns the policies that determined the verdict, by id. These are the permits of
// an allow, the forbids of a denial (none if no policy permits), and the policies of an ask
// that wait for an approval.
func (v Verdict) Determining() []Determining { return append([]Determining(nil), v.determining...) }

// GrantID returns the grant that an allow cites, or "".
func (v Verdict) GrantID() string { return v.grantID }

// SnapshotDigest returns the digest of the snapshot that decided.
func (v Verdict) SnapshotDigest() string { return v.snapshot }

// PolicyVersion returns the version of the set that decided.
func (v Verdict) PolicyVersion() string { return v.version }

// Timeout returns how long an ask waits: the shortest @timeout of the policies that caused it.
// It is 0 for other verdicts, and if no policy sets one; the default of the desk then applies.
func (v Verdict) Timeout() time.Duration { return v.timeout }

// Severity returns the highest @severity of the causes of an ask, "" for other verdicts.
func (v Verdict) Severity() string { return v.severity }

// AskReason returns the questions for the requester (@ask_reason) of the policies that caused
// an ask, by policy id and without duplicates. It returns "" if they have none, and for other
// verdicts.
func (v Verdict) AskReason() string {
	if v.effect != Ask {
		return ""
	}
	var questions []string
	for _, d := range v.determining {
		if d.AskReason != "" && !slices.Contains(questions, d.AskReason) {
			questions = append(questions, d.AskReason)
		}
	}
	return strings.Join(questions, " ")
}

// Missing describes the approval that is still required: for an ask, the necessary votes; for a
// denial with ApprovalUnattainable, the requirement that no user can meet.
func (v Verdict) Missing() string { return v.missing }

// Wanted returns the approvers that an ask needs; nil if more than a few are needed, and for
// other verdicts.
func (v Verdict) Wanted() *Wanted { return v.wanted }

// SkillGate returns the decision on running the skill whose tool is called, nil for a call
// without a skill. A closed gate is the reason of the denial.
func (v Verdict) SkillGate() *SkillGate { return v.gate }

// Judgement is one evaluation: with exactly the given votes, or of one access rule. The zero
// value is a denial.
type Judgement struct {
	Allowed     bool          `json:"allowed"`
	Determining []Determining `json:"determining"`
	// Errors are the errors of the evaluation; any error denies.
	Errors []string `json:"errors,omitempty"`
	// Missing describes the approval that is still required, "" if no approval can help.
	Missing string `json:"missing,omitempty"`
	// Wanted are the approvers who would help; nil if a few more do not suffice.
	Wanted *Wanted `json:"-"`
}
