package policy

import (
	"encoding/json"

	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
)

// MarshalText returns the form of String.
func (e Effect) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// MarshalJSON encodes the shape.
func (v Verdict) MarshalJSON() ([]byte, error) { return json.Marshal(v.Shape()) }

// Shape is the verdict in its journaled form.
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
		v.effect, v.Reason(), v.Remedy(), canonical.List(v.determining), v.grantID, v.snapshot, v.version,
		v.timeout.Milliseconds(), v.severity, v.missing, v.errors, v.gate,
	}
}

// Errors returns the errors of the evaluation; any error denies.
func (v Verdict) Errors() []string { return append([]string(nil), v.errors...) }
