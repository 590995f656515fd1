package event

// Section is a part of the catalog.
type Section struct {
	Title string
	// Intro is Markdown for docs/reference/events.md, "" for none.
	Intro string
	Rows  []Row
}

// Row describes one code.
type Row struct {
	Code Code
	// Word is the short name in lists of events.
	Word string
	// About is what happened. Subject is the meaning of the event's subject, "" for none. Payload
	// lists the fields of the payload. All three are Markdown for docs/reference/events.md.
	About, Subject, Payload string
}

// Catalog describes all codes, by subject.
var Catalog = []Section{
	{"Decisions", "", []Row{
		{Proposed, "proposed", "A call was proposed, and its input was validated", "proposal id", "`proposal_id`, `call_id` (the model's, in a run), `principal`, `on_behalf_of`, `device_id`, `surface`, `channel`, `tool`, `tool_definition_digest`, `arguments`, or `arguments_blob` for arguments that may contain file content (docs/format/results.md), `arguments_digest`, `arguments_salt` (if something was redacted), `redactions`, `idempotency_key` (its digest if it has the form of a key), `open_world` (its results taint its session), `gateway_session` (docs/sessions.md), `journal` (`size` and `head_sha256` of the newest durable event at that time, as in the attestation)"},
		{Refused, "refused", "A proposal was refused before policy; nothing ran", "proposal id", "`proposal_id`, `call_id`, `principal`, `tool`, `reason`, `message`, `remedy`, `gateway_session`"},
		{Evaluated, "evaluated", "Cedar evaluated a call, or the changes of its program (`request.commit`)", "proposal id", "`proposal_id`, `call_digest`, `verdict`, `request`, `may_send` (the maximum of bytes that the call can send)"},
		{Decided, "decided", "The final decision on a call; durable before dispatch, or with the outcome if the tool cannot have an effect", "proposal id", "`decision_id`, `proposal_id`, `allowed`, `reason`, `message`, `remedy`, `approval_id`, `grant_id`, `joins` (the earlier call of an agent's hook for this call, whose approval applies), `call_digest`, `snapshot_digest`, `policy_version`, `determining`, `at`"},
		{Edited, "edited", "A person changed the arguments of a pending call, and policy evaluated it again", "proposal id", "`proposal_id`, `approval_id`, `by`, `was_digest`, `call_digest`, `arguments` or `arguments_blob`, `arguments_digest`, `arguments_salt`, `redactions`; the `PAL-D102` that follows is of the changed call"},
		{Looked, "looked", "Calls of a tool were evaluated (`EvaluateTool`, `palyra call --dry-run`) or explained but not made, within a minute; planning them read files", "", "`by`, `as` (the caller of the evaluated calls, if different), `tool`, `count`, `files` (the first 20: `workspace:path`, or the path of a program), `files_omitted`, `first`, `last`"},
	}},
	{"Approvals", "", []Row{
		{Asked, "asked", "An approval was created, and people are asked", "approval id", "`approval_id`, `proposal_id`, `call_digest`, `snapshot_digest`, `subject_type`, `subject_id`, `tool`, `requested_by`, `on_behalf_of`, `severity`, `summary`, `requester_reason` if there is one, `prompt_digest`, `expires_at`"},
		{Joined, "joined", "Another identical call waits for the same approval", "approval id", "`approval_id`, `proposal_id`"},
		{Voted, "voted", "A person voted", "approval id", "`approval_id`, `call_digest`, `version`, `vote` (with `passkey`: the statement that the voter's passkey signed), `missing`"},
		{Answered, "answered", "The approval was allowed or denied", "approval id", "`approval_id`, `call_digest`, `state`, `was`, `version`, `by`, `note`, `grant_id`"},
		{Expired, "expired", "The approval expired before it was answered, or before its answer was used", "approval id", "as `PAL-A103`"},
		{Cancelled, "cancelled", "The caller withdrew", "approval id", "as `PAL-A103`"},
		{Consumed, "consumed", "A call used the approval", "approval id", "as `PAL-A103`"},
		{Revoked, "revoked", "An allowed approval was revoked", "approval id", "as `PAL-A103`"},
		{Amended, "amended", "A person changed the call of a pending approval; its earlier votes no longer count", "approval id", "`approval_id`, `proposal_id`, `version`, `was_digest`, `call_digest`, `snapshot_digest`, `edit`, `severity`, `summary`, `missing`"},
	}},
	{"Grants", "", []Row{
		{GrantMinted, "grant minted", "A vote with scope session or timeboxed created a grant", "grant id", "`grant_id`, `approval_id`, `scope`, `match`, `tool`, `tool_definition_digest`, `subject`, `call_digest`, `principal`, `on_behalf_of`, `session`, `run`, `minted_by`, `covers` (a description), `created_at`, `expires_at`, `most_uses` (if the number of uses is limited)"},
		{GrantUsed, "grant used", "A grant allowed a call", "grant id", "`grant_id`, `approval_id`, `call_digest`, `uses`, `most_uses`"},
		{GrantRevoked, "grant revoked", "A grant was revoked", "grant id", "`grant_id`, `approval_id`, `by`, `note`, `uses`"},
		{GrantEnded, "grant ended", "A grant expired", "grant id", "as `PAL-G102`"},
	}},
	{"Execution", "", []Row{
		{Attested, "attested", "A call ran, or was refused at dispatch, and its attestation is stored", "proposal id", "`attestation_id`, `proposal_id`, `decision_id`, `tool`, `result_blob`, `result_not_kept` (true if the result was too large to store), `report`, `envelope` (the signed DSSE envelope)"},
		{Ambiguous, "ambiguous", "An allowed call has no attestation: palyrad stopped while the call ran, or the attestation could not be created", "proposal id", "`proposal_id`, `reason`, `message`"},
		{Gated, "gated", "The commit of a change set was allowed or refused; durable before anything is applied", "proposal id", "`proposal_id`, `decision_id`, `call_digest` (to which an approval of the commit is bound), `facts` (`workspace`, `root`, `added`, `modified`, `deleted`, `bytes`, `protected`, `classes`, `exit_code`), `files` or `files_blob`, `allowed`, `reason`, `message`, `remedy`, `verdict`, `approval_id`, `grant_id`"},
		{Violated, "violated", "A sandboxed program made system calls that were denied", "proposal id", "`proposal_id`, `violations` (`at`, `syscall`, `arguments`, `executable`, `errno`), `missed`"},
		{Undone, "undone", "A committed change set was undone", "proposal id", "`proposal_id`, `change_set_id`, `undone_by` (the change set that undid it), `workspace`, `root`, `files`, `files_omitted`, `by`, `note`, `call_id` (of the call that undid it; none while the gateway was frozen)"},
	}},
	{"Calls that agents run themselves", "These events rest on the statements of an agent's hook (docs/hooks.md).", []Row{
		{RanOther, "RAN SOMETHING ELSE", "An agent reported that it ran a call other than the decided one", "proposal id", "`proposal_id`, `call_id` (the agent's), `principal`, `on_behalf_of`, `agent`, `tool`, `reason`, `message`, `input_sha256` (of the reported input), `decided_sha256`, `gateway_session`"},
		{Ungoverned, "UNGOVERNED CALL", "An agent reported that it ran a call that was not allowed, or not requested", "proposal id; it counts as a call of its own", "as `PAL-H100`"},
		{ReportedLate, "reported late", "An agent reported the outcome of a call that had been closed without a report", "proposal id", "as `PAL-H100`"},
		{Unjoined, "CALL NOT JOINED", "An agent reported a call to a server with the name of the gateway's own MCP server, and no such call arrived: another server has its name", "proposal id", "as `PAL-H100`"},
	}},
	{"Runs", "", []Row{
		{RunStarted, "run started", "A run was started", "run id", "`run_id`, `principal`, `on_behalf_of`, `device_id`, `model`, `workspace`, `message` or `message_blob`, `interactive`, `budget` (`calls`, `tokens`, `wall_clock_ms`)"},
		{UserMessage, "user message", "The user sent a message to the run", "run id", "`text` or `text_blob`"},
		{ModelTurn, "model turn", "The model completed an answer", "run id", "`turn`, `text_blob`, `calls` (`call_id`, `tool`, `input_blob`; older gateways wrote small ones as `text` and `input`), `stop`, `input_tokens`, `output_tokens`, `model`"},
		{RunFinished, "run finished", "The run ended: completed, failed, cancelled, or interrupted by a stop of palyrad", "run id", "`state`, `reason`, `message`, `remedy`, `by`, `usage` (`calls`, `turns`, `input_tokens`, `output_tokens`)"},
	}},
	{"Sessions", "These are the sessions that the gateway defines (docs/sessions.md).", []Row{
		{SessionExtended, "session extended", "People allowed a session more calls", "session id", "`session`, `principal`, `calls` (the additional calls), `limit` (the total), `proposal_id`, `approval_id`"},
		{SessionEnded, "session ended", "A person ended a session; the next call of its caller begins another", "session id", "`session`, `principal`, `device_id`, `client`, `ended_by`, `reason`"},
	}},
	{"Secrets", "No event contains a value, its digest or its length. A reference is `vault://<scope>/<key>`.", []Row{
		{SecretPut, "secret put", "A value or other metadata of a secret was set", "reference", "`scope`, `key`, `version`, `new_value` (false if only the metadata changed), `hosts`, `header`, `env`, `file`, `expires_at`, `holder` (the owner of the agent, or the id of the publisher's key of the skill), `seal` (authenticates the metadata, under a key of the secret)"},
		{SecretRead, "secret read", "The value of a secret was displayed to a person", "reference", "`scope`, `key`, `version`"},
		{SecretLeased, "secret leased", "A call, or palyrad for the key of a model, leased a secret", "reference", "`lease`, `scope`, `key`, `version`, `call_id`, `run_id`, `until`"},
		{SecretUsed, "secret used", "A leased secret was used, the first time for this purpose", "reference", "`lease`, `scope`, `key`, `version`, `for` (such as a host, `variable AWS_KEY of /usr/bin/aws`, or `model NAME at HOST`), `call_id`, `run_id`"},
		{SecretRemoved, "secret removed", "A secret was removed, with all its versions", "reference", "`scope`, `key`"},
		{VaultRekeyed, "vault rekeyed", "The replacement of the key that wraps the vault's keys began or ended", "key id", "`phase` (`begun`, `ended`), `key_id` (the new one, if `ended`), `old_key_ids`, `rewrapped`, `unreadable` (how many could not be read; the old keys are kept then)"},
		{RecoveryExported, "recovery exported", "The keys of the vault were exported, encrypted to a recovery key", "key id", "`key_ids`, `recipient`"},
		{SecretLeaseEnded, "lease ended", "The lease of a secret ended", "reference", "`lease`, `scope`, `key`, `uses`, `why` (`returned`, `time`, `removed`, `holder` if the holder lost rights, `stopped`), `call_id`, `run_id`"},
		{SecretEnded, "secret ended", "A secret of an agent ended, because the agent got another owner or was removed; recorded with that change", "reference", "`scope`, `key`, `version`"},
	}},
	{"Identity and access", "`by_device` in addition to the fields below is the device or token of the request that caused the event: in `PAL-I102`, `PAL-I106`, `PAL-I108` to `PAL-I114`, `PAL-I120`, `PAL-I121`, `PAL-I160` to `PAL-I165`, `PAL-H110`, `PAL-H112`, `PAL-K100` to `PAL-K102`, `PAL-K110`, `PAL-K111`, `PAL-N101` to `PAL-N103`, `PAL-P102`, `PAL-P103`, `PAL-P111`, and `PAL-P100` if policies changed. A command on the gateway's host has none if no palyrad runs.", []Row{
		{CACreated, "CA created", "The certificate authority was created", "", "`trust_domain`, `root_sha256`, `not_after`"},
		{CertificateMade, "certificate", "A certificate was issued", "device id", "`device_id`, `principal`, `serial`, `key_sha256`, `not_before`, `not_after`, `renewal`"},
		{MemberAdded, "member added", "A user or agent was added", "principal", "`principal`, `owner`, `roles`, `awaits_consent`"},
		{CallersRefused, "callers refused", "Requests without a credential were refused within a minute. There are at most 20 of these events a minute: one for each of the 19 sources with the most refusals, and one for all others", "", "for one source: `source` (an IPv4 address, an IPv6 /64 network, or `loopback`), the most frequent `procedure` and `reason`, `kinds` (the number of different pairs of them, at most 8), `count`, `first`, `last`; for the others: `sources` (their number; with more than 1,024 sources a minute, a source may count more than once), `count`, `first`, `last`"},
		{PermissionDenied, "permission denied", "Requests of a caller with a credential were refused within a minute", "", "`source` (the principal), `procedure`, `reason`, `count`, `first`, `last`"},
		{DeviceRevoked, "device revoked", "A device's certificate was revoked", "device id", "`device_id`, `principal`, `reason`"},
		{Exported, "exported", "Journal or approvals were exported", "", "`procedure`, `device_id`"},
		{DeviceAdded, "device added", "The gateway's host added a device to a member", "device id", "`device_id`, `principal`, `revoked`"},
		{MemberChanged, "member changed", "The roles of a member, or the owner of an agent, changed", "principal", "`principal`, `roles`, `was_roles`, `owner`, `was_owner`, `awaits_consent`"},
		{MemberDisabled, "member disabled", "A member was disabled", "principal", "`principal`, `reason`"},
		{MemberEnabled, "member enabled", "A disabled member was enabled", "principal", "`principal`, `reason`"},
		{MemberRemoved, "member removed", "A member was removed permanently, with its devices", "principal", "`principal`, `reason`, `revoked`"},
		{DeviceRenamed, "device renamed", "A device was renamed", "device id", "`device_id`, `principal`, `name`, `was_name`"},
		{MembersConfirmed, "confirmed", "The identity of members was confirmed, by another member or on the gateway's host", "principal, if it is one", "`members`, `host`"},
		{ConsentGiven, "consented", "An agent's owner consented to its acting in their name", "principal of the agent", "`principal`, `owner`"},
		{ConsentWithdrawn, "consent withdrawn", "An agent's owner withdrew that consent", "principal of the agent", "`principal`, `owner`"},
		{TokenMade, "token made", "An API token was created", "token id", "`token_id`, `name`, `principal`, `scopes`, `addresses`, `expires_at`"},
		{TokenRevoked, "token revoked", "An API token was revoked", "token id", "`token_id`, `name`, `principal`"},
		{PairingOpened, "pairing code", "A pairing code was created; its secret is not stored", "pairing id", "`kind`, `device_id`, `member`, `new`, `roles`, `owner`, `expires_at`"},
		{PairingTried, "pairing tried", "Pairing codes were guessed; guesses of one address, code and outcome within a minute are one event", "pairing id, if the code exists", "`address`, `outcome` (`guess`, `locked out`), `count`, `first`, `last`"},
		{PairingProved, "pairing asked", "A machine proved the secret of a pairing code, and people are asked", "pairing id", "`device_id`, `key_sha256`, `address`, `name`, `guesses`"},
		{PairingEnded, "pairing ended", "A pairing code ended without a device. A restart ends all codes without this event", "pairing id", "`why` (`expired`, `guesses`, `cancelled`, `refused`: people denied it, or the device could not be created, `member`: its creator, or the member of the device, lost rights), `device_id`, `guesses`"},
		{DevicePaired, "device paired", "A member got a device by pairing", "device id", "`device_id`, `principal`, `code`, `approval_id`, `made_by`, `approved_by`"},
		{LoggedIn, "logged in", "A person logged in at the identity provider", "device id", "`device_id`, `principal`, `issuer`, `subject`, `until`, `loss` (powers to answer approvals that ended with the login), `forgotten` (removed devices of sessions older than 30 days)"},
		{LoggedOut, "logged out", "The session of a login ended early: the person logged out, began too many, or is in none of the mapped groups", "device id", "`device_id`, `principal`, `reason`"},
		{DeviceKeyReplaced, "key replaced", "A device used a new key for the first time; its earlier keys end", "device id", "`device_id`, `principal`, `key_sha256`, `replaced` (the earlier keys), `until`, `lost` (true for a key that was certified after the backup from which the gateway was restored)"},
		{OldKeyUsed, "OLD KEY USED", "A key of a replaced device was used; once per device and hour", "device id", "`device_id`, `principal`, `key_sha256`, `address`"},
		{GatewayKeyReplaced, "gateway key", "The replacement of a key of the gateway began (without `sha256`) or ended", "name of the key", "`key`, `was_sha256`, `sha256`"},
		{VaultKeyPinned, "vault key", "The current key of the vault was created, rotated or moved (docs/vault.md)", "`vault key`", "`backend`, `id`"},
		{PresenceKeyRegistered, "presence key", "A device got a presence key (docs/identity.md)", "device id", "`device_id`, `principal`, `key_sha256`, `was_sha256` (the key that signed for it, empty for none), `waits` (it proves nothing until it is confirmed)"},
		{PresenceKeyReset, "PRESENCE KEY RESET", "The gateway's host removed the presence key of a device", "device id", "`device_id`, `principal`, `key_sha256`"},
		{PresenceKeyConfirmed, "presence key confirmed", "A pending presence key was confirmed", "device id", "`device_id`, `principal`, `key_sha256`"},
		{PasskeyEnrolled, "passkey enrolled", "A member enrolled a passkey (docs/identity.md)", "passkey id", "`credential`, `member`, `name`, `public_key` (SubjectPublicKeyInfo, base64), `rp_id`, `origin`, `gateway` (digest of the root certificate), `aaguid`, `attestation`, `backed_up`, `sign_count`, `waits` (it proves nothing until it is confirmed)"},
		{PasskeyConfirmed, "passkey confirmed", "A pending passkey was confirmed", "passkey id", "`credential`, `member`, `by`, `host` (true if confirmed on the gateway's host), `proof` (the statement that a passkey of `by` signed)"},
		{PasskeyRemoved, "PASSKEY REMOVED", "A passkey was removed", "passkey id", "as `PAL-I164`"},
		{PasskeyCounterBack, "PASSKEY COPIED", "A passkey presented a counter that did not increase, and was refused: a copy of it may exist", "passkey id", "`credential`, `member`, `sign_count`, `was`"},
		{EvaluatedFor, "evaluated for", "A caller asked whether a member may make a call that runs elsewhere, and was answered (docs/authzen.md)", "the member", "`caller`, `member`, `tool`, `call_digest`, `allowed`, `reason`, `approval_id`, `grant_id`"},
		{AskedFor, "asked for", "A caller requested an approval for a member's call that runs elsewhere", "approval id", "`caller`, `member`, `tool`, `approval_id`, `binding_sha256`"},
		{ConsoleLink, "console link", "A one-time login link of the console was created (docs/console.md)", "login id", "`login_id`, `principal`, `device_id`, `paired`, `until`"},
		{ConsoleBegun, "console session", "A session of the console began", "session id", "`session_id`, `principal`, `device_id`, `paired`, `provider`, `address`, `user_agent`, `until`"},
		{ConsoleEnded, "console ended", "A session of the console ended before palyrad stopped", "session id", "`session_id`, `principal`, `device_id`, `by`, `reason`"},
	}},
	{"Policy and upstream servers", "", []Row{
		{PolicyLoaded, "policy loaded", "A policy set became active, or its activation ended", "", "`policy_version`, `snapshot_digest`, `was_version`, `policies`, `warnings`, `activated` (if an operator selected it in place of the directory)"},
		{PolicyRejected, "policy rejected", "A policy set did not load, or its tests failed; the active one stays", "", "`message`, `findings`"},
		{Frozen, "frozen", "An operator stopped all dispatch", "", "`by`, `reason`, `since`"},
		{Thawed, "thawed", "An operator resumed dispatch", "", "as `PAL-P102`"},
		{ToolPinned, "tool pinned", "A tool definition was seen first, or a changed one was accepted; the schema is built from it", "tool", "`tool`, `definition_digest`, `was_definition_digest` (if it changed), `definition`"},
		{ToolSuspended, "tool suspended", "A changed tool definition does not fit the policies; the tool is suspended, and its old definition stays in the schema", "tool", "`tool`, `definition_digest`, `pinned_definition_digest`, `message`"},
		{ToolResumed, "tool resumed", "A suspended tool may be called again", "tool", "`tool`, `definition_digest`"},
		{PolicyReset, "policy reset", "The policy directory applies from the next start, in place of an activated version and the last active set; on the host, while no palyrad ran", "", "`policy_version`"},
		{GatewayChange, "gateway change", "A change of the gateway was authorized, by the approval of a second person or by one person alone. The change itself is the next event of its kind; without one, it failed", "the changed object", "`change`, `digest`, `requested_by`, `device_id`, `summary`, `approval_id` and `approvers`, or `alone` and `why`"},
		{DualControlOff, "dual control off", "At the start: the configuration requires no second person for changes of the gateway", "", "`setting`"},
		{PolicyProposed, "policy proposed", "The policy directory differs from the active policies, and needs a second person", "", "`policy_version`, `was_version`, `policies`"},
		{CeilingSet, "ceiling set", "A principal or a channel was allowed or blocked, regardless of policies", "`user:`, `agent:` or `channel:` and a name", "`name`, `allowed`, `reason`"},
		{UpstreamAdded, "upstream added", "An upstream server was added or declared again", "server", "`server` (the declaration, without secrets), `server_digest`"},
		{UpstreamRemoved, "upstream removed", "An upstream server was removed", "server", "as `PAL-U100`"},
		{UpstreamSeen, "upstream says", "An upstream server changed its description of itself; the first one is thereby approved", "server", "`server`, `first`, `changes` (`kind`, `name`, `change`, `was_digest`, `is_digest`), `left_out`, `unchecked`"},
		{UpstreamApproved, "upstream approved", "The current description of an upstream server was approved", "server", "as `PAL-U102`"},
		{UpstreamLoggedIn, "upstream login", "A user logged the gateway in at an upstream server", "server", "`server`, `issuer`, `scope`, `secret` (the reference in the vault)"},
		{UpstreamLoggedOut, "upstream logout", "A login at an upstream server was deleted", "server", "as `PAL-U104`"},
		{UpstreamEnded, "upstreams ended", "Instances of upstream servers ended, because a credential of the principal ended or the principal lost rights", "principal", "`instances`, each with `server`, `instance`, `shared` (it ends after the calls of others)"},
	}},
	{"Hooks of agents", "", []Row{
		{HookInstalled, "hook installed", "Entries in the settings of an agent were installed and are monitored", "installation id", "`installation_id`, `agent`, `scope`, `transport`, `principal`, and for each entry `path`, `keys`, `digest`, `state` (`intact`, `changed`, `missing`, `unreadable`)"},
		{HookChanged, "HOOK CHANGED", "Installed entries were modified, or match the installation again", "installation id", "as `PAL-H110` without `principal`, these entries only, each with its earlier state `was`"},
		{HookUninstalled, "hook uninstalled", "An installation is no longer monitored, because it is about to be removed", "installation id", "`installation_id`, `agent`, `scope`, `transport`, `principal`"},
	}},
	{"Skills", "", []Row{
		{SkillInstalled, "skill installed", "A version of a skill was installed and became the current one; or its changed or lost package was restored (`mended`)", "`skill:` and the skill", "`skill`, `version`, `publisher`, `key_id`, `package_digest`, `status`, `reason`, `replaces` (the version that was current), `gains` (rights of its tools beyond the earlier version), `mended`, `versions` (all versions of the skill afterwards: `version`, `publisher`, `key_id`, `package_digest`, `status`, `current`)"},
		{SkillRemoved, "skill removed", "A version of a skill was removed", "`skill:` and the skill", "`skill`, `version`, `publisher`, `key_id`, `package_digest`, `was` (its status), `reason`, `versions` as in `PAL-K100`"},
		{SkillChanged, "skill changed", "The status of a version of a skill changed, or it became the current one", "`skill:` and the skill", "`skill`, `version`, `publisher`, `key_id`, `package_digest`, `status`, `was`, `reason`, `versions` as in `PAL-K100`"},
		{SkillTampered, "SKILL TAMPERED", "A package, or the row of a version or publisher, differs from the installation or the journal: it does not run", "`skill:` and the version, such as `skill:notes@1.2.0`, or `publisher:` and the publisher", "`skill`, `version`, `publisher`, `package_digest`, `what`"},
		{PublisherTrusted, "publisher trusted", "A key of a publisher of skills was pinned: by a person who named it, or by the first installation (`first_use`)", "`publisher:` and the publisher", "`publisher`, `key_id`, `public_key` (base64), `first_use`"},
		{PublisherDistrusted, "PUBLISHER DISTRUSTED", "Skills of a publisher can no longer run or be installed; each of its versions that was not quarantined has a `PAL-K102` as well", "`publisher:` and the publisher", "as `PAL-K110`"},
	}},
	{"Notifications", "", []Row{
		{Notified, "notified", "A notification was delivered, or will not be: it failed permanently, the approval was answered before, or the target was too far behind", "delivery id", "`delivery_id`, `target`, `kind`, `severity`, `event` (the sequence number of its event), `approval_id`, `state`, `attempts`, `problem`"},
		{ChatUserMapped, "chat user mapped", "A chat user was mapped to a member", "mapping id", "`mapping_id`, `team`, `user`, `member`, `principal`, `consented` (true if members mapped their own account), `by_device`"},
		{ChatUserGone, "chat user unmapped", "The mapping of a chat user was removed", "mapping id", "as `PAL-N101`"},
		{ChatConsent, "chat user consent", "A member consented to the votes of a chat user in their name, or withdrew that consent", "mapping id", "as `PAL-N101`"},
	}},
	{"The journal", "", []Row{
		{Opened, "opened", "palyrad opened the journal", "", "`version`, `keys` (the place of each key, `file` or `tpm`)"},
		{Closed, "closed", "palyrad closed the journal in order", "", "none"},
		{Checkpoint, "checkpoint", "A signed checkpoint over the Merkle tree", "", "`size` (events covered), `root` (hex), `note` (the signed note)"},
		{ClockStepped, "clock stepped", "The clock went backwards", "", "`clock`, `journal` (the time that continues), `back_us` (microseconds)"},
		{KeyRotated, "key replaced", "The key that signs checkpoints was replaced (docs/format/journal.md)", "", "`note` (the statement, signed by the old key and by the new one), `certificate_chain` (of the new key, PEM)"},
		{Restored, "restored", "The gateway was restored from a backup (docs/backup.md): it is frozen, grants are ended, open approvals closed, logins over; a checkpoint follows at once", "the restore", "`made_at`, `release` (of the backup), `restored_at`, `backup` (its head: `size`, `root`, `checkpoint`, `proven`), `newest` (the newest head of the lost journal that the operator knew, if any; `proven` is false if no key of the backup signed it), `ended` (`grants`, `approvals_cancelled`, `approvals_revoked`, `logins`), `valid` (`members`, `devices`, `tokens` that are valid in the backup)"},
	}},
}

// Codes lists the catalog in order.
var Codes = codes()

func codes() (list []Code) {
	for _, s := range Catalog {
		for _, r := range s.Rows {
			list = append(list, r.Code)
		}
	}
	return list
}

// Words returns the short name of an event code; "" for an unknown code.
func (c Code) Words() string {
	for _, s := range Catalog {
		for _, r := range s.Rows {
			if r.Code == c {
				return r.Word
			}
		}
	}
	return ""
}
