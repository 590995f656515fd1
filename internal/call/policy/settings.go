package policy

import (
	"encoding/json"

	"palyra/internal/core/access"
)

// Snapshot has the operator's settings in force at a call: the ToolCallPolicySnapshot of the
// sources. Together with policies, schema and entities it is the content of a snapshot digest.
// The zero value is the default: every pinned tool and every enabled member, no channels, no
// skills, and no sensitive tool without an approval.
type Snapshot struct {
	// AllowedTools are the tools that may run at all; nil means every pinned
	// tool, an empty list means none.
	AllowedTools []string `json:"allowed_tools"`
	// AllowedPrincipals may call tools and the API; nil means every enabled member, an empty
	// list means none.
	AllowedPrincipals []access.Principal `json:"allowed_principals"`
	// ForbiddenPrincipals are excluded by commands even if they are among AllowedPrincipals.
	ForbiddenPrincipals []access.Principal `json:"forbidden_principals,omitempty"`
	// AllowedChannels are the messaging channels that calls may come from.
	AllowedChannels []string `json:"allowed_channels"`
	// ActiveSkills are the skills whose tools may run.
	ActiveSkills []string `json:"active_skills"`
	// AllowSensitiveTools adds a permit that runs every sensitive tool without an approval. It
	// is false by default.
	AllowSensitiveTools bool `json:"allow_sensitive_tools"`
	MaxCallsPerRun      int  `json:"max_calls_per_run"`
	// MaxCallsPerSession, and SessionIdleMS in milliseconds, are 0 in snapshots of releases
	// without sessions.
	MaxCallsPerSession int   `json:"max_calls_per_session,omitempty"`
	SessionIdleMS      int64 `json:"session_idle_ms,omitempty"`
	// ExecutionTimeoutMS is in milliseconds.
	ExecutionTimeoutMS int64         `json:"execution_timeout_ms"`
	ProcessRunner      ProcessRunner `json:"process_runner"`
	HTTP               HTTPClient    `json:"http"`
	// Workspaces are the declared directories, by name.
	Workspaces []Workspace `json:"workspaces"`
	// Secrets are usable by calls without revealing their values, which are not included.
	Secrets []Secret `json:"secrets"`
	// WASM is a WASMRuntime, or empty if guests may not run. Snapshots of earlier releases have
	// another format, which is kept unchanged for their digests.
	WASM json.RawMessage `json:"wasm_runtime,omitempty"`
}

// WASMRuntime has the settings of WebAssembly guests (Tier A).
type WASMRuntime struct {
	AllowInlineModules bool  `json:"allow_inline_modules"`
	FuelBudget         int64 `json:"fuel_budget"`
	FuelCeiling        int64 `json:"fuel_ceiling"`
	// MaxMemory, MaxModule and MaxOutput are in bytes.
	MaxMemory        int64 `json:"max_memory_bytes"`
	MaxTableElements int64 `json:"max_table_elements"`
	MaxModule        int64 `json:"max_module_bytes"`
	MaxOutput        int64 `json:"max_output_bytes"`
	TimeLimitMS      int64 `json:"time_limit_ms"`
	MaxConcurrent    int   `json:"max_concurrent"`
	// Skills has the settings of skill guests, nil if they may not run.
	Skills *SkillSettings `json:"skills,omitempty"`
}

// SkillSettings are the resources available to skills.
type SkillSettings struct {
	AllowWildcards bool  `json:"allow_wildcards"`
	MaxStorage     int64 `json:"max_storage_bytes"`
}

// JSON returns the settings in the form of a snapshot.
func (w WASMRuntime) JSON() json.RawMessage {
	text, err := json.Marshal(w)
	if err != nil {
		panic(err) // numbers and a flag can always be encoded
	}
	return text
}

// ProcessRunner has the settings of programs in Tiers B and C.
type ProcessRunner struct {
	Enabled            bool     `json:"enabled"`
	Tier               string   `json:"tier"`
	WorkspaceRoot      string   `json:"workspace_root"`
	AllowedExecutables []string `json:"allowed_executables"`
	// AllowInterpreters is nil if policy decides about them.
	AllowInterpreters *bool `json:"allow_interpreters,omitempty"`
	// Toolchains are the configured program directories, in addition to the system's and the
	// table's.
	Toolchains         []string     `json:"toolchains,omitempty"`
	StrictExec         bool         `json:"strict_exec"`
	EgressMode         string       `json:"egress_enforcement_mode"`
	AllowedHosts       []string     `json:"allowed_egress_hosts"`
	AllowedDNSSuffixes []string     `json:"allowed_dns_suffixes"`
	DeniedHosts        []string     `json:"denied_egress_hosts"`
	EgressBudget       EgressBudget `json:"egress_budget"`
	Inspect            []Inspect    `json:"inspect"`
	// CPULimitMS is in milliseconds; MemoryLimit and OutputLimit in bytes.
	CPULimitMS  int64 `json:"cpu_time_limit_ms"`
	MemoryLimit int64 `json:"memory_limit_bytes"`
	OutputLimit int64 `json:"max_output_bytes"`
	// MaxProcesses counts threads, too.
	MaxProcesses int `json:"max_processes"`
	// MaxConcurrent bounds the number of programs that run concurrently.
	MaxConcurrent int `json:"max_concurrent"`
	// Fallback is the lowest rung that may replace the tier.
	Fallback       string   `json:"fallback"`
	RequiredLayers []string `json:"required_layers"`
	Caches         []string `json:"caches"`
	// DiskLimit, TmpLimit and CacheLimit are in bytes.
	DiskLimit  int64 `json:"disk_limit_bytes"`
	MaxFiles   int64 `json:"max_files"`
	TmpLimit   int64 `json:"tmp_limit_bytes"`
	CacheLimit int64 `json:"cache_limit_bytes"`
	// UIDBase and UIDCount are the range of sandboxes' user ids; 0 means that the daemon
	// chooses.
	UIDBase  int `json:"uid_base"`
	UIDCount int `json:"uid_count"`
}

// EgressBudget bounds one program's traffic with the hosts that it may reach.
type EgressBudget struct {
	Connections int   `json:"connections"`
	Concurrent  int   `json:"concurrent"`
	BytesOut    int64 `json:"bytes_out"`
	BytesIn     int64 `json:"bytes_in"`
	Requests    int   `json:"requests"`
	// ConnectionTimeMS is in milliseconds.
	ConnectionTimeMS int64 `json:"connection_time_ms"`
}

// Inspect is a host whose requests are inspected.
type Inspect struct {
	Host    string   `json:"host"`
	Methods []string `json:"methods"`
	Paths   []string `json:"paths"`
}

// HTTPClient has the settings of http.fetch.
type HTTPClient struct {
	AllowedHosts []string `json:"allowed_hosts"`
	DeniedHosts  []string `json:"denied_hosts"`
	// MaxBytes bounds a body; TimeoutMS is in milliseconds.
	MaxBytes  int64 `json:"max_bytes"`
	TimeoutMS int64 `json:"timeout_ms"`
}

// Workspace is one declared directory.
type Workspace struct {
	Name     string `json:"name"`
	Path     string `json:"path"`
	ReadOnly bool   `json:"read_only"`
	// Mode is copy_on_write or direct; Protected are the operator's patterns.
	Mode      string   `json:"mode"`
	Protected []string `json:"protected"`
}

// Secret is one secret: the location of its value and its permitted destinations.
type Secret struct {
	Name   string   `json:"name"`
	File   string   `json:"file"`
	Hosts  []string `json:"hosts"`
	Header string   `json:"header"`
	Env    string   `json:"env"`
}
