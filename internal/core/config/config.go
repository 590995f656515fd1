// Package config reads palyra.toml: its keys, their defaults, the PALYRA_* variables and flags
// that override them, and the checks of their values. It is strict: an unknown key is an error
// that contains its position in the file and the most similar key.
// docs/reference/configuration.md describes every key, and a test compares the two.
package config

import (
	"strings"
	"time"

	"palyra/internal/core/access"
)

// Config is the effective configuration. The struct tags are the names of the keys; a field with
// the tag `path:"true"` is a path, in which a leading "~" is the home directory. The comments of
// the fields are published as docs/reference/configuration.md: they name other keys by their dotted
// names, and state the default only if Default does not.
type Config struct {
	// StateDir is the directory of palyrad's keys, certificates, journal and blobs, created with
	// mode 0700. Without a home directory, root uses `/var/lib/palyra`. Default:
	// `$XDG_STATE_HOME/palyra` (`~/.local/state/palyra`).
	StateDir string `toml:"state_dir" path:"true"`
	// Source is the path of the file for Load, whether or not it exists; it is not a key.
	Source string `toml:"-"`
	// Notes are warnings about valid settings that should be written differently; palyrad logs them
	// at start.
	Notes []string `toml:"-"`
	// TrustDomain is the authority of the SPIFFE ids that the gateway's CA issues. It cannot change
	// after the CA is created. If it is empty, a new gateway uses a unique name derived from its
	// root's public key (`palyra-0f1e2d3c4b5a6978.internal`), and an existing gateway keeps its
	// name.
	TrustDomain string   `toml:"trust_domain"`
	Keys        KeyStore `toml:"keys"`
	Presence    Presence `toml:"presence"`
	Vault       Vault    `toml:"vault"`
	Listen      Listen   `toml:"listen"`
	Console     Console  `toml:"console"`
	Log         Log      `toml:"log"`
	Policy      Policy   `toml:"policy"`
	// Roles are additional roles, beyond `owner`, `admin`, `operator`, `auditor`, `developer` and
	// `agent`. They carry no permission by themselves; policies can name them ("two approvals from
	// security").
	Roles      []access.Role `toml:"roles"`
	Workspaces []Workspace   `toml:"workspaces"`

	// AllowedTools are the tools that exist: names, prefixes that end in `*` (`"fs.*"`,
	// `"github/*"`), or `"*"`. Any other tool is denied, regardless of policies.
	AllowedTools []string `toml:"allowed_tools"`
	// AllowedPrincipals are the users and agents that may act: `"user:NAME"`, `"agent:NAME"`, or
	// `"*"` for every member that is not disabled. Any other member is refused, regardless of
	// policies and commands. A member that is left out still counts among the people who can answer
	// approvals: disable it as well.
	AllowedPrincipals []string `toml:"allowed_principals"`
	// AllowedChannels are the messaging channels that calls may come from. If the list is empty,
	// only channels admitted by `palyra access allow channel:NAME` are allowed. If it is not,
	// commands can only remove channels from it.
	AllowedChannels []string `toml:"allowed_channels"`
	// DualControl requires the approval of a second owner or admin for changes of members,
	// policies, upstream servers and skills, and for the end of a freeze, if two independent ones
	// exist (docs/identity.md). `false` accepts the decision of one person. It takes effect at a
	// restart, is recorded at each start (`PAL-P109`), and is part of `palyra status`.
	DualControl bool `toml:"dual_control"`
	// AllowSensitiveTools waives human approval for every sensitive tool: calls that write, fetch
	// or start programs run without approval. palyrad logs a warning at each start.
	AllowSensitiveTools bool `toml:"allow_sensitive_tools"`
	// MaxCallsPerRun is the number of calls that a run of palyrad may propose, denied calls
	// included. Range: 1 to 1000000.
	MaxCallsPerRun int `toml:"max_calls_per_run"`
	// MaxCallsPerSession is the number of calls outside of such runs that a session may propose,
	// denied calls included (docs/sessions.md). When it is used up, people are asked to allow 200
	// more. Range: 1 to 1000000.
	MaxCallsPerSession int `toml:"max_calls_per_session"`
	// ExecutionTimeoutMS is the wall clock limit of one call in milliseconds. Range: 100 to
	// 86400000 (24 h).
	ExecutionTimeoutMS int64 `toml:"execution_timeout_ms"`

	// StopTimeout is how long running calls may continue after a request to stop palyrad; then they
	// end with `SHUTTING_DOWN`. New calls are refused meanwhile. The stop timeout of the service
	// manager must be about 20 s longer. Range: 0s to 1h.
	StopTimeout time.Duration `toml:"stop_timeout"`

	ProcessRunner ProcessRunner `toml:"process_runner"`
	HTTP          HTTP          `toml:"http"`
	WASM          WASMRuntime   `toml:"wasm_runtime"`
	Skills        Skills        `toml:"skills"`
	Approvals     Approvals     `toml:"approvals"`
	Runs          Runs          `toml:"runs"`
	Sessions      Sessions      `toml:"sessions"`
	Models        []Model       `toml:"models"`
	Secrets       []Secret      `toml:"secrets"`
	OAuthIssuers  []OAuthIssuer `toml:"oauth_issuers"`
	Evaluators    []Evaluator   `toml:"evaluators"`
	MCPClients    []MCPClient   `toml:"mcp_clients"`
	Notify        []Notify      `toml:"notify"`
	OIDC          OIDC          `toml:"oidc"`
	RateLimits    RateLimits    `toml:"rate_limits"`
	Quotas        Quotas        `toml:"quotas"`
	Storage       Storage       `toml:"storage"`
	Results       Results       `toml:"results"`
	Client        Client        `toml:"client"`
}

// ExecutionTimeout returns the wall clock limit of one call.
func (c *Config) ExecutionTimeout() time.Duration { return millis(c.ExecutionTimeoutMS) }

// ToolAllowed reports whether allowed_tools contains the tool's name, a prefix of it that ends
// in '*' ("fs.*", "github/*"), or "*".
func (c *Config) ToolAllowed(name string) bool {
	for _, pattern := range c.AllowedTools {
		if prefix, ok := strings.CutSuffix(pattern, "*"); ok && strings.HasPrefix(name, prefix) || pattern == name {
			return true
		}
	}
	return false
}

// The locations of the gateway's keys.
const (
	KeysInFiles = "file"
	KeysInTPM   = "tpm"
)

// KeyStore selects where the gateway's private keys are stored (docs/keys.md).
type KeyStore struct {
	// Store is `file` or `tpm`. With `tpm`, the root and the issuing key are created in a TPM 2.0
	// and never leave it, and the seeds of notary and journal are sealed by it. The value must
	// match the existing keys: `palyrad keys seal` moves them into the TPM, and there is no way
	// back.
	Store string `toml:"store"`
	// TPMDevice is the device of the kernel's TPM resource manager, or the Unix socket of a
	// software TPM. It is ignored on Windows.
	TPMDevice string `toml:"tpm_device" path:"true"`
}

// Presence selects the passkeys that prove the presence of a person (docs/identity.md).
type Presence struct {
	// AAGUIDs are the models of authenticators that may be enrolled, each by its AAGUID, a UUID in
	// lower case. `[]` accepts all. With a list, an authenticator must attest its model, which most
	// passkeys of phones and browsers cannot do.
	AAGUIDs []string `toml:"aaguids"`
	// AttestationRoots is a file of certificates (PEM) of manufacturers, to which attestations must
	// lead. `""` accepts the authenticator's own statement, which software can forge.
	AttestationRoots string `toml:"attestation_roots" path:"true"`
}

// Listen configures palyrad's listeners.
type Listen struct {
	// API is the address of the API, always with TLS. Any address but loopback needs
	// `listen.allow_remote` and `listen.server_names`.
	API string `toml:"api"`
	// AllowRemote permits an API address that other machines can reach.
	AllowRemote bool `toml:"allow_remote"`
	// ServerNames are additional DNS names and IP addresses in the server certificate. `localhost`
	// and the loopback addresses are always included.
	ServerNames []string `toml:"server_names"`
	// Metrics is the loopback address of metrics and readiness over plain HTTP, with neither TLS
	// nor login and at most 64 connections. `""` disables it.
	Metrics string `toml:"metrics"`
	// Agents is the loopback address at which agents on this machine reach MCP and hooks over plain
	// HTTP, with a token. `""` disables it. `listen.api` offers both with TLS.
	Agents string `toml:"agents"`
	// Hooks is a Unix socket for the hooks of agents of `listen.agent_uids`, which authenticate
	// with a token. Its directory must not be writable or replaceable by other users, by the same
	// rules as policies; `/run/palyra` is an example. `""` is none; `hooks.sock` in the state
	// directory serves palyrad's own user (docs/hooks.md).
	Hooks string `toml:"hooks" path:"true"`
	// AgentUIDs are numeric ids of users, in addition to the owner of the state directory, whose
	// processes may connect to `listen.agents` and `listen.hooks`. All others are refused, whatever
	// token they present (docs/hooks.md). Linux only: other systems do not report the user of a
	// connection.
	AgentUIDs []int64 `toml:"agent_uids"`
	// Console is the address of the web console (docs/console.md): plain HTTP on loopback. Any
	// other address needs TLS (`console.certificate_file` or `console.own_ca`) and
	// `listen.allow_remote`. `""` disables it.
	Console string `toml:"console"`
	// SocketOperator accepts the user who owns the state directory as the local operator, over the
	// Unix socket `palyrad.sock` there and without a certificate (docs/identity.md). Votes over it
	// are never `paired` or `present`.
	SocketOperator bool `toml:"socket_operator"`
	// MaxConnections limits open connections to the API. At the limit, a new connection replaces
	// the oldest unauthenticated one, or is closed if all are authenticated; both are logged. Idle
	// connections are closed after 2 minutes, incomplete TLS handshakes after 5 seconds. Range: 16
	// to 1000000.
	MaxConnections int `toml:"max_connections"`
	// MaxConnectionsPerAddress limits open connections of one address, or one IPv6 /64 network,
	// other than loopback. Loopback has no limit of its own, because all users of this machine
	// share it. Range: 4 to 1000000.
	MaxConnectionsPerAddress int `toml:"max_connections_per_address"`
}

// Console configures the web console (docs/console.md).
type Console struct {
	// Origin is the only origin at which browsers reach the console. `""` is
	// `http://palyra-<random>.localhost:PORT`, a name that is stored in the state directory. Use
	// `http://localhost:PORT` for browsers that do not resolve names below `.localhost`. Passkeys
	// are bound to the name of the origin and are lost when it changes.
	Origin string `toml:"origin"`
	// Idle is the lifetime of an unused session. Range: 1m to 24h.
	Idle time.Duration `toml:"idle"`
	// Session is the lifetime of any session. Range: 1m to 168h.
	Session time.Duration `toml:"session"`
	// CertificateFile is the console's certificate chain in PEM, which enables TLS. It is read
	// again when it changes. `console.origin` must be `https://NAME:PORT`.
	CertificateFile string `toml:"certificate_file" path:"true"`
	// KeyFile is the private key of the certificate, in PEM. It must be outside of every workspace.
	KeyFile string `toml:"key_file" path:"true"`
	// OwnCA creates a CA for the console in `console-ca` of the state directory. A critical name
	// constraint limits it to the name of `console.origin`. Browsers must trust `console-ca/ca.pem`
	// once.
	OwnCA bool `toml:"own_ca"`
}

// TLS reports whether the console is served over TLS.
func (c Console) TLS() bool { return c.OwnCA || c.CertificateFile != "" }

// Log configures palyrad's log on standard error.
type Log struct {
	// Level is `debug`, `info`, `warn` or `error`.
	Level string `toml:"level"`
	// Format is `text` or `json`, one line for each entry, on standard error.
	Format string `toml:"format"`
}

// Policy configures the Cedar policies (docs/policy.md).
type Policy struct {
	// Dir is a directory with `*.cedar` files that extend the built-in policies. `""` is none. The
	// default directory need not exist; palyrad loads it when it appears. Default: `policies`, next
	// to the configuration file.
	Dir string `toml:"dir" path:"true"`
}

// HTTP limits `http.fetch`. Private, loopback, link-local and metadata addresses are refused,
// unless a rule names the address or a prefix inside of its block.
type HTTP struct {
	// AllowedHosts are the hosts that may be fetched from: `host`, `host:port`, `*.domain`, an
	// address or a prefix. Empty allows any public host, because each fetch needs an approval.
	AllowedHosts []string `toml:"allowed_hosts" json:"allowed_hosts"`
	// DeniedHosts are hosts that are denied even if `http.allowed_hosts` allows them.
	DeniedHosts []string `toml:"denied_hosts" json:"denied_hosts"`
	// MaxBytes is the largest response body, 4 MiB by default. Range: 1 KiB to 11 MiB.
	MaxBytes int64 `toml:"max_bytes" json:"max_bytes"`
	// TimeoutMS is the time of a whole fetch in milliseconds, redirects included. Range: 100 to
	// 3600000.
	TimeoutMS int64 `toml:"timeout_ms" json:"timeout_ms"`
}

// Timeout returns TimeoutMS as a duration.
func (h HTTP) Timeout() time.Duration { return millis(h.TimeoutMS) }

// MCPClient states how long an MCP client waits for a call, if it differs from palyrad's built-in
// table (docs/mcp.md). Clients that send the header `Palyra-Call-Limit` do not need it. It can be
// set in the file only.
type MCPClient struct {
	// Name is the client's own name (`clientInfo.name`), such as `codex-mcp-client`. Required.
	Name string `toml:"name"`
	// CallLimit is how long the client waits for a call: 10s to 48h, or `0s` for no limit. If
	// people have not answered 5 seconds before it ends, the call returns that its approval is
	// pending, and an identical call resumes it. Default: `"0s"`.
	CallLimit time.Duration `toml:"call_limit"`
}

// Approvals limits how often people are asked (docs/approvals.md).
type Approvals struct {
	// DefaultTimeout is how long a call waits for an approval, unless a policy sets less. Then it
	// fails; waiting never approves it. Range: 30s to 24h.
	DefaultTimeout time.Duration `toml:"default_timeout"`
	// MaxPendingPerRun limits pending approvals of one run.
	MaxPendingPerRun int `toml:"max_pending_per_run"`
	// MaxPendingPerPrincipal limits pending approvals of one principal.
	MaxPendingPerPrincipal int `toml:"max_pending_per_principal"`
	// MaxCreatedPerMinutePerRun limits new approvals of one run in a minute.
	MaxCreatedPerMinutePerRun int `toml:"max_created_per_minute_per_run"`
	// MaxCreatedPerMinutePerPrincipal limits new approvals of one principal in a minute, in all its
	// runs and sessions.
	MaxCreatedPerMinutePerPrincipal int `toml:"max_created_per_minute_per_principal"`
	// Cooldown is how long an identical request is refused without a new approval after a denial or
	// expiry. Range: 0s to 1h.
	Cooldown time.Duration `toml:"cooldown"`
}

// Runs limits the runs that palyrad drives; a run may ask for less (docs/runs.md). Calls count
// against `max_calls_per_run` as well.
type Runs struct {
	// MaxTokens limits the input and output tokens of all turns of a run. Range: 1000 to
	// 1000000000.
	MaxTokens int64 `toml:"max_tokens"`
	// MaxDuration limits the time from start to end of a run, waiting for people included. Range:
	// 10s to 168h.
	MaxDuration time.Duration `toml:"max_duration"`
	// MaxActivePerPrincipal limits the runs of one principal that have not ended. Range: 1 to
	// 10000.
	MaxActivePerPrincipal int `toml:"max_active_per_principal"`
	// ParallelCalls is the number of calls of one turn that run in parallel. Range: 1 to 256.
	ParallelCalls int `toml:"parallel_calls"`
	// AbandonedAfter is how long an interactive run without a connected client waits for the next
	// message. A run that waits for an approval or for a running call continues. Range: 1s to 168h.
	AbandonedAfter time.Duration `toml:"abandoned_after"`
}

// Sessions defines how the gateway separates the sessions of its callers (docs/sessions.md).
type Sessions struct {
	// Idle is the time without any call after which a session ends. Range: 1m to 168h.
	Idle time.Duration `toml:"idle"`
}

// Model is a model that runs may use; the first is the default. If its key file or script cannot be
// used, palyrad starts, `palyra status` reports the reason, and runs with the model fail. `palyra
// config check` checks key files, but not the vault. Changes take effect at a restart. It can be
// set in the file only.
type Model struct {
	// Name is the name in runs: 1 to 63 of `a-z`, `0-9`, `.`, `_`, `-`. Required.
	Name string `toml:"name"`
	// Provider is `anthropic` (Messages), `openai` (chat completions and compatible servers) or
	// `scripted`, which plays a file for demonstrations and tests. Required.
	Provider string `toml:"provider"`
	// Model is the provider's name of the model. Required, except for `scripted`.
	Model string `toml:"model"`
	// BaseURL is the URL of another server, such as `"http://127.0.0.1:11434/v1"`. Plain http is
	// accepted for this machine, and without a key for private networks; everything else needs
	// https. Default: the provider's own.
	BaseURL string `toml:"base_url"`
	// APIKeyFile is a file with the API key on one line. It is a regular file of mode 0600, owned
	// by palyrad's user, outside of every workspace. A server at `models.base_url` may need none.
	APIKeyFile string `toml:"api_key_file" path:"true"`
	// APIKeySecret is the API key as a secret of the vault, in place of `models.api_key_file`:
	// `"vault://global/anthropic"`. It is read for each turn, so that a new value takes effect at
	// once (docs/models.md). `palyra vault import` moves a key file into the vault.
	APIKeySecret string `toml:"api_key_secret"`
	// MaxOutputTokens limits the output of one turn. Range: 1 to 1000000. Default: `8192`.
	MaxOutputTokens int64 `toml:"max_output_tokens"`
	// IdleTimeout is how long the provider may send no data, before or within its answer. Raise it
	// for slow local models, which send nothing while they read a long conversation. Range: 5s to
	// 30m. Default: `"2m"`.
	IdleTimeout time.Duration `toml:"idle_timeout"`
	// Script is the file that a scripted model plays (docs/models.md). Required for `scripted`.
	Script string `toml:"script" path:"true"`
}

// RateLimits are token buckets, one for each principal and one for each address. The addresses of
// an IPv6 /64 network share one; callers on the gateway's host have none for their address. A
// request over the limit fails with `RATE_LIMITED` and a time to retry. All callers of a class
// share a bucket that is `rate_limits.global_factor` times as large, and callers without a
// credential share another one of that size.
type RateLimits struct {
	// Read is for listing, showing and watching, and for the parts of a skill that is uploaded.
	Read RateLimit `toml:"read"`
	// Mutate is for changes of the gateway, and messages on the stream of a run.
	Mutate RateLimit `toml:"mutate"`
	// Decide is for votes and revocations.
	Decide RateLimit `toml:"decide"`
	// ToolCall is for proposed calls.
	ToolCall RateLimit `toml:"tool_call"`
	// Run is for starting runs.
	Run RateLimit `toml:"run"`
	// Secret is for reading and changing secrets of the vault.
	Secret RateLimit `toml:"secret"`
	// Pairing is for the steps of machines that pair, which have no credential.
	Pairing RateLimit `toml:"pairing"`
	// Login is for the steps of people who log in, who have no credential yet and are counted by
	// address.
	Login RateLimit `toml:"login"`
	// GlobalFactor is the size of the buckets that all callers of a class share, as a multiple of
	// the bucket of one caller. Range: 1 to 10000.
	GlobalFactor int `toml:"global_factor"`
}

// RateLimit is one token bucket.
type RateLimit struct {
	// PerSecond is the rate at which requests are added to the bucket.
	PerSecond float64 `toml:"per_second"`
	// Burst is the number of requests that may come at once.
	Burst int `toml:"burst"`
}

// Quotas limit the bytes that one principal may send and store: in the journal, in blobs (large
// inputs, results), and in pending approvals. They are far above normal use (300 calls a day store
// about 30 MB) and prevent a principal from filling the disk. A call or message over a quota fails
// with `QUOTA_EXCEEDED` and a time to retry; it stores only a count in one event a minute. The
// bytes of a call are counted when they are written, so that no call is interrupted by a quota.
// Calls of an operator by `palyra call` are counted separately from other clients with the same
// credential. Quotas cannot be disabled.
type Quotas struct {
	// BytesPerSecond is the rate at which bytes are added to the bucket, 8 MiB by default. Range:
	// 1024 to 68719476736.
	BytesPerSecond int64 `toml:"bytes_per_second"`
	// BurstBytes is the number of bytes that may be brought and stored at once, 256 MiB by default.
	// Minimum: 4194304.
	BurstBytes int64 `toml:"burst_bytes"`
	// DayBytes is the number of bytes that may be stored within 24 hours, restarts included, 4 GiB
	// by default. Minimum: 4194304.
	DayBytes int64 `toml:"day_bytes"`
	// InFlightBytes limits the inputs of one principal's calls that have not ended, calls that wait
	// for approval included, 64 MiB by default. Minimum: 4194304.
	InFlightBytes int64 `toml:"in_flight_bytes"`
	// InFlightTotalBytes limits the inputs of all principals' calls that have not ended, 512 MiB by
	// default. Minimum: `quotas.in_flight_bytes`.
	InFlightTotalBytes int64 `toml:"in_flight_total_bytes"`
}

// Storage configures the use of the disk of `state_dir`.
type Storage struct {
	// ReserveBytes is disk space on the disk of `state_dir` that is reserved for votes, freeze,
	// thaw, revocations and an operator's calls from a terminal, as a file that is released in
	// steps (docs/operations.md). It uses at most a tenth of the disk. When less than half of it is
	// free, nothing else is accepted. Without a reserve (`0`), nothing can be approved or frozen on
	// a full disk. Linux only. Range: 0 to 68719476736 (64 GiB).
	ReserveBytes int64 `toml:"reserve_bytes"`
}

// Results configures the retention of results.
type Results struct {
	// Retention is how long results, large arguments, texts of runs and the prompts of closed
	// approvals are kept, encrypted under a key that the vault wraps (docs/format/results.md).
	// Afterwards the bytes are deleted and their digests stay: `palyra calls show`, `palyra attest
	// verify` and `palyra journal verify` still work, and operations that need the bytes fail with
	// `RESULT_EXPIRED`. `0` keeps them without limit. Range: 24h to 87600h.
	Retention time.Duration `toml:"retention"`
}

// Client configures the `palyra` command.
type Client struct {
	// Address is host:port of the gateway's API. Its variable is `PALYRA_ADDRESS`.
	Address string `toml:"address" env:"PALYRA_ADDRESS"`
	// Credentials is a credential bundle, as written by `palyrad operator add`. `""` is the local
	// operator's, in `state_dir`. Its variable is `PALYRA_CREDENTIALS`.
	Credentials string `toml:"credentials" path:"true" env:"PALYRA_CREDENTIALS"`
	// Notify enables desktop notifications of `palyra approvals watch` in a graphical session
	// (docs/cli.md). Its variable is `PALYRA_NOTIFY`.
	Notify bool `toml:"notify" env:"PALYRA_NOTIFY"`
}

func millis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
