// Package event is the closed catalog of the gateway's journal events: the codes, and the Draft
// that a package passes to the journal's writer. Catalog describes every code, and
// docs/reference/events.md is generated from it. It is a leaf.
package event

import (
	"encoding/json"
	"fmt"

	"palyra/internal/core/canonical"
)

// Code names one kind of event. Codes are never reused.
type Code string

// The catalog.
const (
	Proposed  Code = "PAL-D100"
	Refused   Code = "PAL-D101"
	Evaluated Code = "PAL-D102"
	Decided   Code = "PAL-D103"
	Edited    Code = "PAL-D104"
	Looked    Code = "PAL-D105"

	Asked     Code = "PAL-A100"
	Joined    Code = "PAL-A101"
	Voted     Code = "PAL-A102"
	Answered  Code = "PAL-A103"
	Expired   Code = "PAL-A104"
	Cancelled Code = "PAL-A105"
	Consumed  Code = "PAL-A106"
	Revoked   Code = "PAL-A107"
	Amended   Code = "PAL-A108"

	GrantMinted  Code = "PAL-G100"
	GrantUsed    Code = "PAL-G101"
	GrantRevoked Code = "PAL-G102"
	GrantEnded   Code = "PAL-G103"

	Attested  Code = "PAL-X100"
	Ambiguous Code = "PAL-X101"
	Gated     Code = "PAL-X102"
	Violated  Code = "PAL-X103"
	Undone    Code = "PAL-X104"

	RanOther     Code = "PAL-H100"
	Ungoverned   Code = "PAL-H101"
	ReportedLate Code = "PAL-H102"
	Unjoined     Code = "PAL-H103"

	RunStarted  Code = "PAL-R100"
	UserMessage Code = "PAL-R101"
	ModelTurn   Code = "PAL-R102"
	RunFinished Code = "PAL-R103"

	SessionExtended Code = "PAL-S100"
	SessionEnded    Code = "PAL-S101"

	SecretPut        Code = "PAL-S200"
	SecretRead       Code = "PAL-S201"
	SecretLeased     Code = "PAL-S202"
	SecretUsed       Code = "PAL-S203"
	SecretRemoved    Code = "PAL-S204"
	VaultRekeyed     Code = "PAL-S205"
	RecoveryExported Code = "PAL-S206"
	SecretLeaseEnded Code = "PAL-S207"
	SecretEnded      Code = "PAL-S208" //#nosec G101 -- the code of an event

	CACreated        Code = "PAL-I100"
	CertificateMade  Code = "PAL-I101"
	MemberAdded      Code = "PAL-I102"
	CallersRefused   Code = "PAL-I104"
	PermissionDenied Code = "PAL-I105"
	DeviceRevoked    Code = "PAL-I106"
	Exported         Code = "PAL-I107"
	DeviceAdded      Code = "PAL-I108"
	MemberChanged    Code = "PAL-I109"
	MemberDisabled   Code = "PAL-I110"
	MemberEnabled    Code = "PAL-I111"
	MemberRemoved    Code = "PAL-I112"
	DeviceRenamed    Code = "PAL-I113"

	MembersConfirmed Code = "PAL-I114"
	ConsentGiven     Code = "PAL-I118"
	ConsentWithdrawn Code = "PAL-I119"

	TokenMade    Code = "PAL-I120"
	TokenRevoked Code = "PAL-I121"

	PairingOpened Code = "PAL-I130"
	PairingTried  Code = "PAL-I131"
	PairingProved Code = "PAL-I132"
	PairingEnded  Code = "PAL-I133"
	DevicePaired  Code = "PAL-I134"

	LoggedIn  Code = "PAL-I140"
	LoggedOut Code = "PAL-I141"

	DeviceKeyReplaced Code = "PAL-I150"
	OldKeyUsed        Code = "PAL-I151"

	GatewayKeyReplaced Code = "PAL-I152"

	VaultKeyPinned Code = "PAL-I153"

	PresenceKeyRegistered Code = "PAL-I160"
	PresenceKeyReset      Code = "PAL-I161"
	PresenceKeyConfirmed  Code = "PAL-I162"

	PasskeyEnrolled    Code = "PAL-I163"
	PasskeyConfirmed   Code = "PAL-I164"
	PasskeyRemoved     Code = "PAL-I165"
	PasskeyCounterBack Code = "PAL-I166"

	EvaluatedFor Code = "PAL-I170"
	AskedFor     Code = "PAL-I171"

	ConsoleLink  Code = "PAL-I180"
	ConsoleBegun Code = "PAL-I181"
	ConsoleEnded Code = "PAL-I182"

	PolicyLoaded   Code = "PAL-P100"
	PolicyRejected Code = "PAL-P101"
	Frozen         Code = "PAL-P102"
	Thawed         Code = "PAL-P103"
	ToolPinned     Code = "PAL-P104"
	ToolSuspended  Code = "PAL-P105"
	ToolResumed    Code = "PAL-P106"
	PolicyReset    Code = "PAL-P107"
	GatewayChange  Code = "PAL-P108"
	DualControlOff Code = "PAL-P109"
	PolicyProposed Code = "PAL-P110"
	CeilingSet     Code = "PAL-P111"

	UpstreamAdded     Code = "PAL-U100"
	UpstreamRemoved   Code = "PAL-U101"
	UpstreamSeen      Code = "PAL-U102"
	UpstreamApproved  Code = "PAL-U103"
	UpstreamLoggedIn  Code = "PAL-U104"
	UpstreamLoggedOut Code = "PAL-U105"
	UpstreamEnded     Code = "PAL-U106"
	HookInstalled     Code = "PAL-H110"
	HookChanged       Code = "PAL-H111"
	HookUninstalled   Code = "PAL-H112"

	SkillInstalled      Code = "PAL-K100"
	SkillRemoved        Code = "PAL-K101"
	SkillChanged        Code = "PAL-K102"
	SkillTampered       Code = "PAL-K103"
	PublisherTrusted    Code = "PAL-K110"
	PublisherDistrusted Code = "PAL-K111"

	Notified       Code = "PAL-N100"
	ChatUserMapped Code = "PAL-N101"
	ChatUserGone   Code = "PAL-N102"
	ChatConsent    Code = "PAL-N103"

	Opened       Code = "PAL-J100"
	Closed       Code = "PAL-J101"
	Checkpoint   Code = "PAL-J102"
	ClockStepped Code = "PAL-J103"
	KeyRotated   Code = "PAL-J104"
	Restored     Code = "PAL-J105"
)

// Draft is an event before the writer assigns a sequence number, a time and a place in the
// chain.
type Draft struct {
	Code    Code
	Session string
	Run     string
	// Actor is the principal that caused the event, "user:alice", or
	// "service:palyrad" for the daemon itself.
	Actor string
	// Subject is the id of the event's object, for look-ups: a proposal, approval, grant or device
	// id.
	Subject string
	// Payload is one JSON object in canonical form (RFC 8785).
	Payload json.RawMessage
	// Unasked accompanies the decision of a call that runs without an approval. It is not part of
	// the event: stores count such calls by it.
	Unasked *Unasked
}

// Unasked is a call allowed by policy or a grant, with the fields that a grant for it would match.
type Unasked struct {
	RequestedBy, OnBehalfOf, Tool string
	// Subject is "" for a call without a subject.
	Subject, CallDigest string
}

// DraftOf makes a draft with a canonical payload.
func DraftOf(code Code, actor, subject string, payload any) (Draft, error) {
	text, err := canonical.Marshal(payload)
	if err != nil {
		return Draft{}, fmt.Errorf("making event %s: %w", code, err)
	}
	return Draft{Code: code, Actor: actor, Subject: subject, Payload: text}, nil
}
