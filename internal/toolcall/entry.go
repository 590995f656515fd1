package toolcall

import (
	"encoding/json"
	"time"

	"palyra/internal/access"
	"palyra/internal/attest"
	"palyra/internal/decision"
	"palyra/internal/event"
	"palyra/internal/policy"
	"palyra/internal/reason"
	"palyra/internal/session"
	"palyra/internal/tool"
)

// Entry is what becomes durable in one transaction.
type Entry struct {
	Drafts []event.Draft
	// Claim reserves an idempotency key; a key that is taken fails the entry
	// with IDEMPOTENCY_MISMATCH.
	Claim *Claim
	// Blobs are stored by their SHA-256.
	Blobs [][]byte
	// Attestation is indexed by its id and its proposal's.
	Attestation *StoredAttestation
	// Member makes the call one of its session's.
	Member *session.Member
}

// Claim ties an idempotency key of a principal to one call.
type Claim struct {
	Principal access.Principal
	Key       string
	// Digest is of what was submitted.
	Digest     string
	ProposalID string
	At         time.Time
	// Replaces is the proposal that held the key before and never started; ""
	// when the key is new.
	Replaces string
}

// StoredAttestation is an envelope with what it is found by.
type StoredAttestation struct {
	Envelope   attest.Envelope
	ProposalID string
	CallDigest string
}

// OpenCall is a call that was decided and has no end.
type OpenCall struct {
	ProposalID string
	Session    string
	Run        string
	Actor      string
}

// Past is what the journal knows of a call.
type Past struct {
	ProposalID  string
	Proposed    *ProposedPayload
	Session     string
	Run         string
	Refused     *RefusedPayload
	Decision    *decision.Record
	Attested    *AttestedPayload
	AttestedSeq int64
	// Result is the result's bytes, when the call has one.
	Result []byte
	// Ambiguous is the end of a call that has no attestation.
	Ambiguous *AmbiguousPayload
	// AtGate is true for a call whose changes nobody has ruled on yet, and Gate
	// is the last ruling.
	AtGate bool
	Gate   *GateResult
}

// ProposedPayload is the payload of event.Proposed.
type ProposedPayload struct {
	ProposalID string `json:"proposal_id"`
	// CallID is the id that a model gave the call.
	CallID               string          `json:"call_id,omitempty"`
	Principal            string          `json:"principal"`
	OnBehalfOf           string          `json:"on_behalf_of"`
	DeviceID             string          `json:"device_id"`
	Surface              access.Surface  `json:"surface"`
	Channel              string          `json:"channel,omitempty"`
	Tool                 string          `json:"tool"`
	ToolDefinitionDigest string          `json:"tool_definition_digest,omitempty"`
	Arguments            json.RawMessage `json:"arguments,omitempty"`
	// ArgumentsBlob is set instead of Arguments when they are large.
	ArgumentsBlob   string `json:"arguments_blob,omitempty"`
	ArgumentsDigest string `json:"arguments_digest"`
	// ArgumentsSalt is set when something was redacted; ArgumentsDigest is then
	// of the salt's text and the original arguments after it.
	ArgumentsSalt  string   `json:"arguments_salt,omitempty"`
	Redactions     []string `json:"redactions,omitempty"`
	IdempotencyKey string   `json:"idempotency_key,omitempty"`
	// OpenWorld says that the tool reads from the open world, which taints its
	// session once it is let through.
	OpenWorld bool `json:"open_world,omitempty"`
	// GatewaySession is the session that the gateway counts the call in.
	GatewaySession string `json:"gateway_session,omitempty"`
	// Journal is the newest durable event when the call was proposed. The
	// attestation says the same.
	Journal *JournalHead `json:"journal,omitempty"`
}

// JournalHead is a place in the journal.
type JournalHead struct {
	Size       int64  `json:"size"`
	HeadSHA256 string `json:"head_sha256"`
}

// RefusedPayload is the payload of event.Refused.
type RefusedPayload struct {
	ProposalID string      `json:"proposal_id"`
	CallID     string      `json:"call_id,omitempty"`
	Principal  string      `json:"principal"`
	Tool       string      `json:"tool"`
	Reason     reason.Code `json:"reason"`
	Message    string      `json:"message"`
	Remedy     string      `json:"remedy,omitempty"`
	// GatewaySession is that of ProposedPayload.
	GatewaySession string `json:"gateway_session,omitempty"`
}

// EvaluatedPayload is the payload of event.Evaluated. Request lacks the
// arguments, which the proposal has.
type EvaluatedPayload struct {
	ProposalID string         `json:"proposal_id"`
	CallDigest string         `json:"call_digest"`
	Verdict    policy.Verdict `json:"verdict"`
	Request    policy.Request `json:"request"`
	// MaySend is the most bytes that the call can send out.
	MaySend int64 `json:"may_send,omitempty"`
}

// GatedPayload is the payload of event.Gated.
type GatedPayload struct {
	ProposalID string `json:"proposal_id"`
	// DecisionID is of the decision that let the call run.
	DecisionID string `json:"decision_id"`
	// CallDigest is what an approval of the commit binds to.
	CallDigest string            `json:"call_digest"`
	Facts      tool.CommitFacts  `json:"facts"`
	Files      []tool.FileChange `json:"files,omitempty"`
	// FilesBlob is set instead of Files when they are many.
	FilesBlob string      `json:"files_blob,omitempty"`
	Allowed   bool        `json:"allowed"`
	Reason    reason.Code `json:"reason,omitempty"`
	Message   string      `json:"message,omitempty"`
	Remedy    string      `json:"remedy,omitempty"`
	// Verdict is nil when policy was not asked.
	Verdict    *policy.Verdict `json:"verdict,omitempty"`
	ApprovalID string          `json:"approval_id,omitempty"`
	GrantID    string          `json:"grant_id,omitempty"`
}

// GateResult is what is read of a GatedPayload: only policy makes a Verdict.
type GateResult struct {
	Allowed bool        `json:"allowed"`
	Reason  reason.Code `json:"reason"`
	Message string      `json:"message"`
	Remedy  string      `json:"remedy"`
}

// ViolatedPayload is the payload of event.Violated.
type ViolatedPayload struct {
	ProposalID string           `json:"proposal_id"`
	Violations []tool.Violation `json:"violations"`
	// Missed counts those that were not kept.
	Missed int `json:"missed"`
}

// AttestedPayload is the payload of event.Attested.
type AttestedPayload struct {
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

// SessionExtendedPayload is the payload of event.SessionExtended.
type SessionExtendedPayload struct {
	Session   string `json:"session"`
	Principal string `json:"principal"`
	// Calls is how many more it may make, Limit how many it may have made then.
	Calls      int    `json:"calls"`
	Limit      int    `json:"limit"`
	ProposalID string `json:"proposal_id"`
	ApprovalID string `json:"approval_id"`
}

// SessionEndedPayload is the payload of event.SessionEnded.
type SessionEndedPayload struct {
	Session   string         `json:"session"`
	Principal string         `json:"principal"`
	DeviceID  string         `json:"device_id"`
	Client    session.Client `json:"client"`
	EndedBy   string         `json:"ended_by"`
	Reason    string         `json:"reason,omitempty"`
}

// AmbiguousPayload is the payload of event.Ambiguous.
type AmbiguousPayload struct {
	ProposalID string      `json:"proposal_id"`
	Reason     reason.Code `json:"reason"`
	Message    string      `json:"message"`
}
