// Package event is the closed catalog of what the gateway journals: the codes, and
// the Draft that a package hands to the journal's writer. docs/events.md describes
// every code, and a test compares the two. It is a leaf.
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
	Proposed  Code = "PAL-D100" // a call was proposed, its input checked
	Refused   Code = "PAL-D101" // a proposal was refused before policy; nothing ran
	Evaluated Code = "PAL-D102" // Cedar gave a verdict
	Decided   Code = "PAL-D103" // the final allow or deny; durable before dispatch, or with the outcome where the tool cannot have an effect
	Edited    Code = "PAL-D104" // a human changed the arguments of a call that waited; it was judged anew
	Looked    Code = "PAL-D105" // calls were evaluated or explained and not made, for which files were read

	Asked     Code = "PAL-A100" // an approval was created and humans are asked
	Joined    Code = "PAL-A101" // another identical call waits on the same approval
	Voted     Code = "PAL-A102" // a human voted
	Answered  Code = "PAL-A103" // the approval became allowed or denied
	Expired   Code = "PAL-A104" // nobody answered, or nobody used the answer, in time
	Cancelled Code = "PAL-A105" // the caller withdrew
	Consumed  Code = "PAL-A106" // one call used the approval up
	Revoked   Code = "PAL-A107" // an allowed approval was taken back
	Amended   Code = "PAL-A108" // a human changed the call that is asked about; the votes before fell

	GrantMinted  Code = "PAL-G100" // a vote with scope session or timeboxed made a standing yes
	GrantUsed    Code = "PAL-G101" // a call was allowed by a grant
	GrantRevoked Code = "PAL-G102" // a grant was taken back
	GrantEnded   Code = "PAL-G103" // a grant ran out

	Attested  Code = "PAL-X100" // a call ran, or was refused at dispatch, and its attestation is stored
	Ambiguous Code = "PAL-X101" // a decided call has no attestation: the daemon stopped while it ran, or it could not be made
	Gated     Code = "PAL-X102" // the commit of a change set was allowed or refused; durable before anything is applied
	Violated  Code = "PAL-X103" // a sandboxed program made system calls that were denied
	Undone    Code = "PAL-X104" // a committed change set was taken back

	RanOther     Code = "PAL-H100" // an agent said that it ran something else than what was decided
	Ungoverned   Code = "PAL-H101" // an agent said that it ran a call that was not allowed, or not asked about
	ReportedLate Code = "PAL-H102" // an agent said how a call ended that had been closed without a report
	Unjoined     Code = "PAL-H103" // an agent said that it called the gateway's own MCP server, and no such call arrived

	RunStarted  Code = "PAL-R100" // a run was started
	UserMessage Code = "PAL-R101" // the user said something to the run
	ModelTurn   Code = "PAL-R102" // the model gave a whole answer
	RunFinished Code = "PAL-R103" // the run ended: completed, failed, cancelled, or interrupted by a stop of the daemon

	SessionExtended Code = "PAL-S100" // people let a session make more calls
	SessionEnded    Code = "PAL-S101" // a person ended a session; the next call of its caller begins another

	SecretPut        Code = "PAL-S200" // a secret got a value, or other metadata
	SecretRead       Code = "PAL-S201" // a person was shown the value of a secret
	SecretLeased     Code = "PAL-S202" // a call or a run may use a secret for a while
	SecretUsed       Code = "PAL-S203" // a leased secret was used, the first time for this purpose
	SecretRemoved    Code = "PAL-S204" // a secret was removed, with all its versions
	VaultRekeyed     Code = "PAL-S205" // the key that wraps the vault's keys is to be replaced, or was
	RecoveryExported Code = "PAL-S206" // the keys of the vault were given away, encrypted to a recovery key
	SecretLeaseEnded Code = "PAL-S207" // a secret can be used by this call or run no longer
	SecretEnded      Code = "PAL-S208" //#nosec G101 -- the code of an event: a secret of an agent ended, since the agent got another owner or was removed

	CACreated        Code = "PAL-I100" // the certificate authority was made
	CertificateMade  Code = "PAL-I101" // a certificate was issued
	MemberAdded      Code = "PAL-I102" // a user or agent was added
	CallersRefused   Code = "PAL-I104" // coalesced refusals of unauthenticated or throttled callers
	PermissionDenied Code = "PAL-I105" // an authenticated caller lacked a permission
	DeviceRevoked    Code = "PAL-I106" // a device's certificate was revoked
	Exported         Code = "PAL-I107" // journal or approvals were exported
	DeviceAdded      Code = "PAL-I108" // the gateway's host gave a member another device
	MemberChanged    Code = "PAL-I109" // roles were given to a member or taken, or an agent got another owner
	MemberDisabled   Code = "PAL-I110" // a member may not act any more, until it is enabled
	MemberEnabled    Code = "PAL-I111" // a disabled member may act again
	MemberRemoved    Code = "PAL-I112" // a member was removed for good, with its devices
	DeviceRenamed    Code = "PAL-I113" // a device got another name

	MembersConfirmed Code = "PAL-I114" // members were confirmed to be who they are said to be
	ConsentGiven     Code = "PAL-I118" // an agent's owner agreed that it acts in their name
	ConsentWithdrawn Code = "PAL-I119" // an agent's owner no longer agrees that it acts in their name

	TokenMade    Code = "PAL-I120" // an API token was made
	TokenRevoked Code = "PAL-I121" // an API token was revoked

	PairingOpened Code = "PAL-I130" // a pairing code was made
	PairingTried  Code = "PAL-I131" // coalesced guesses of pairing codes
	PairingProved Code = "PAL-I132" // a machine knew the secret of a pairing code, and people are asked
	PairingEnded  Code = "PAL-I133" // a pairing code ended without a device
	DevicePaired  Code = "PAL-I134" // a member got a device by pairing

	LoggedIn  Code = "PAL-I140" // a person logged in at the identity provider and got a session
	LoggedOut Code = "PAL-I141" // the session of a login ended before its time

	DeviceKeyReplaced Code = "PAL-I150" // a device used a new key for the first time, and the keys before it end
	OldKeyUsed        Code = "PAL-I151" // somebody used a key of a device that was replaced

	GatewayKeyReplaced Code = "PAL-I152" // a key of the gateway is to be replaced, or was

	VaultKeyPinned Code = "PAL-I153" // the current key of the vault is this one, in this place: made first, rotated or moved

	PresenceKeyRegistered Code = "PAL-I160" // a device got a presence key
	PresenceKeyReset      Code = "PAL-I161" // the gateway's host took the presence key from a device
	PresenceKeyConfirmed  Code = "PAL-I162" // a presence key that waited counts from now on

	PasskeyEnrolled    Code = "PAL-I163" // a member got a passkey
	PasskeyConfirmed   Code = "PAL-I164" // a passkey that waited counts from now on
	PasskeyRemoved     Code = "PAL-I165" // a passkey counts no more
	PasskeyCounterBack Code = "PAL-I166" // a passkey showed a counter that went back: there may be a copy of it

	EvaluatedFor Code = "PAL-I170" // a caller asked whether a member may make a call that runs elsewhere, and was answered
	AskedFor     Code = "PAL-I171" // a caller had people asked about a call of a member that runs elsewhere

	ConsoleLink  Code = "PAL-I180" // a link that lets somebody into the console once was made
	ConsoleBegun Code = "PAL-I181" // a session of the console began
	ConsoleEnded Code = "PAL-I182" // a session of the console ended before palyrad did

	PolicyLoaded   Code = "PAL-P100" // a policy set came into force, or was activated or not any more
	PolicyRejected Code = "PAL-P101" // a policy set did not load, or its tests failed; the running one stays
	Frozen         Code = "PAL-P102" // an operator stopped all dispatch
	Thawed         Code = "PAL-P103" // an operator let dispatch go on
	ToolPinned     Code = "PAL-P104" // a tool definition was seen first, or a changed one was accepted
	ToolSuspended  Code = "PAL-P105" // a changed tool definition does not fit the policies
	ToolResumed    Code = "PAL-P106" // a suspended tool may be called again
	PolicyReset    Code = "PAL-P107" // on the host, while no daemon ran: the policy directory counts from the next start
	GatewayChange  Code = "PAL-P108" // a change of the gateway was let through: by a second person's yes, or by one person's word alone
	DualControlOff Code = "PAL-P109" // at the start: the configuration says that no change of the gateway takes a second person
	PolicyProposed Code = "PAL-P110" // the policy directory differs from what is in force, and takes a second person
	CeilingSet     Code = "PAL-P111" // a principal or a channel was let in or kept out, whatever policies say

	UpstreamAdded     Code = "PAL-U100" // an upstream server was added, or declared anew
	UpstreamRemoved   Code = "PAL-U101" // an upstream server was removed
	UpstreamSeen      Code = "PAL-U102" // an upstream server says something of itself that it did not say before
	UpstreamApproved  Code = "PAL-U103" // what an upstream server says of itself now was approved
	UpstreamLoggedIn  Code = "PAL-U104" // somebody logged the gateway in at an upstream server
	UpstreamLoggedOut Code = "PAL-U105" // a login at an upstream server was forgotten
	UpstreamEnded     Code = "PAL-U106" // instances of upstream servers ended with a credential or the rights of whose they were
	HookInstalled     Code = "PAL-H110" // what was written into an agent's settings is watched
	HookChanged       Code = "PAL-H111" // an entry that was installed is not any more what was installed, or is so again
	HookUninstalled   Code = "PAL-H112" // what was installed is watched no longer

	SkillInstalled      Code = "PAL-K100" // a version of a skill was installed, or its package was put back
	SkillRemoved        Code = "PAL-K101" // a version of a skill was removed
	SkillChanged        Code = "PAL-K102" // a version of a skill got another status, or became the current one
	SkillTampered       Code = "PAL-K103" // a package, the row of a skill or of a publisher is not what the journal has
	PublisherTrusted    Code = "PAL-K110" // a key of a publisher of skills was pinned
	PublisherDistrusted Code = "PAL-K111" // nothing of a publisher of skills runs any more

	Notified       Code = "PAL-N100" // a notification arrived, or will not
	ChatUserMapped Code = "PAL-N101" // a user of a chat was said to be a member
	ChatUserGone   Code = "PAL-N102" // a user of a chat is no member any more
	ChatConsent    Code = "PAL-N103" // a member agreed that a user of a chat votes in their name, or withdrew that

	Opened       Code = "PAL-J100" // the daemon opened the journal
	Closed       Code = "PAL-J101" // the daemon closed the journal in order
	Checkpoint   Code = "PAL-J102" // a signed checkpoint over the Merkle tree
	ClockStepped Code = "PAL-J103" // the clock went backwards
	KeyRotated   Code = "PAL-J104" // the key that signs checkpoints was replaced; both keys sign it
	Restored     Code = "PAL-J105" // the gateway goes on from a backup: what came after it is lost, grants ended, open approvals closed, and it is frozen
)

// Codes lists the catalog in order.
var Codes = []Code{
	Proposed, Refused, Evaluated, Decided, Edited, Looked,
	Asked, Joined, Voted, Answered, Expired, Cancelled, Consumed, Revoked, Amended,
	GrantMinted, GrantUsed, GrantRevoked, GrantEnded,
	Attested, Ambiguous, Gated, Violated, Undone,
	RanOther, Ungoverned, ReportedLate, Unjoined,
	RunStarted, UserMessage, ModelTurn, RunFinished,
	SessionExtended, SessionEnded,
	SecretPut, SecretRead, SecretLeased, SecretUsed, SecretRemoved, VaultRekeyed, RecoveryExported, SecretLeaseEnded, SecretEnded,
	CACreated, CertificateMade, MemberAdded, CallersRefused, PermissionDenied,
	DeviceRevoked, Exported, DeviceAdded,
	MemberChanged, MemberDisabled, MemberEnabled, MemberRemoved, DeviceRenamed, MembersConfirmed, ConsentGiven, ConsentWithdrawn,
	TokenMade, TokenRevoked,
	PairingOpened, PairingTried, PairingProved, PairingEnded, DevicePaired,
	LoggedIn, LoggedOut,
	DeviceKeyReplaced, OldKeyUsed, GatewayKeyReplaced, VaultKeyPinned,
	PresenceKeyRegistered, PresenceKeyReset, PresenceKeyConfirmed, PasskeyEnrolled, PasskeyConfirmed, PasskeyRemoved, PasskeyCounterBack, EvaluatedFor, AskedFor,
	ConsoleLink, ConsoleBegun, ConsoleEnded,
	PolicyLoaded, PolicyRejected, Frozen, Thawed, ToolPinned, ToolSuspended, ToolResumed, PolicyReset,
	GatewayChange, DualControlOff, PolicyProposed, CeilingSet,
	UpstreamAdded, UpstreamRemoved, UpstreamSeen, UpstreamApproved, UpstreamLoggedIn, UpstreamLoggedOut, UpstreamEnded,
	HookInstalled, HookChanged, HookUninstalled,
	SkillInstalled, SkillRemoved, SkillChanged, SkillTampered, PublisherTrusted, PublisherDistrusted,
	Notified, ChatUserMapped, ChatUserGone, ChatConsent,
	Opened, Closed, Checkpoint, ClockStepped, KeyRotated, Restored,
}

// Draft is an event before the writer gives it a sequence number, a time and
// a place in the chain.
type Draft struct {
	Code    Code
	Session string
	Run     string
	// Actor is the principal that caused the event, "user:alice", or
	// "service:palyrad" for the daemon itself.
	Actor string
	// Subject is the id the event is about, for look-ups: a proposal,
	// approval, grant or device id.
	Subject string
	// Payload is one JSON object in canonical form (RFC 8785).
	Payload json.RawMessage
	// Unasked comes with the decision of a call that runs without people having been
	// asked about it. It is no part of the event: stores count such calls by it.
	Unasked *Unasked
}

// Unasked is a call that policy or a grant let run, by what a grant for it would match.
type Unasked struct {
	RequestedBy, OnBehalfOf, Tool string
	// Subject is "" for a call that has none.
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
