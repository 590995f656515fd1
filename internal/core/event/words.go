package event

// words say in a word or two what each code of the catalog is.
var words = map[Code]string{
	Proposed: "proposed", Refused: "refused", Evaluated: "evaluated", Decided: "decided", Edited: "edited", Looked: "looked", Amended: "amended",
	Asked: "asked", Joined: "joined", Voted: "voted", Answered: "answered",
	Expired: "expired", Cancelled: "cancelled", Consumed: "consumed", Revoked: "revoked",
	GrantMinted: "grant minted", GrantUsed: "grant used", GrantRevoked: "grant revoked", GrantEnded: "grant ended",
	Attested: "attested", Ambiguous: "ambiguous",
	Gated: "gated", Violated: "violated", Undone: "undone",
	RunStarted: "run started", UserMessage: "user message", ModelTurn: "model turn", RunFinished: "run finished",
	SessionExtended: "session extended", SessionEnded: "session ended",
	SecretPut: "secret put", SecretRead: "secret read", SecretLeased: "secret leased", SecretUsed: "secret used",
	SecretRemoved: "secret removed", VaultRekeyed: "vault rekeyed", RecoveryExported: "recovery exported", SecretLeaseEnded: "lease ended", SecretEnded: "secret ended",
	CACreated: "CA created", CertificateMade: "certificate", MemberAdded: "member added",
	CallersRefused: "callers refused", PermissionDenied: "permission denied",
	MemberChanged: "member changed", MemberDisabled: "member disabled", MemberEnabled: "member enabled", MemberRemoved: "member removed", MembersConfirmed: "confirmed", ConsentGiven: "consented", ConsentWithdrawn: "consent withdrawn",
	DeviceRevoked: "device revoked", DeviceRenamed: "device renamed", DeviceAdded: "device added", Exported: "exported",
	TokenMade: "token made", TokenRevoked: "token revoked",
	PairingOpened: "pairing code", PairingTried: "pairing tried", PairingProved: "pairing asked", PairingEnded: "pairing ended", DevicePaired: "device paired",
	DeviceKeyReplaced: "key replaced", OldKeyUsed: "OLD KEY USED", GatewayKeyReplaced: "gateway key", VaultKeyPinned: "vault key",
	PresenceKeyRegistered: "presence key", PresenceKeyReset: "PRESENCE KEY RESET", PresenceKeyConfirmed: "presence key confirmed",
	PasskeyEnrolled: "passkey enrolled", PasskeyConfirmed: "passkey confirmed", PasskeyRemoved: "PASSKEY REMOVED", PasskeyCounterBack: "PASSKEY COPIED",
	ConsoleLink: "console link", ConsoleBegun: "console session", ConsoleEnded: "console ended",
	LoggedIn: "logged in", LoggedOut: "logged out",
	PolicyLoaded: "policy loaded", PolicyRejected: "policy rejected", PolicyReset: "policy reset", PolicyProposed: "policy proposed",
	GatewayChange: "gateway change", DualControlOff: "dual control off", CeilingSet: "ceiling set", Frozen: "frozen", Thawed: "thawed",
	ToolPinned: "tool pinned", ToolSuspended: "tool suspended", ToolResumed: "tool resumed",
	RanOther: "RAN SOMETHING ELSE", Ungoverned: "UNGOVERNED CALL", ReportedLate: "reported late", Unjoined: "CALL NOT JOINED",
	EvaluatedFor: "evaluated for", AskedFor: "asked for",
	UpstreamAdded: "upstream added", UpstreamRemoved: "upstream removed", UpstreamSeen: "upstream says", UpstreamApproved: "upstream approved",
	UpstreamLoggedIn: "upstream login", UpstreamLoggedOut: "upstream logout", UpstreamEnded: "upstreams ended",
	SkillInstalled: "skill installed", SkillRemoved: "skill removed", SkillChanged: "skill changed", SkillTampered: "SKILL TAMPERED",
	PublisherTrusted: "publisher trusted", PublisherDistrusted: "PUBLISHER DISTRUSTED",
	Notified: "notified", ChatUserMapped: "chat user mapped", ChatUserGone: "chat user unmapped", ChatConsent: "chat user consent",
	HookInstalled: "hook installed", HookChanged: "HOOK CHANGED", HookUninstalled: "hook uninstalled",
	Opened: "opened", Closed: "closed", Checkpoint: "checkpoint", ClockStepped: "clock stepped", KeyRotated: "key replaced", Restored: "restored",
}

// Words say in a word or two what an event of the code is; "" for an unknown code.
func (c Code) Words() string { return words[c] }
