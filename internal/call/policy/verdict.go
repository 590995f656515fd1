package policy

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"palyra/internal/call/policy/internal/expr"
	"palyra/internal/core/reason"
)

// Effect is what Cedar says of a proposal. The zero value is Deny.
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

// MarshalText writes the form of String.
func (e Effect) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// SeverityMedium is the severity of an ask of which no policy says one.
const SeverityMedium = expr.SeverityMedium

// Determining is a policy that a verdict rests on, with what its annotations
// say to people.
type Determining struct {
	ID   string `json:"id"`
	File string `json:"file"`
	// Line is that of the policy's first token, from 1.
	Line int `json:"line"`
	// Effect is "permit" or "forbid".
	Effect string `json:"effect"`
	// Condition is the text of the policy's when and unless clauses on one
	// line, at most 300 characters; "" when it has none. In an ask it is only
	// those of its conjuncts that read context.approval.
	Condition string `json:"condition,omitempty"`
	Reason    string `json:"reason,omitempty"`
	Remedy    string `json:"remedy,omitempty"`
	Severity  string `json:"severity,omitempty"`
	// AskReason is what the policy wants to know of the requester before people are
	// asked; "" when it wants nothing.
	AskReason string `json:"ask_reason,omitempty"`
}

// Verdict is what policy says of a proposal. It is sealed: only this package
// makes one, and the zero value denies.
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

// Reason returns "" for an allow, ApprovalRequired for an ask, and why for a
// deny.
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

// Determining returns the policies the verdict rests on, by id: the permits
// of an allow, the forbids of a deny (none when simply nothing permits), and
// the forbids and permits that wait for an approval of an ask.
func (v Verdict) Determining() []Determining { return append([]Determining(nil), v.determining...) }

// GrantID returns the grant that an allow cites, or "".
func (v Verdict) GrantID() string { return v.grantID }

// SnapshotDigest returns the digest of the snapshot that decided.
func (v Verdict) SnapshotDigest() string { return v.snapshot }

// PolicyVersion returns the version of the set that decided.
func (v Verdict) PolicyVersion() string { return v.version }

// Timeout returns how long an ask waits: the shortest @timeout of the
// policies that caused it. It is 0 when none of them names one, and whoever
// asks then uses a time of their own, and for other verdicts.
func (v Verdict) Timeout() time.Duration { return v.timeout }

// Severity returns the highest @severity of the policies that caused an ask,
// "" for other verdicts.
func (v Verdict) Severity() string { return v.severity }

// AskReason returns what the policies that caused an ask want to know of the requester
// (@ask_reason), by the ids of the policies and each question once; "" when they want
// nothing, and for other verdicts.
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

// Missing returns what an approval still lacks: for an ask, what it takes;
// for a deny with ApprovalUnattainable, what nobody can give.
func (v Verdict) Missing() string { return v.missing }

// Wanted returns the people whose yes an ask takes; nil where more than a few more do,
// and for other verdicts.
func (v Verdict) Wanted() *Wanted { return v.wanted }

// Errors returns the errors of the evaluation; any error denies.
func (v Verdict) Errors() []string { return append([]string(nil), v.errors...) }

// SkillGate returns what was said of running the skill whose tool is called, nil for a
// call of no skill. One that is not allowed is what the deny rests on.
func (v Verdict) SkillGate() *SkillGate { return v.gate }

// MarshalJSON writes the shape.
func (v Verdict) MarshalJSON() ([]byte, error) { return json.Marshal(v.Shape()) }

// Shape is the verdict as the journal has it.
func (v Verdict) Shape() any {
	return struct {
		Effect      Effect        `json:"effect"`
		Reason      reason.Code   `json:"reason,omitempty"`
		Remedy      string        `json:"remedy,omitempty"`
		Determining []Determining `json:"determining"`
		GrantID     string        `json:"grant_id,omitempty"`
		Snapshot    string        `json:"snapshot_digest"`
		Version     string        `json:"policy_version"`
		TimeoutMS   int64         `json:"timeout_ms,omitempty"`
		Severity    string        `json:"severity,omitempty"`
		Missing     string        `json:"missing,omitempty"`
		Errors      []string      `json:"errors,omitempty"`
		Gate        *SkillGate    `json:"skill_gate,omitempty"`
	}{
		v.effect, v.Reason(), v.Remedy(), notNil(v.determining), v.grantID, v.snapshot, v.version,
		v.timeout.Milliseconds(), v.severity, v.missing, v.errors, v.gate,
	}
}

// Judgement is one evaluation: with exactly the votes given, or of one access
// rule. The zero value is a deny.
type Judgement struct {
	Allowed     bool          `json:"allowed"`
	Determining []Determining `json:"determining"`
	// Errors are those of the evaluation; any error denies.
	Errors []string `json:"errors,omitempty"`
	// Missing says what an approval still lacks, "" when nothing can help.
	Missing string `json:"missing,omitempty"`
	// Wanted are the people whose yes would help; nil when it is not for want of a few.
	Wanted *Wanted `json:"-"`
}

func notNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
