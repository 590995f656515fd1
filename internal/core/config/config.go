// Package config reads palyra.toml: its keys, their defaults, the PALYRA_*
// variables and flags that override them, and the checks on what they say.
// It is strict: a key that does not exist is an error with its place in the
// file and the key that was probably meant. docs/config.md describes every
// key, and a test holds the two together.
package config

import (
	"strings"
	"time"

	"palyra/internal/core/access"
)

// Config is the effective configuration. The struct tags are the names of the
// keys; a field with the tag `path:"true"` holds a file name, in which a
// leading "~" is the home directory, alone or before a slash.
type Config struct {
	// StateDir holds keys, journal and blobs; palyrad makes it with mode 0700.
	StateDir string `toml:"state_dir" path:"true"`
	// Source is the file that Load read, or would have read had it existed; it
	// is no key.
	Source string `toml:"-"`
	// Notes are sentences about what is valid and should be written otherwise;
	// palyrad logs them at start.
	Notes []string `toml:"-"`
	// TrustDomain is the authority of the SPIFFE ids that the CA issues; "" is one
	// that no other gateway has.
	TrustDomain string   `toml:"trust_domain"`
	Keys        KeyStore `toml:"keys"`
	Presence    Presence `toml:"presence"`
	Vault       Vault    `toml:"vault"`
	Listen      Listen   `toml:"listen"`
	Console     Console  `toml:"console"`
	Log         Log      `toml:"log"`
	Policy      Policy   `toml:"policy"`
	// Roles are the operator's own, beside access.BuiltinRoles.
	Roles      []access.Role `toml:"roles"`
	Workspaces []Workspace   `toml:"workspaces"`

	// AllowedTools are names, or prefixes that end in '*'; see ToolAllowed.
	AllowedTools []string `toml:"allowed_tools"`
	// AllowedPrincipals may act at all: "user:NAME", "agent:NAME", or "*" for every
	// member that is not disabled.
	AllowedPrincipals []string `toml:"allowed_principals"`
	// AllowedChannels are the messaging channels that calls may come from. Empty
	// leaves it to commands, and none of them is allowed from the start.
	AllowedChannels []string `toml:"allowed_channels"`
	// DualControl has changes of members, policies and the freeze approved by a
	// second owner or admin, where there is one who is independent.
	DualControl bool `toml:"dual_control"`
	// AllowSensitiveTools waives the human for every sensitive tool.
	AllowSensitiveTools bool `toml:"allow_sensitive_tools"`
	// MaxCallsPerRun is the budget of a run of the gateway; every proposal counts.
	MaxCallsPerRun int `toml:"max_calls_per_run"`
	// MaxCallsPerSession is the budget of all other calls of a session. When it is
	// used up, people are asked whether the session may go on.
	MaxCallsPerSession int `toml:"max_calls_per_session"`
	// ExecutionTimeoutMS is the wall clock limit of one call in milliseconds.
	ExecutionTimeoutMS int64 `toml:"execution_timeout_ms"`

	// StopTimeout is how long calls may go on after the order to stop.
	StopTimeout time.Duration `toml:"stop_timeout"`

	ProcessRunner ProcessRunner `toml:"process_runner"`
	HTTP          HTTP          `toml:"http"`
	WASM          WASMRuntime   `toml:"wasm_runtime"`
	Skills        Skills        `toml:"skills"`
	Approvals     Approvals     `toml:"approvals"`
	Runs          Runs          `toml:"runs"`
	Sessions      Sessions      `toml:"sessions"`
	// Models are what a run may ask, the first being the default.
	Models []Model `toml:"models"`
	// Secrets are values that tools use without seeing them.
	Secrets []Secret `toml:"secrets"`
	// OAuthIssuers are whose access tokens count at the MCP server.
	OAuthIssuers []OAuthIssuer `toml:"oauth_issuers"`
	// Evaluators are the members that may ask what others may do.
	Evaluators []Evaluator `toml:"evaluators"`
	// MCPClients are those whose time for a call is another than what is known of them.
	MCPClients []MCPClient `toml:"mcp_clients"`
	// Notify are where people are told of what happens.
	Notify     []Notify   `toml:"notify"`
	OIDC       OIDC       `toml:"oidc"`
	RateLimits RateLimits `toml:"rate_limits"`
	Quotas     Quotas     `toml:"quotas"`
	Storage    Storage    `toml:"storage"`
	Results    Results    `toml:"results"`
	Client     Client     `toml:"client"`
}

// ExecutionTimeout is the wall clock limit of one call.
func (c *Config) ExecutionTimeout() time.Duration { return millis(c.ExecutionTimeoutMS) }

// ToolAllowed reports whether allowed_tools covers the tool: by its name, by
// a prefix that ends in '*' ("fs.*", "github/*"), or by "*" alone.
func (c *Config) ToolAllowed(name string) bool {
	for _, pattern := range c.AllowedTools {
		if prefix, ok := strings.CutSuffix(pattern, "*"); ok && strings.HasPrefix(name, prefix) || pattern == name {
			return true
		}
	}
	return false
}

// The places where the gateway's keys may live.
const (
	KeysInFiles = "file"
	KeysInTPM   = "tpm"
)

// KeyStore says where the gateway's private keys live.
type KeyStore struct {
	// Store is KeysInFiles or KeysInTPM.
	Store string `toml:"store"`
	// TPMDevice is the device of the TPM, or the Unix socket of one in software.
	TPMDevice string `toml:"tpm_device" path:"true"`
}

// Presence says which passkeys prove that somebody is there.
type Presence struct {
	// AAGUIDs are the makes of authenticators that may be enrolled, each a UUID in small
	// letters; none means all, and some that each has to attest its make.
	AAGUIDs []string `toml:"aaguids"`
	// AttestationRoots is a file of certificates (PEM) to which the attestations have to
	// lead; "" believes what an authenticator says of itself.
	AttestationRoots string `toml:"attestation_roots" path:"true"`
}

// Listen says where palyrad listens.
type Listen struct {
	// API is host:port of the TLS listener for the API.
	API string `toml:"api"`
	// AllowRemote permits an API address that is not loopback.
	AllowRemote bool `toml:"allow_remote"`
	// ServerNames are further DNS names and addresses of the server certificate.
	ServerNames []string `toml:"server_names"`
	// Metrics is host:port of the plain HTTP listener for metrics, always
	// loopback; "" switches it off.
	Metrics string `toml:"metrics"`
	// Agents is host:port of the plain HTTP listener for agents on this host, always
	// loopback; "" switches it off.
	Agents string `toml:"agents"`
	// Hooks is the path of a Unix socket for the hooks of agents of AgentUIDs, in a
	// directory that no other user can write to; "" is none.
	Hooks string `toml:"hooks" path:"true"`
	// AgentUIDs are the users beside the owner of the state directory whose processes
	// Agents and Hooks let in.
	AgentUIDs []int64 `toml:"agent_uids"`
	// Console is host:port of the web console, "" switches it off. Any address but
	// loopback needs TLS.
	Console string `toml:"console"`
	// SocketOperator lets the owner of the state directory in as the local operator,
	// over a Unix socket there.
	SocketOperator bool `toml:"socket_operator"`
	// MaxConnections bounds the open connections to the API.
	MaxConnections int `toml:"max_connections"`
	// MaxConnectionsPerAddress bounds those of one address that is not loopback.
	MaxConnectionsPerAddress int `toml:"max_connections_per_address"`
}

// Console says how people use the web console.
type Console struct {
	// Origin is where browsers reach it; "" is one that no other gateway has, with the
	// port of Listen.Console.
	Origin string `toml:"origin"`
	// Idle is how long a session lasts that nobody uses, Session how long any does.
	Idle    time.Duration `toml:"idle"`
	Session time.Duration `toml:"session"`
	// CertificateFile and KeyFile are what it is served with, in PEM; OwnCA has a CA made
	// that is good for its names alone. Without either it is plain HTTP, on loopback.
	CertificateFile string `toml:"certificate_file" path:"true"`
	KeyFile         string `toml:"key_file" path:"true"`
	OwnCA           bool   `toml:"own_ca"`
}

// TLS reports whether the console is served over TLS.
func (c Console) TLS() bool { return c.OwnCA || c.CertificateFile != "" }

// Log says how palyrad logs to standard error.
type Log struct {
	// Level is debug, info, warn or error.
	Level string `toml:"level"`
	// Format is text or json.
	Format string `toml:"format"`
}

// Policy says where Cedar policies lie.
type Policy struct {
	// Dir holds *.cedar files that extend the built-in ones; "" means none. That
	// beside the file, which is the default, need not exist.
	Dir string `toml:"dir" path:"true"`
}

// HTTP limits http.fetch.
type HTTP struct {
	// AllowedHosts are host rules; empty means any public host. Private
	// addresses need a rule of their own.
	AllowedHosts []string `toml:"allowed_hosts"`
	// DeniedHosts win over AllowedHosts.
	DeniedHosts []string `toml:"denied_hosts"`
	// MaxBytes is the largest response body.
	MaxBytes  int64 `toml:"max_bytes"`
	TimeoutMS int64 `toml:"timeout_ms"`
}

// Timeout is TimeoutMS as a duration.
func (h HTTP) Timeout() time.Duration { return millis(h.TimeoutMS) }

// MCPClient is what is known of an MCP client.
type MCPClient struct {
	// Name is what the client calls itself (clientInfo.name).
	Name string `toml:"name"`
	// CallLimit is how long it waits for a call, 0 for as long as it takes.
	CallLimit time.Duration `toml:"call_limit"`
}

// Approvals bounds how humans are asked.
type Approvals struct {
	// DefaultTimeout is how long a call waits for an answer.
	DefaultTimeout            time.Duration `toml:"default_timeout"`
	MaxPendingPerRun          int           `toml:"max_pending_per_run"`
	MaxPendingPerPrincipal    int           `toml:"max_pending_per_principal"`
	MaxCreatedPerMinutePerRun int           `toml:"max_created_per_minute_per_run"`
	// MaxCreatedPerMinutePerPrincipal counts the approvals of all its runs.
	MaxCreatedPerMinutePerPrincipal int `toml:"max_created_per_minute_per_principal"`
	// Cooldown is how long an identical ask is answered from memory after a
	// denial or expiry.
	Cooldown time.Duration `toml:"cooldown"`
}

// Runs bounds the runs that the gateway drives; a run may ask for less.
type Runs struct {
	// MaxTokens is input and output of all turns of one run.
	MaxTokens int64 `toml:"max_tokens"`
	// MaxDuration is from start to end, waiting for humans included.
	MaxDuration time.Duration `toml:"max_duration"`
	// MaxActivePerPrincipal bounds the runs of one principal that have not
	// ended.
	MaxActivePerPrincipal int `toml:"max_active_per_principal"`
	// ParallelCalls is how many calls of one turn run side by side.
	ParallelCalls int `toml:"parallel_calls"`
	// AbandonedAfter is how long a run waits for the next message of a client that
	// left.
	AbandonedAfter time.Duration `toml:"abandoned_after"`
}

// Sessions says how the gateway names the sessions of its callers.
type Sessions struct {
	// Idle is the time without any call after which a session ends.
	Idle time.Duration `toml:"idle"`
}

// Model is a model that a run may ask.
type Model struct {
	Name string `toml:"name"`
	// Provider is "anthropic", "openai" (and what is compatible with its chat
	// completions) or "scripted".
	Provider string `toml:"provider"`
	// Model is the provider's name for it.
	Model string `toml:"model"`
	// BaseURL replaces the provider's own address; "" keeps it.
	BaseURL string `toml:"base_url"`
	// APIKeyFile holds the key and nothing else, and belongs to nobody but
	// palyrad's user (mode 0600). A local server may need none.
	APIKeyFile string `toml:"api_key_file" path:"true"`
	// APIKeySecret names the key in the vault in place of a file:
	// "vault://global/<key>".
	APIKeySecret string `toml:"api_key_secret"`
	// MaxOutputTokens bounds one turn.
	MaxOutputTokens int64 `toml:"max_output_tokens"`
	// IdleTimeout is how long the provider may send nothing.
	IdleTimeout time.Duration `toml:"idle_timeout"`
	// Script is the file that a scripted model plays.
	Script string `toml:"script" path:"true"`
}

// RateLimits are token buckets by class, for each principal and address.
type RateLimits struct {
	Read     RateLimit `toml:"read"`
	Mutate   RateLimit `toml:"mutate"`
	Decide   RateLimit `toml:"decide"`
	ToolCall RateLimit `toml:"tool_call"`
	Run      RateLimit `toml:"run"`
	Secret   RateLimit `toml:"secret"`
	Pairing  RateLimit `toml:"pairing"`
	Login    RateLimit `toml:"login"`
	// GlobalFactor makes the bucket that all callers of a class share this
	// many times as large as the one of a single caller.
	GlobalFactor int `toml:"global_factor"`
}

// RateLimit is one token bucket.
type RateLimit struct {
	PerSecond float64 `toml:"per_second"`
	Burst     int     `toml:"burst"`
}

// Quotas bound how many bytes the calls of one principal bring and leave behind
// in journal, blobs and pending inputs.
type Quotas struct {
	// BytesPerSecond flow into a bucket that holds BurstBytes.
	BytesPerSecond int64 `toml:"bytes_per_second"`
	BurstBytes     int64 `toml:"burst_bytes"`
	// DayBytes is what may be left behind within 24 hours.
	DayBytes int64 `toml:"day_bytes"`
	// InFlightBytes bounds the inputs of calls that have not ended,
	// InFlightTotalBytes those of all principals.
	InFlightBytes      int64 `toml:"in_flight_bytes"`
	InFlightTotalBytes int64 `toml:"in_flight_total_bytes"`
}

// Storage says how palyrad uses the disk of state_dir.
type Storage struct {
	// ReserveBytes is what of the disk is kept for operators, at most a tenth of
	// it; 0 is nothing.
	ReserveBytes int64 `toml:"reserve_bytes"`
}

// Results says how long what calls leave behind is kept.
type Results struct {
	// Retention is for how long; after it the digest is left. 0 is for ever.
	Retention time.Duration `toml:"retention"`
}

// Client is for the palyra command.
type Client struct {
	// Address is host:port of the API.
	Address string `toml:"address" env:"PALYRA_ADDRESS"`
	// Credentials is a credential bundle; "" means the local operator's in
	// the state directory.
	Credentials string `toml:"credentials" path:"true" env:"PALYRA_CREDENTIALS"`
	// Notify says that the desktop is told of calls that begin to wait.
	Notify bool `toml:"notify" env:"PALYRA_NOTIFY"`
}

func millis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
