package config

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"palyra/internal/core/text"
)

// The words of process_runner and of workspaces.mode.
const (
	TierC = "c"
	TierB = "b"

	FallbackNone           = "none"
	FallbackUserNamespaces = "user_namespaces"
	FallbackLandlock       = "landlock"
	FallbackJobObject      = "job_object"

	EgressStrict       = "strict"
	EgressPreflight    = "preflight"
	EgressUnrestricted = "unrestricted"

	ModeCopyOnWrite = "copy_on_write"
	ModeDirect      = "direct"
)

// Caches are the build tools whose caches can be kept between runs.
var Caches = []string{"go", "npm", "pip", "cargo"}

// Workspace is a directory that tools may work in.
type Workspace struct {
	Name string `toml:"name"`
	// Path is absolute.
	Path     string `toml:"path" path:"true"`
	ReadOnly bool   `toml:"read_only"`
	// Mode is how programs write: to a copy that the commit gate judges
	// (copy_on_write, also ""), or to the files themselves (direct).
	Mode string `toml:"mode"`
	// Protected are patterns of paths that the gate treats like git's hooks,
	// beside the built-in list. '*' matches within a name, "**" any directories.
	Protected []string `toml:"protected"`
}

// WorkspaceMode is Mode with its default.
func (w Workspace) WorkspaceMode() string {
	if w.Mode == "" {
		return ModeCopyOnWrite
	}
	return w.Mode
}

// ProcessRunner limits process.run.
type ProcessRunner struct {
	Enabled bool `toml:"enabled"`
	// Tier is "c" (a root and namespaces of its own) or "b" (filters and limits
	// around a process that sees the machine's files).
	Tier string `toml:"tier"`
	// Fallback is the lowest rung that may stand in for what the machine lacks:
	// "none", "user_namespaces", "landlock" or "job_object".
	Fallback string `toml:"fallback"`
	// RequiredLayers are layers without which no program runs, beside those that
	// the sandbox insists on itself.
	RequiredLayers []string `toml:"required_layers"`
	// AllowedExecutables are base names or absolute paths; empty allows every
	// program that is not on the built-in denylist.
	AllowedExecutables []string `toml:"allowed_executables"`
	// Toolchains are absolute directories with programs, or with a directory bin
	// of programs, that people installed beside the system.
	Toolchains []string `toml:"toolchains"`
	// AllowInterpreters lets interpreters run files (true), or refuses them
	// (false). Unset leaves interpreters and shells to policy in Tier C, and
	// refuses them in Tier B.
	AllowInterpreters *bool `toml:"allow_interpreters"`
	// StrictExec denies executing files that have no path, such as memory files.
	StrictExec bool `toml:"strict_exec"`
	// EgressEnforcementMode is "strict", "preflight" or "unrestricted";
	// Load reads "none" as the last of them.
	EgressEnforcementMode string `toml:"egress_enforcement_mode"`
	// AllowedEgressHosts are host rules. In mode strict they need a port, and
	// programs reach what they name and nothing else. In mode preflight the hosts
	// that a call names have to match one of them before it starts.
	AllowedEgressHosts []string `toml:"allowed_egress_hosts"`
	// AllowedDNSSuffixes are domains that are allowed with every host below them:
	// on the ports 80 and 443 in mode strict, on all in mode preflight.
	AllowedDNSSuffixes []string `toml:"allowed_dns_suffixes"`
	// DeniedEgressHosts are host rules that win over what is allowed.
	DeniedEgressHosts []string     `toml:"denied_egress_hosts"`
	EgressBudget      EgressBudget `toml:"egress_budget"`
	// Inspect are the hosts whose requests are looked into.
	Inspect []Inspect `toml:"inspect"`
	// CPUTimeLimitMS is processor time of all processes, in milliseconds.
	CPUTimeLimitMS   int64 `toml:"cpu_time_limit_ms"`
	MemoryLimitBytes int64 `toml:"memory_limit_bytes"`
	// MaxOutputBytes is kept of each stream.
	MaxOutputBytes int64 `toml:"max_output_bytes"`
	MaxProcesses   int   `toml:"max_processes"`
	// MaxConcurrent is how many programs run at once; calls beyond it wait. 0 is
	// as many as fit.
	MaxConcurrent int `toml:"max_concurrent"`
	// MaxWaiting is how many calls wait for a program to end; further ones are
	// refused.
	MaxWaiting int `toml:"max_waiting"`
	// ReserveProcesses and ReserveMemoryBytes are what palyrad keeps for itself
	// of what bounds it and its programs together; 0 is derived.
	ReserveProcesses   int   `toml:"reserve_processes"`
	ReserveMemoryBytes int64 `toml:"reserve_memory_bytes"`
	// DiskLimitBytes and MaxFiles bound what a run writes to its copy of the
	// workspace.
	DiskLimitBytes int64 `toml:"disk_limit_bytes"`
	MaxFiles       int64 `toml:"max_files"`
	// TmpLimitBytes is the size of each temporary file system.
	TmpLimitBytes int64 `toml:"tmp_limit_bytes"`
	// Caches are names of Caches.
	Caches []string `toml:"caches"`
	// CacheLimitBytes is for all caches of one workspace together.
	CacheLimitBytes int64 `toml:"cache_limit_bytes"`
	// Prepared is how many sandboxes are built before a call comes; 0 is none.
	Prepared int `toml:"prepared"`
	// UIDBase and UIDCount are the range of user ids of sandboxes when palyrad
	// runs as root; 0 leaves the choice to the sandbox, and never means root.
	UIDBase  int `toml:"uid_base"`
	UIDCount int `toml:"uid_count"`
}

// CPUTimeLimit is CPUTimeLimitMS as a duration.
func (p ProcessRunner) CPUTimeLimit() time.Duration { return millis(p.CPUTimeLimitMS) }

func (k *checker) runner(p ProcessRunner) {
	k.oneOf("process_runner.tier", p.Tier, TierC, TierB)
	k.oneOf("process_runner.fallback", p.Fallback, FallbackNone, FallbackUserNamespaces, FallbackLandlock, FallbackJobObject)
	k.oneOf("process_runner.egress_enforcement_mode", p.EgressEnforcementMode, EgressStrict, EgressPreflight, EgressUnrestricted)
	for _, name := range p.AllowedExecutables {
		if name == "" || strings.ContainsRune(name, filepath.Separator) && !filepath.IsAbs(name) {
			k.find("process_runner.allowed_executables", "has "+quote(name), "use a base name such as git, or an absolute path")
		}
	}
	for _, dir := range p.Toolchains {
		if !filepath.IsAbs(dir) {
			k.find("process_runner.toolchains", "has "+quote(dir), "use an absolute path such as /opt/node-v22")
		}
	}
	k.layers(p)
	k.egress(p)
	between(k, "process_runner.cpu_time_limit_ms", p.CPUTimeLimitMS, 100, dayMS)
	between(k, "process_runner.memory_limit_bytes", p.MemoryLimitBytes, 16*mib, 1024*gib)
	k.storable("process_runner.max_output_bytes", p.MaxOutputBytes, 2) // two streams
	between(k, "process_runner.max_processes", p.MaxProcesses, 4, 1_000_000)
	between(k, "process_runner.max_concurrent", p.MaxConcurrent, 0, 4096)
	between(k, "process_runner.max_waiting", p.MaxWaiting, 1, 65_536)
	between(k, "process_runner.reserve_processes", p.ReserveProcesses, 0, 1_000_000)
	between(k, "process_runner.reserve_memory_bytes", p.ReserveMemoryBytes, 0, 1024*gib)
	between(k, "process_runner.disk_limit_bytes", p.DiskLimitBytes, mib, 1024*gib)
	between(k, "process_runner.max_files", p.MaxFiles, 16, 10_000_000)
	between(k, "process_runner.tmp_limit_bytes", p.TmpLimitBytes, mib, 1024*gib)
	for _, name := range p.Caches {
		k.oneOf("process_runner.caches", name, Caches...)
	}
	between(k, "process_runner.cache_limit_bytes", p.CacheLimitBytes, mib, 1024*gib)
	between(k, "process_runner.prepared", p.Prepared, 0, 64)
	k.uids(p)
}

// layers are the names of layers as attestations have them. Which of them a
// machine can put in force is for the sandbox to say.
var layers = []string{
	"user_namespace", "mount_namespace", "pid_namespace", "network_namespace", "ipc_namespace", "uts_namespace", "cgroup_namespace",
	"unprivileged_user", "no_capabilities", "no_new_privs", "seccomp", "landlock", "control_group", "rlimits",
	"copy_on_write", "proc_masks", "closed_descriptors", "empty_environment", "minimal_root", "new_session",
	"seatbelt_files", "seatbelt_workspace", "seatbelt_network",
	"job_object", "ui_restrictions", "cpu_rate", "restricted_token", "low_integrity",
}

func (k *checker) layers(p ProcessRunner) {
	for _, name := range p.RequiredLayers {
		if slices.Contains(layers, name) {
			continue
		}
		remedy := "docs/sandbox.md lists the layers"
		if near := text.Nearest(name, layers); near != "" {
			remedy = "did you mean " + near + "?"
		}
		k.find("process_runner.required_layers", "has "+quote(name)+", which is no layer", remedy)
	}
	if p.EgressEnforcementMode != EgressStrict && slices.Contains(p.RequiredLayers, "network_namespace") {
		k.find("process_runner.required_layers", `has "network_namespace", which egress_enforcement_mode `+quote(p.EgressEnforcementMode)+" does without",
			"set egress_enforcement_mode to \"strict\", or leave the layer out")
	}
}

// uids refuses a range that is root's, or that no user id fits in.
func (k *checker) uids(p ProcessRunner) {
	const most = 1<<31 - 2
	between(k, "process_runner.uid_base", p.UIDBase, 0, most)
	between(k, "process_runner.uid_count", p.UIDCount, 0, 65536)
	if p.UIDBase > 0 && p.UIDBase <= most && p.UIDCount > most-p.UIDBase {
		k.find("process_runner.uid_count", fmt.Sprintf("is %d, which goes beyond the greatest user id", p.UIDCount), "lower it, or uid_base")
	}
}

func (k *checker) workspaceMode(each string, w Workspace) {
	if w.Mode != "" {
		k.oneOf(each+".mode", w.Mode, ModeCopyOnWrite, ModeDirect)
	}
	for _, pattern := range w.Protected {
		if _, err := path.Match(strings.ReplaceAll(pattern, "**", "*"), "x"); err != nil || pattern == "" || path.IsAbs(pattern) || slices.Contains(strings.Split(pattern, "/"), "..") {
			k.find(each+".protected", "has "+quote(pattern), "use a pattern relative to the workspace, such as deploy/*.yaml or **/secrets.env")
		}
	}
}
