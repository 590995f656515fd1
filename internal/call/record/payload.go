// Package record defines the content of call events: their payloads, the story of one call
// (Story), and the state of a session computed from its calls (Facts). The pipeline writes the
// payloads, and stores keep them as bytes. All readers use this package, so that they interpret
// the events in the same way.
package record

import (
	"encoding/json"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"palyra/internal/call/decision"
	"palyra/internal/call/policy"
	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/attest"
	"palyra/internal/evidence/journal"
)

// Proposed is the payload of event.Proposed.
type Proposed struct {
	ProposalID string `json:"proposal_id"`
	// CallID is the id that a model assigned to the call.
	CallID     string         `json:"call_id,omitempty"`
	Principal  string         `json:"principal"`
	OnBehalfOf string         `json:"on_behalf_of"`
	DeviceID   string         `json:"device_id"`
	Surface    access.Surface `json:"surface"`
	// Transport is the caller's connection to the gateway.
	Transport            access.Transport `json:"transport,omitempty"`
	Channel              string           `json:"channel,omitempty"`
	Tool                 string           `json:"tool"`
	ToolDefinitionDigest string           `json:"tool_definition_digest,omitempty"`
	Arguments            json.RawMessage  `json:"arguments,omitempty"`
	// ArgumentsBlob is set instead of Arguments if they are large.
	ArgumentsBlob   string `json:"arguments_blob,omitempty"`
	ArgumentsDigest string `json:"arguments_digest"`
	// ArgumentsSalt is set if a value was redacted. ArgumentsDigest then covers the salt's text
	// followed by the original arguments.
	ArgumentsSalt  string   `json:"arguments_salt,omitempty"`
	Redactions     []string `json:"redactions,omitempty"`
	IdempotencyKey string   `json:"idempotency_key,omitempty"`
	// OpenWorld is true if the tool reads from the open world, which taints its session once
	// the call is allowed.
	OpenWorld bool `json:"open_world,omitempty"`
	// GatewaySession is the session that counts the call.
	GatewaySession string `json:"gateway_session,omitempty"`
	// Journal is the newest durable event at the time of the proposal, as in the attestation.
	Journal *attest.Journal `json:"journal,omitempty"`
}

// Edited is the payload of event.Edited: an edit of a waiting call. Members with the same name
// as in Proposed describe the edited call.
type Edited struct {
	ProposalID string `json:"proposal_id"`
	ApprovalID string `json:"approval_id"`
	By         string `json:"by"`
	// WasDigest is the call digest before the edit, and CallDigest the one after it.
	WasDigest       string          `json:"was_digest"`
	CallDigest      string          `json:"call_digest"`
	Arguments       json.RawMessage `json:"arguments,omitempty"`
	ArgumentsBlob   string          `json:"arguments_blob,omitempty"`
	ArgumentsDigest string          `json:"arguments_digest"`
	ArgumentsSalt   string          `json:"arguments_salt,omitempty"`
	Redactions      []string        `json:"redactions,omitempty"`
}

// Refused is the payload of event.Refused.
type Refused struct {
	ProposalID string      `json:"proposal_id"`
	CallID     string      `json:"call_id,omitempty"`
	Principal  string      `json:"principal"`
	Tool       string      `json:"tool"`
	Reason     reason.Code `json:"reason"`
	Message    string      `json:"message"`
	Remedy     string      `json:"remedy,omitempty"`
	// GatewaySession is as in Proposed.
	GatewaySession string `json:"gateway_session,omitempty"`
}

// Evaluated is the payload of event.Evaluated. Request lacks the arguments, which are in the
// proposal.
type Evaluated struct {
	ProposalID string         `json:"proposal_id"`
	CallDigest string         `json:"call_digest"`
	Verdict    Verdict        `json:"verdict"`
	Request    policy.Request `json:"request"`
	// MaySend is the maximum number of bytes that the call can send out.
	MaySend int64 `json:"may_send,omitempty"`
}

// Attested is the payload of event.Attested.
type Attested struct {
	AttestationID string `json:"attestation_id"`
	ProposalID    string `json:"proposal_id"`
	DecisionID    string `json:"decision_id"`
	Tool          string `json:"tool"`
	ResultBlob    string `json:"result_blob,omitempty"`
	// ResultNotKept is true for a result that was too large to store.
	ResultNotKept bool            `json:"result_not_kept,omitempty"`
	Report        tool.Report     `json:"report"`
	Envelope      json.RawMessage `json:"envelope"`
}

// Signed returns the envelope with its digest.
func (a *Attested) Signed() attest.Envelope {
	return attest.Envelope{
		ID: a.AttestationID, JSON: a.Envelope, SHA256: strings.TrimPrefix(canonical.Digest(a.Envelope), "sha256:"),
	}
}

// SessionExtended is the payload of event.SessionExtended.
type SessionExtended struct {
	Session   string `json:"session"`
	Principal string `json:"principal"`
	// Calls is the number of additional calls, Limit the session's new limit of calls.
	Calls      int    `json:"calls"`
	Limit      int    `json:"limit"`
	ProposalID string `json:"proposal_id"`
	ApprovalID string `json:"approval_id"`
}

// Verdict is a policy verdict in its journaled form. It describes a verdict but is not one:
// only package policy creates verdicts.
type Verdict struct {
	Effect         string               `json:"effect"`
	Determining    []policy.Determining `json:"determining"`
	GrantID        string               `json:"grant_id"`
	SnapshotDigest string               `json:"snapshot_digest"`
	PolicyVersion  string               `json:"policy_version"`
	// made is the verdict to write; a verdict that was read has none.
	made policy.Verdict
}

// VerdictOf returns a verdict for the journal.
func VerdictOf(v policy.Verdict) Verdict {
	return Verdict{
		Effect: v.Effect().String(), Determining: v.Determining(), GrantID: v.GrantID(),
		SnapshotDigest: v.SnapshotDigest(), PolicyVersion: v.PolicyVersion(), made: v,
	}
}

// MarshalJSON encodes the complete verdict.
func (v Verdict) MarshalJSON() ([]byte, error) { return v.made.MarshalJSON() }

// Shape is the shape of the verdict.
func (v Verdict) Shape() any { return v.made.Shape() }

// Decode reads the payload of an event of a call or of a session. It returns a pointer to one
// of the types of this package or to a decision.Record, and nil for any other event. For an
// erased payload the error is reason.NotFound. Duplicate members are an error, because two
// readers could use different ones.
func Decode(e *journal.Event) (any, error) {
	into := payloadOf(e.Code)
	if into == nil {
		return nil, nil
	}
	if len(e.Payload) == 0 {
		return nil, reason.Errorf(reason.NotFound, "event %d of call %s was erased", e.Seq, e.Subject)
	}
	if err := jsonv2.Unmarshal(e.Payload, into, jsonv1.FormatDurationAsNano(true)); err != nil {
		return nil, err
	}
	return into, nil
}

func payloadOf(code event.Code) any {
	switch code {
	case event.Proposed:
		return new(Proposed)
	case event.Edited:
		return new(Edited)
	case event.Refused:
		return new(Refused)
	case event.Evaluated:
		return new(Evaluated)
	case event.Decided:
		return new(decision.Record)
	case event.Gated:
		return new(Gated)
	case event.Violated:
		return new(Violated)
	case event.Attested:
		return new(Attested)
	case event.Ambiguous:
		return new(Ambiguous)
	case event.RanOther, event.Ungoverned, event.ReportedLate, event.Unjoined:
		return new(Sighted)
	case event.SessionExtended:
		return new(SessionExtended)
	case event.SessionEnded:
		return new(SessionEnded)
	}
	return nil
}
