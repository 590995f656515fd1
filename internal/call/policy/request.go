package policy

import (
	"encoding/json"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/tool"
)

// Request is one proposal with its facts. It holds everything an evaluation
// reads beside the set itself, and its JSON form round-trips exactly: it is
// journaled, and stored with approvals, so that an evaluation can be repeated.
type Request struct {
	Caller access.Caller `json:"caller"`
	// Tool is the name of a pinned tool.
	Tool string `json:"tool"`
	// Capabilities are those that the call asks for.
	Capabilities []tool.Capability `json:"capabilities"`
	// Args is the canonical JSON of the arguments, an object.
	Args    json.RawMessage `json:"args"`
	Session string          `json:"session"`
	Run     string          `json:"run"`
	// GatewaySession is the session that SessionFacts are of; Session and Run are
	// the client's own names. It is "" for a dry run, and in requests of before it
	// was kept.
	GatewaySession string `json:"gateway_session,omitempty"`
	// Channel is "" when the call comes from none.
	Channel string `json:"channel"`
	// SkillID is the skill whose tool is called (tool.Descriptor.Skill), "" for none.
	SkillID string `json:"skill_id"`
	// RequesterReason is why the requester wants the call, in their own words; "" when
	// they said nothing. What has the form of a key is redacted in it.
	RequesterReason string            `json:"requester_reason,omitempty"`
	Facts           tool.Facts        `json:"facts"`
	SessionFacts    tool.SessionFacts `json:"session_facts"`
	// Commit makes it a request about workspace.commit: whether what the call
	// changed in its copy of the workspace may be applied. Args, Channel, SkillID
	// and most of Facts are then not looked at.
	Commit *tool.CommitFacts `json:"commit,omitempty"`
	// Injection makes it a request about secret.inject: whether the program of the
	// call gets a secret as it is. The same is then not looked at.
	Injection *tool.Injection `json:"injection,omitempty"`
	// Editors are who changed the arguments before the call was approved. Each asks for
	// the call, too: it is judged once with each of them as its caller.
	Editors []access.Caller `json:"editors,omitempty"`
	// Beside are those who ask for it beside the caller, in the requests of PerPath.
	Beside []access.Caller `json:"-"`
	// Time is when the proposal was made. Cedar sees it in milliseconds.
	Time time.Time `json:"time"`
}

// MarshalJSON writes the shape.
func (r Request) MarshalJSON() ([]byte, error) { return json.Marshal(r.Shape()) }

// Shape is the request with its time in UTC, so that two forms of one instant are one
// text.
func (r Request) Shape() any {
	type plain Request
	r.Time = r.Time.UTC()
	if len(r.Args) == 0 {
		r.Args = json.RawMessage("{}")
	}
	return plain(r)
}

// Vote is one yes of one user.
type Vote struct {
	User access.Principal `json:"user"`
	// Roles are those that the user held when voting; only those still held
	// count.
	Roles   []access.Role  `json:"roles"`
	Surface access.Surface `json:"surface"`
	// Paired and Present say what the voter proved (access.Caller).
	Paired  bool      `json:"paired"`
	Present bool      `json:"present"`
	At      time.Time `json:"at"`
}

// Approval is the votes that speak for a call. The zero value is no approval.
type Approval struct {
	Votes []Vote `json:"votes"`
	// Standing is true when the votes come from a grant and not from an ask
	// about this very call.
	Standing bool `json:"standing"`
	// Now is when the votes are counted, for their age.
	Now time.Time `json:"now"`
}

// Grant is a standing yes that matches a call. Only Approval.Votes and
// Approval.Now are read; a grant is always standing.
type Grant struct {
	ID       string   `json:"id"`
	Approval Approval `json:"approval"`
}
