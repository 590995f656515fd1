package expr

import (
	"time"

	"palyra/internal/core/text"

	"github.com/cedar-policy/cedar-go"
)

// Policy is one policy with its text and positions.
type Policy struct {
	ID     string
	Source *Source
	// Tokens are the tokens of the policy, from its first annotation to its ';'; nil once
	// findings are not needed any more.
	Tokens []Token
	// Head is the word permit or forbid.
	Head Token
	Text string
	Line int
	// Offset is where text begins in the source, in bytes.
	Offset int
	Cedar  *cedar.Policy
	AST    *AST
	Notes  annotations
	// Builtin marks the embedded defaults.
	Builtin bool
	// laid are the conditions with their positions; see Conditions.
	laid []Condition
}

// annotations are the annotations of a policy for people.
type annotations struct {
	Reason, Remedy string
	Severity       string
	// Timeout is 0 if not set.
	Timeout time.Duration
	Waives  string
	// AskReason is the question for the requester before approvers are asked.
	AskReason string
}

// Permits reports whether the policy is a permit.
func (c *Policy) Permits() bool { return c.Cedar.Effect() == cedar.Permit }

// The severities of an ask, in ascending order.
const (
	SeverityLow      = "low"
	SeverityMedium   = "medium"
	SeverityHigh     = "high"
	SeverityCritical = "critical"
)

// Severities lists all severities, the lowest first.
var Severities = []string{SeverityLow, SeverityMedium, SeverityHigh, SeverityCritical}

// ClipText bounds a text in bytes.
func ClipText(s string) string { return text.Ellipsis(s, 400) }
