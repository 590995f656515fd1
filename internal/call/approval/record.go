package approval

import (
	"encoding/json"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/tool"
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

// Prompt is the complete content displayed to an approver. It is data and contains no markup.
// Characters that a screen would hide are escaped (see Visible), except in Arguments and Runs,
// which stay exact. Text in the form of a key is replaced everywhere, and Notes state this.
type Prompt struct {
	Title    string `json:"title"`
	Severity string `json:"severity"`
	// Summary is one sentence in plain words.
	Summary string `json:"summary"`
	// Arguments is the full canonical JSON, never truncated. Values at the JSON Pointers (RFC
	// 6901) in Redacted are replaced.
	Arguments json.RawMessage `json:"arguments"`
	Redacted  []string        `json:"redacted"`
	Runs      Execution       `json:"runs"`
	// Workspace is the workspace of the files in Diff and of the operands, or "" without files.
	Workspace string `json:"workspace,omitempty"`
	// Contents are the files, relative to Workspace, whose content or existence the prompt may
	// reveal. Unlisted is true if there may be more.
	Contents []string `json:"contents,omitempty"`
	Unlisted bool     `json:"unlisted,omitempty"`
	// Diff is a unified diff of the files that would change.
	Diff string  `json:"diff"`
	Why  []Cause `json:"why"`
	// Differs lists the differences from the last allowed call of the same tool by the same
	// principal; LastAllowed is false if there was none.
	Differs     []tool.Difference `json:"differs"`
	LastAllowed bool              `json:"last_allowed"`
	Scopes      []Offer           `json:"scopes"`
	// ExactOnly is the reason why only a grant for the identical call is offered.
	ExactOnly string   `json:"exact_only,omitempty"`
	Notes     []string `json:"notes"`
	// Changed lists the differences from the proposed call if people edited it.
	Changed []tool.Difference `json:"changed,omitempty"`
	// RequesterReason is the requester's reason in their own words, or "".
	RequesterReason string `json:"requester_reason,omitempty"`
	// Lead is displayed first: the command line, the file, or the address.
	Lead string `json:"lead,omitempty"`
	// AskedLately is the number of approval requests in the last 7 days by the same requester
	// for the same subject, or for the same tool if the call has no subject.
	AskedLately int64 `json:"asked_lately,omitempty"`
}

// Execution describes the program that will run.
type Execution struct {
	Executable tool.Executable `json:"executable"`
	Argv       []string        `json:"argv"`
	// Cwd is "<workspace>:<relative path>".
	Cwd      string         `json:"cwd"`
	Operands []tool.Operand `json:"operands"`
	Executor tool.Executor  `json:"executor"`
	// Tier is the sandbox tier, Profile its workspace mode and limits.
	Tier    string `json:"tier"`
	Profile string `json:"profile"`
	// Egress is the mode and hosts, Secrets the names of secrets.
	Egress  []string `json:"egress"`
	Secrets []string `json:"secrets"`
}

// Cause is one policy that requires the approval.
type Cause struct {
	PolicyID string `json:"policy_id"`
	// Location is "file:line".
	Location  string `json:"location"`
	Reason    string `json:"reason"`
	Condition string `json:"condition"`
}

// Offer is one possible answer with a description of its coverage.
type Offer struct {
	Scope Scope `json:"scope"`
	Match Match `json:"match"`
	// What describes the calls that a grant would cover, and By describes their callers. Both are
	// "" for scope once.
	What string `json:"what,omitempty"`
	By   string `json:"by,omitempty"`
	// Matcher describes the coverage in one sentence, with the maximum duration.
	Matcher string `json:"matcher"`
	// MaxTTLSeconds is the maximum lifetime of the grant; 0 for once.
	MaxTTLSeconds int64 `json:"max_ttl_seconds"`
	// Permission is required in addition to approval.decide.
	Permission string `json:"permission"`
	// CoveredLately is the number of calls in the last 7 days that it would have covered,
	// including calls that needed no approval.
	CoveredLately int64 `json:"covered_lately,omitempty"`
}

// Grant is a standing approval that the votes on a record created. It is listed, counted and
// revoked separately.
//
// A grant MUST NOT cover more than the votes that created it, and MUST NOT be used after its end,
// its last use or its revocation. Policy MUST judge each call with the votes of the grant again.
type Grant struct {
	// ID and ApprovalID are ULIDs.
	ID         string `json:"grant_id"`
	ApprovalID string `json:"approval_id"`
	Scope      Scope  `json:"scope"`
	Match      Match  `json:"match"`
	// Tool and ToolDefinition (its digest) apply to every matcher; Subject to the matcher
	// subject, CallDigest to exact.
	Tool           string `json:"tool"`
	ToolDefinition string `json:"tool_definition_digest"`
	Subject        string `json:"subject"`
	CallDigest     string `json:"call_digest"`
	// Elsewhere is true for a grant of calls that other gateways run; it covers no others.
	Elsewhere bool `json:"elsewhere,omitempty"`
	// Principal and OnBehalfOf are the parties of the calls that it covers.
	Principal  access.Principal `json:"principal"`
	OnBehalfOf access.Principal `json:"on_behalf_of"`
	// Covered describes in words the calls that it covers and their parties; "" for a grant of
	// an earlier version.
	Covered string `json:"covers,omitempty"`
	// Session and Run identify the requesting call; Session applies to scope session.
	Session  string `json:"session"`
	Run      string `json:"run"`
	MintedBy []Vote `json:"minted_by"`
	// CreatedAt and the other times are in UTC.
	CreatedAt    time.Time `json:"created_at"`
	ExpiresAt    time.Time `json:"expires_at"`
	RevokedAt    time.Time `json:"revoked_at,omitzero"`
	RevokedBy    string    `json:"revoked_by"`
	RevokeReason string    `json:"revoke_reason"`
	// EndedAt and EndNote are set when it expired or its session ended.
	EndedAt time.Time `json:"ended_at,omitzero"`
	EndNote string    `json:"end_note"`
	// Uses counts the calls that it allowed. MostUses is the maximum; 0 means unlimited within
	// its lifetime.
	Uses       int64     `json:"uses"`
	MostUses   int64     `json:"most_uses,omitempty"`
	LastUsedAt time.Time `json:"last_used_at,omitzero"`
	// Version counts the changes of this grant, from 1.
	Version int64 `json:"version"`
}
