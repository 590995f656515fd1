package policy

import (
	"encoding/json"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/tool"
)

// Request is one proposal with its facts. It holds all inputs of an evaluation except the set
// itself, and its JSON form round-trips exactly. It is journaled, and stored with approvals, so
// that an evaluation can be repeated.
type Request struct {
	Caller access.Caller `json:"caller"`
	// Tool is the name of a pinned tool.
	Tool string `json:"tool"`
	// Capabilities are the capabilities that the call requests.
	Capabilities []tool.Capability `json:"capabilities"`
	// Args is the canonical JSON of the arguments, an object.
	Args    json.RawMessage `json:"args"`
	Session string          `json:"session"`
	Run     string          `json:"run"`
	// GatewaySession is the session of SessionFacts; Session and Run are the client's own
	// names. It is "" for a dry run, and in requests of versions that did not store it.
	GatewaySession string `json:"gateway_session,omitempty"`
	// Channel is "" if the call does not come from a channel.
	Channel string `json:"channel"`
	// SkillID is the skill whose tool is called (tool.Descriptor.Skill), or "".
	SkillID string `json:"skill_id"`
	// RequesterReason is the requester's reason in their own words, or "". Text in the form of
	// a key is redacted in it.
	RequesterReason string            `json:"requester_reason,omitempty"`
	Facts           tool.Facts        `json:"facts"`
	SessionFacts    tool.SessionFacts `json:"session_facts"`
	// Commit makes it a request about workspace.commit: whether the call's changes to its copy
	// of the workspace may be applied. Args, Channel, SkillID and most of Facts are then
	// ignored.
	Commit *tool.CommitFacts `json:"commit,omitempty"`
	// Injection makes it a request about secret.inject: whether the program of the call gets a
	// secret in plain text. The same fields are then ignored.
	Injection *tool.Injection `json:"injection,omitempty"`
	// Editors changed the arguments before the call was approved. Each is a requester too: the
	// call is judged once with each of them as its caller.
	Editors []access.Caller `json:"editors,omitempty"`
	// Beside are the other requesters, in the requests of PerPath.
	Beside []access.Caller `json:"-"`
	// Time is the time of the proposal. Cedar reads it in milliseconds.
	Time time.Time `json:"time"`
}

// MarshalJSON encodes the shape.
func (r Request) MarshalJSON() ([]byte, error) { return json.Marshal(r.Shape()) }

// Shape is the request with its time in UTC, so that two forms of one instant have the same
// encoding.
func (r Request) Shape() any {
	type plain Request
	r.Time = r.Time.UTC()
	if len(r.Args) == 0 {
		r.Args = json.RawMessage("{}")
	}
	return plain(r)
}

// Vote is one approving vote of one user.
type Vote struct {
	User access.Principal `json:"user"`
	// Roles are the user's roles at the time of the vote; only roles still held count.
	Roles   []access.Role  `json:"roles"`
	Surface access.Surface `json:"surface"`
	// Paired and Present are the voter's proofs (access.Caller).
	Paired  bool      `json:"paired"`
	Present bool      `json:"present"`
	At      time.Time `json:"at"`
}

// Approval is the set of approving votes for a call. The zero value is no approval.
type Approval struct {
	Votes []Vote `json:"votes"`
	// Standing is true if the votes come from a grant instead of a request about this call.
	Standing bool `json:"standing"`
	// Now is the time at which the votes are counted, for their age.
	Now time.Time `json:"now"`
}

// Grant is a standing approval that matches a call. Only Approval.Votes and Approval.Now are
// read; a grant is always standing.
type Grant struct {
	ID       string   `json:"id"`
	Approval Approval `json:"approval"`
}
