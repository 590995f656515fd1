package policy

import (
	"palyra/internal/core/access"
	"palyra/internal/core/config"
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
	HTTP               config.HTTP   `json:"http"`
	// Workspaces are the declared directories, by name, each with its mode.
	Workspaces []config.Workspace `json:"workspaces"`
	// Secrets are usable by calls without revealing their values, which are not included.
	Secrets []config.Secret `json:"secrets"`
	// WASM is nil if guests may not run.
	WASM *WASMRuntime `json:"wasm_runtime,omitempty"`
}

// ProcessRunner has the settings of programs. The mode of egress "unrestricted" is recorded as
// "none", which policies compare with.
type ProcessRunner struct {
	config.ProcessRunner
	// WorkspaceRoot is always empty; it keeps the digests of recorded sets.
	WorkspaceRoot string `json:"workspace_root"`
}

// WASMRuntime has the settings of WebAssembly guests (Tier A).
type WASMRuntime struct {
	config.WASMRuntime
	// Skills has the settings of skill guests, nil if they may not run.
	Skills *config.Skills `json:"skills,omitempty"`
}
