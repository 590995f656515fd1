package approval

import (
	"encoding/json"
	"slices"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/tool"
)

// State is where a record stands.
type State string

// The states. Pending becomes allowed, denied, expired or cancelled; allowed
// becomes consumed, revoked or expired. The others are terminal and never
// change.
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

// SubjectType is what kind of thing is asked about.
type SubjectType string

// The subject types.
const (
	SubjectTool           SubjectType = "tool"
	SubjectChannelSend    SubjectType = "channel_send"
	SubjectSecretAccess   SubjectType = "secret_access"
	SubjectBrowserAction  SubjectType = "browser_action"
	SubjectNodeCapability SubjectType = "node_capability"
	SubjectDevicePairing  SubjectType = "device_pairing"
	SubjectGatewayChange  SubjectType = "gateway_change"
)

// SubjectTypes lists all subject types.
var SubjectTypes = []SubjectType{
	SubjectTool, SubjectChannelSend, SubjectSecretAccess, SubjectBrowserAction, SubjectNodeCapability, SubjectDevicePairing,
	SubjectGatewayChange,
}

// Record is one approval: a question about one exact call, and its answer.
type Record struct {
	// ID and ProposalID are ULIDs. ProposalID is of the call that asked first.
	ID         string `json:"approval_id"`
	ProposalID string `json:"proposal_id"`
	// CallDigest is the digest of the call; SnapshotDigest is of the policy
	// snapshot under which policy asked.
	CallDigest     string      `json:"call_digest"`
	SnapshotDigest string      `json:"snapshot_digest"`
	SubjectType    SubjectType `json:"subject_type"`
	// SubjectID names what is asked about: the tool's own subject, such as
	// "process.run:/usr/bin/git@default", else the tool's name, or
	// "commit:..." and the like.
	SubjectID string `json:"subject_id"`
	// Subject is what a grant with matcher subject would cover; "" when the
	// call has no subject of its own.
	Subject string `json:"subject"`
	// SubjectCovers and ExactOnly are those of the tool.Plan.
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

	// CreatedAt and the other times are in UTC. ExpiresAt is when a pending
	// record expires, UseBy when an allowed one does, AnsweredAt when it was
	// allowed or denied, ClosedAt when it reached a terminal state.
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
	// Edits are the changes of the call since it was asked about, the first first; the
	// call is then as the last one left it.
	Edits []Edit `json:"edits,omitempty"`
	// Missing says what a pending record still needs, in plain words.
	Missing string `json:"missing"`
	// Needs says the same to programs; nil where it cannot be put so.
	Needs   *Needs `json:"needs,omitempty"`
	GrantID string `json:"grant_id"`
	// ChangedBy and Note say who made the last transition, and why.
	ChangedBy string `json:"changed_by"`
	Note      string `json:"note"`

	// Binding is the call as it may be shown: arguments at the tool's secret
	// paths and what has the form of a key are redacted. CallDigest is of the
	// real one.
	Binding tool.Binding `json:"binding"`
	// Request is the policy request that the Judge evaluates again. It is
	// opaque here, may hold secrets, and is never part of the record's JSON. A
	// record in a terminal state has none.
	Request json.RawMessage `json:"-"`
	// Input is the edited input of the call, while it waits in this process.
	Input json.RawMessage `json:"-"`
	// Withheld is why Prompt and Binding are there in outline only, and Request is
	// not: reason.VaultLocked, reason.ResultExpired, or that they are damaged. nil
	// means that they are whole.
	Withheld error `json:"-"`

	// Waiters and RunGone are live and not stored. Waiters is how many calls wait
	// on a pending record. RunGone is true when the daemon has restarted since the
	// record was asked and no call waits on it.
	Waiters int  `json:"waiters"`
	RunGone bool `json:"run_gone"`
}

// Needs is the fewest further people whose yes would allow a call.
type Needs struct {
	// Have counts the people whose yes counts so far, Want those that it takes in all.
	Have int `json:"have"`
	Want int `json:"want"`
	// Role is what those who are still needed must hold, "" for any.
	Role access.Role `json:"role,omitempty"`
	// Surfaces are those that their vote may come from; none for any.
	Surfaces []access.Surface `json:"surfaces,omitempty"`
	// Present and Paired say what their vote has to prove.
	Present bool `json:"present,omitempty"`
	Paired  bool `json:"paired,omitempty"`
}

// Stored returns r without its live fields.
func (r Record) Stored() Record {
	r.Waiters, r.RunGone = 0, false
	return r
}

// Own reports whether r asks for a user, who then is none of those that others can rely
// on.
func (r Record) Own(user access.Principal) bool {
	return !user.IsZero() && (user == r.RequestedBy || user == r.OnBehalfOf || r.edited(user))
}

// HasVoted reports whether the user has voted on r.
func (r Record) HasVoted(user access.Principal) bool {
	return slices.ContainsFunc(r.Votes, func(v Vote) bool { return v.User == user })
}

// provesMore reports whether a vote of the caller proves something that its vote
// before did not, so that a yes that did not suffice can be given again: over TLS after
// one over the socket, or with a proof of presence.
func (r Record) provesMore(c access.Caller) bool {
	return slices.ContainsFunc(r.Votes, func(v Vote) bool {
		return v.User == c.Principal && (c.Paired && !v.Paired || c.Present && !v.Present) && (c.Paired || !v.Paired) && (c.Present || !v.Present)
	})
}

// votesBut returns the votes of others than the user.
func (r Record) votesBut(user access.Principal) []Vote {
	return slices.DeleteFunc(slices.Clone(r.Votes), func(v Vote) bool { return v.User == user })
}

// deadline is when r expires in its present state; zero for a terminal one.
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
