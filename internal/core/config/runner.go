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

// The values of process_runner and of workspaces.mode.
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

// Workspace is a directory in which tools may work. It neither contains nor is inside of
// `state_dir`, `policy.dir`, `client.credentials`, the file of a key or secret, or the
// configuration file, because agents must not write their own rules; nor is it a credential bundle.
// Workspaces are set in the file, or added by palyrad's flag `--workspace NAME=DIR`.
type Workspace struct {
	// Name is the name in calls: 1 to 63 of `a-z`, `0-9`, `.`, `_`, `-`. Required.
	Name string `toml:"name" json:"name"`
	// Path is the directory. Required.
	Path string `toml:"path" json:"path" path:"true"`
	// ReadOnly denies writing to tools.
	ReadOnly bool `toml:"read_only" json:"read_only"`
	// Mode is the way programs write. `copy_on_write`: to a copy, whose changes the commit gate
	// judges. `direct`: to the files themselves, with the weaker guarantees described in
	// docs/sandbox.md. Default: `"copy_on_write"`.
	Mode string `toml:"mode" json:"mode"`
	// Protected are paths that the commit gate treats like git's hooks, in addition to the built-in
	// list. They are patterns relative to the workspace: `*` matches within a name, `**` any
	// directories (`"deploy/**"`).
	Protected []string `toml:"protected" json:"protected"`
}

// WorkspaceMode returns Mode, or its default.
func (w Workspace) WorkspaceMode() string {
	if w.Mode == "" {
		return ModeCopyOnWrite
	}
	return w.Mode
}

// ProcessRunner limits programs and their sandbox (docs/sandbox.md).
type ProcessRunner struct {
	// Enabled permits `process.run` to start programs.
	Enabled bool `toml:"enabled" json:"enabled"`
	// Tier is the sandbox: `c` is a root and namespaces of its own, `b` is filters and limits
	// around a process that sees the machine's files (docs/sandbox.md). A tier that the machine
	// cannot provide is refused, unless `process_runner.fallback` permits less. Windows has no Tier
	// C; its default is `b`.
	Tier string `toml:"tier" json:"tier"`
	// Fallback is the lowest isolation that may replace what the machine lacks: `none`,
	// `user_namespaces` (Tier B with namespaces), `landlock` (Tier B without), or `job_object` (the
	// only one on Windows). The best available one at or above it is used; it is a fact for
	// policies, and part of the log, `palyra status` and `palyrad doctor`.
	Fallback string `toml:"fallback" json:"fallback"`
	// RequiredLayers are layers without which no program runs, named as in docs/sandbox.md.
	RequiredLayers []string `toml:"required_layers" json:"required_layers"`
	// AllowedExecutables are base names or absolute paths of programs that may be started. If
	// empty, all are allowed except the built-in denylist (shells, `sudo`, `env` and similar).
	AllowedExecutables []string `toml:"allowed_executables" json:"allowed_executables"`
	// Toolchains are directories of programs that are installed outside the system directories,
	// such as `/opt/node-v22`. Programs are looked up in its `bin` directory if there is one, and
	// the whole directory is visible in the sandbox, read-only. They come after the system
	// directories and before directories in the home of an ordinary user who runs palyrad. As root
	// or a service user, palyrad uses only this list (docs/sandbox.md).
	Toolchains []string `toml:"toolchains" json:"toolchains,omitempty"`
	// AllowInterpreters is `true`, `false` or `"unset"`. `true`: interpreters run files; shells and
	// inline code (`python -c`) are refused. `false`: interpreters are refused as well. Unset: in
	// Tier C policy decides, by default with an approval; in Tier B they are refused. `shell.run`
	// needs it unset.
	AllowInterpreters *bool `toml:"allow_interpreters" json:"allow_interpreters,omitempty"`
	// StrictExec denies executing code without a path in a file system, such as memory files. A few
	// just-in-time compilers and installers need those. Linux only.
	StrictExec bool `toml:"strict_exec" json:"strict_exec"`
	// EgressEnforcementMode is `strict`, `preflight` or `unrestricted`. `strict`: programs run in a
	// network namespace and reach only what the following keys allow. `preflight`: the hosts that a
	// call names are checked before the start, and nothing is enforced later. `unrestricted`:
	// programs use the machine's network, which a policy must permit (`context.egress.mode ==
	// "none"`). `none` is an older name of `unrestricted`, logged at the start (docs/egress.md).
	EgressEnforcementMode string `toml:"egress_enforcement_mode" json:"egress_enforcement_mode"`
	// AllowedEgressHosts are the destinations of programs: `host:port`, `*.domain:port`, an address
	// or a prefix with a port, IPv6 in brackets (`"[2001:db8::/32]:443"`). `strict` requires a port
	// in each rule, at most 64 different ones; in mode `preflight` a rule without a port matches
	// all ports. Private and local addresses need a rule of their own.
	AllowedEgressHosts []string `toml:"allowed_egress_hosts" json:"allowed_egress_hosts"`
	// AllowedDNSSuffixes are domains that may be reached with every host below them: on the ports
	// 80 and 443 in mode `strict`, on all ports in mode `preflight`.
	AllowedDNSSuffixes []string `toml:"allowed_dns_suffixes" json:"allowed_dns_suffixes"`
	// DeniedEgressHosts are destinations that are denied even if another key allows them. A rule
	// without a port denies all ports.
	DeniedEgressHosts []string     `toml:"denied_egress_hosts" json:"denied_egress_hosts"`
	EgressBudget      EgressBudget `toml:"egress_budget" json:"egress_budget"`
	Inspect           []Inspect    `toml:"inspect" json:"inspect"`
	// CPUTimeLimitMS is the processor time of one program in milliseconds. Range: 100 to 86400000.
	CPUTimeLimitMS int64 `toml:"cpu_time_limit_ms" json:"cpu_time_limit_ms"`
	// MemoryLimitBytes is the memory of one program, 2 GiB by default. Range: 16 MiB to 1 TiB.
	MemoryLimitBytes int64 `toml:"memory_limit_bytes" json:"memory_limit_bytes"`
	// MaxOutputBytes is how much of each output stream is kept, its beginning and its end, 1 MiB by
	// default. Digests cover all output. Range: 1 KiB to 5 MiB.
	MaxOutputBytes int64 `toml:"max_output_bytes" json:"max_output_bytes"`
	// MaxProcesses limits the processes and threads of one program. Range: 4 to 1000000.
	MaxProcesses int `toml:"max_processes" json:"max_processes"`
	// MaxConcurrent limits the programs that run at once; other calls wait within their deadline.
	// Owners take turns, and so do the agents of one owner, so that an agent with many calls delays
	// others by one call at most. 0 is 32 if a control group limits all programs together, and
	// otherwise as many as fit with their full limits, 2 to 32. Range: 0 to 4096.
	MaxConcurrent int `toml:"max_concurrent" json:"max_concurrent"`
	// MaxWaiting limits the calls that wait for their turn. An owner may use at most as many places
	// as are left free, and a principal half of that; further calls are refused with `RATE_LIMITED`
	// and a time to retry. Range: 1 to 65536.
	MaxWaiting int `toml:"max_waiting" json:"-"`
	// ReserveProcesses is the number of processes and threads reserved for palyrad within its
	// limits (control groups, user, machine); programs share the rest. 0 is an eighth, 64 to 512,
	// at most half. Range: 0 to 1000000 (docs/operations.md).
	ReserveProcesses int `toml:"reserve_processes" json:"-"`
	// ReserveMemoryBytes is the memory reserved for palyrad within its limits. 0 is an eighth, 256
	// MiB to 1 GiB, at most half. Range: 0 to 1 TiB.
	ReserveMemoryBytes int64 `toml:"reserve_memory_bytes" json:"-"`
	// DiskLimitBytes is how much a program may write to its copy of the workspace, 1 GiB by
	// default. Range: 1 MiB to 1 TiB.
	DiskLimitBytes int64 `toml:"disk_limit_bytes" json:"disk_limit_bytes"`
	// MaxFiles limits the files and directories that a program may create in its copy of the
	// workspace. Range: 16 to 10000000.
	MaxFiles int64 `toml:"max_files" json:"max_files"`
	// TmpLimitBytes is the size of each temporary file system (`/tmp`, HOME, `/dev/shm`), 256 MiB
	// by default. Range: 1 MiB to 1 TiB.
	TmpLimitBytes int64 `toml:"tmp_limit_bytes" json:"tmp_limit_bytes"`
	// Caches are build tools whose caches are kept between the runs in one workspace: `go`, `npm`,
	// `pip`, `cargo`. A cache is a channel between runs that the commit gate does not inspect.
	Caches []string `toml:"caches" json:"caches"`
	// CacheLimitBytes limits all caches of one workspace together, 4 GiB by default; larger ones
	// are emptied. It also limits the state directory of an upstream server's program, which is
	// stopped beyond it. Range: 1 MiB to 1 TiB.
	CacheLimitBytes int64 `toml:"cache_limit_bytes" json:"cache_limit_bytes"`
	// Prepared is the number of sandboxes that are built in advance, which shortens calls. Range: 0
	// to 64.
	Prepared int `toml:"prepared" json:"-"`
	// UIDBase is the first user id of sandboxes when palyrad runs as root. 0 selects ids that no
	// account, container or other palyrad of the machine has; it never means root.
	UIDBase int `toml:"uid_base" json:"uid_base"`
	// UIDCount is the number of user ids from `process_runner.uid_base` on, one for each program
	// that runs. 0 means 4096. Range: 0 to 65536.
	UIDCount int `toml:"uid_count" json:"uid_count"`
}

// CPUTimeLimit returns CPUTimeLimitMS as a duration.
func (p ProcessRunner) CPUTimeLimit() time.Duration { return millis(p.CPUTimeLimitMS) }

func (p ProcessRunner) check(k *checker) {
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
	p.checkLayers(k)
	p.checkEgress(k)
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
	p.checkUIDs(k)
}

// layers are the names of layers in attestations. The sandbox determines which layers a machine
// supports.
var layers = []string{
	"user_namespace", "mount_namespace", "pid_namespace", "network_namespace", "ipc_namespace", "uts_namespace", "cgroup_namespace",
	"unprivileged_user", "no_capabilities", "no_new_privs", "seccomp", "landlock", "control_group", "rlimits",
	"copy_on_write", "proc_masks", "closed_descriptors", "empty_environment", "minimal_root", "new_session",
	"seatbelt_files", "seatbelt_workspace", "seatbelt_network",
	"job_object", "ui_restrictions", "cpu_rate", "restricted_token", "low_integrity",
}

func (p ProcessRunner) checkLayers(k *checker) {
	for _, name := range p.RequiredLayers {
		if slices.Contains(layers, name) {
			continue
		}
		remedy := "docs/sandbox.md lists the layers"
		if near := text.Nearest(name, layers); near != "" {
			remedy = "did you mean " + near + "?"
		}
		k.find("process_runner.required_layers", "has "+quote(name)+", which is not a layer", remedy)
	}
	if p.EgressEnforcementMode != EgressStrict && slices.Contains(p.RequiredLayers, "network_namespace") {
		k.find("process_runner.required_layers", `has "network_namespace", which egress_enforcement_mode `+quote(p.EgressEnforcementMode)+" does without",
			"set egress_enforcement_mode to \"strict\", or leave the layer out")
	}
}

// checkUIDs refuses a range that exceeds the valid user ids.
func (p ProcessRunner) checkUIDs(k *checker) {
	const most = 1<<31 - 2
	between(k, "process_runner.uid_base", p.UIDBase, 0, most)
	between(k, "process_runner.uid_count", p.UIDCount, 0, 65536)
	if p.UIDBase > 0 && p.UIDBase <= most && p.UIDCount > most-p.UIDBase {
		k.find("process_runner.uid_count", fmt.Sprintf("is %d, which goes beyond the greatest user id", p.UIDCount), "lower it, or uid_base")
	}
}

func (w Workspace) checkMode(k *checker, each string) {
	if w.Mode != "" {
		k.oneOf(each+".mode", w.Mode, ModeCopyOnWrite, ModeDirect)
	}
	for _, pattern := range w.Protected {
		if _, err := path.Match(strings.ReplaceAll(pattern, "**", "*"), "x"); err != nil || pattern == "" || path.IsAbs(pattern) || slices.Contains(strings.Split(pattern, "/"), "..") {
			k.find(each+".protected", "has "+quote(pattern), "use a pattern relative to the workspace, such as deploy/*.yaml or **/secrets.env")
		}
	}
}
