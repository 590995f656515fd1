package approval

import (
	"encoding/json"
	"slices"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/tool"
)

// State is the state of a record.
type State string

// The states. Pending becomes allowed, denied, expired or cancelled; allowed becomes consumed,
// revoked or expired. The others are terminal and never change.
const (
	Pending   State = "pending"
	Allowed   State = "allowed"
	Denied    State = "denied"
	Expired   State = "expired"
	Cancelled State = "cancelled"
	Consumed  State = "consumed"
	Revoked   State = "revoked"
)

// States lists all states.
var States = []State{Pending, Allowed, Denied, Expired, Cancelled, Consumed, Revoked}

// Terminal reports whether s never changes again.
func (s State) Terminal() bool {
	return slices.Contains(States, s) && s != Pending && s != Allowed
}

// SubjectType is the type of the subject of a record.
type SubjectType string

// The subject types.
const (
	SubjectTool          SubjectType = "tool"
	SubjectSecretAccess  SubjectType = "secret_access"
	SubjectDevicePairing SubjectType = "device_pairing"
	SubjectGatewayChange SubjectType = "gateway_change"
)

// Record is one approval: a request about one exact call, and its answer.
//
// A record MUST change only by a transition of the state machine, which increases Version. A vote
// MUST name the version and the digest that the voter saw. A closed record MUST NOT open again.
type Record struct {
	// ID and ProposalID are ULIDs. ProposalID is the proposal of the first requesting call.
	ID         string `json:"approval_id"`
	ProposalID string `json:"proposal_id"`
	// CallDigest is the digest of the call. SnapshotDigest is the digest of the policy snapshot
	// that required the approval.
	CallDigest     string      `json:"call_digest"`
	SnapshotDigest string      `json:"snapshot_digest"`
	SubjectType    SubjectType `json:"subject_type"`
	// SubjectID names the subject: the tool's own subject, such as
	// "process.run:/usr/bin/git@default", else the tool's name, or "commit:..." and similar.
	SubjectID string `json:"subject_id"`
	// Subject is the subject that a grant with matcher subject would cover; "" if the call has
	// none.
	Subject string `json:"subject"`
	// SubjectCovers and ExactOnly are the fields of tool.Plan.
	SubjectCovers string           `json:"subject_covers,omitempty"`
	ExactOnly     string           `json:"exact_only,omitempty"`
	Severity      string           `json:"severity"`
	Prompt        Prompt           `json:"prompt"`
	RequestedBy   access.Principal `json:"requested_by"`
	OnBehalfOf    access.Principal `json:"on_behalf_of"`
	Run           string           `json:"run"`
	Session       string           `json:"session"`
	Device        string           `json:"device"`
	Channel       string           `json:"channel"`

	// CreatedAt and the other times are in UTC. ExpiresAt is when a pending record expires,
	// UseBy when an allowed one does, AnsweredAt when it was allowed or denied, ClosedAt when
	// it reached a terminal state.
	CreatedAt  time.Time `json:"created_at"`
	ExpiresAt  time.Time `json:"expires_at"`
	AnsweredAt time.Time `json:"answered_at,omitzero"`
	UseBy      time.Time `json:"use_by,omitzero"`
	ClosedAt   time.Time `json:"closed_at,omitzero"`

	State State `json:"state"`
	// Version counts the transitions of this record, from 1.
	Version int64 `json:"version"`
	// Revision orders the changes of all records; Watch resumes after one.
	Revision int64  `json:"revision"`
	Votes    []Vote `json:"votes"`
	// Edits are the edits of the call since the record was created, oldest first. The call has
	// the state after the last edit.
	Edits []Edit `json:"edits,omitempty"`
	// Missing describes the missing votes of a pending record in plain words.
	Missing string `json:"missing"`
	// Needs is the machine-readable form of Missing, or nil.
	Needs   *Needs `json:"needs,omitempty"`
	GrantID string `json:"grant_id"`
	// ChangedBy and Note are the actor and the reason of the last transition.
	ChangedBy string `json:"changed_by"`
	Note      string `json:"note"`

	// Binding is the call in displayable form: arguments at the tool's secret paths and text in
	// the form of a key are redacted. CallDigest is the digest of the unredacted call.
	Binding tool.Binding `json:"binding"`
	// Request is the policy request that the Judge evaluates again. It is opaque here, may hold
	// secrets, and is never part of the record's JSON. A record in a terminal state has none.
	Request json.RawMessage `json:"-"`
	// Input is the edited input of the call while it waits in this process.
	Input json.RawMessage `json:"-"`
	// Withheld is the reason why Prompt and Binding are only outlines and Request is missing:
	// reason.VaultLocked, reason.ResultExpired, or damage. nil means that they are complete.
	Withheld error `json:"-"`

	// Waiters and RunGone are live and not stored. Waiters is the number of calls that wait on
	// a pending record. RunGone is true if the daemon has restarted since the record was
	// created and no call waits on it.
	Waiters int  `json:"waiters"`
	RunGone bool `json:"run_gone"`
}

// Needs is the smallest set of further approvers that would allow a call.
type Needs struct {
	// Have counts the people whose approval counts so far, Want the total number required.
	Have int `json:"have"`
	Want int `json:"want"`
	// Role is required from the missing approvers, "" for any.
	Role access.Role `json:"role,omitempty"`
	// Surfaces are the surfaces that their votes may come from; none means any.
	Surfaces []access.Surface `json:"surfaces,omitempty"`
	// Present and Paired are the proofs required from their votes.
	Present bool `json:"present,omitempty"`
	Paired  bool `json:"paired,omitempty"`
}

// deadline returns the time at which r expires in its present state; zero for a terminal one.
func (r Record) deadline() time.Time {
	switch r.State {
	case Pending:
		return r.ExpiresAt
	case Allowed:
		return r.UseBy
	default:
		return time.Time{}
	}
}
