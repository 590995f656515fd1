package expr

import (
	"palyra/internal/core/text"

	"github.com/cedar-policy/cedar-go"
)

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
