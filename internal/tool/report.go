package tool

import (
	"encoding/json"
	"time"
)

// Outcome is how a call ended.
type Outcome string

// The outcomes.
const (
	Succeeded Outcome = "succeeded"
	Failed    Outcome = "failed"
	TimedOut  Outcome = "timed_out"
	// Refused means that dispatch did not start the tool.
	Refused Outcome = "refused"
	Stopped Outcome = "cancelled"
	// Unknown is the outcome of a call that a crash interrupted.
	Unknown Outcome = "ambiguous"
)

// Report is what an executor says of a call. Isolation holds only what was
// read back from inside.
type Report struct {
	Outcome Outcome `json:"outcome"`
	// Reason is a reason.Code when the outcome is not succeeded.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	Remedy  string `json:"remedy,omitempty"`
	// Result is the canonical JSON that the client receives, byte for byte.
	Result json.RawMessage `json:"-"`

	Executor    ExecutorInfo `json:"executor"`
	Enforcement Enforcement  `json:"enforcement"`
	Isolation   *Isolation   `json:"isolation,omitempty"`
	Egress      Egress       `json:"egress"`
	Outputs     Outputs      `json:"outputs"`
	// Files are the files that the call wrote, with their new digests.
	Files []FileChange `json:"files,omitempty"`

	ExitCode   *int      `json:"exit_code,omitempty"`
	Signal     string    `json:"signal,omitempty"`
	Usage      Usage     `json:"usage"`
	StartedAt  time.Time `json:"started_at"`
	FinishedAt time.Time `json:"finished_at"`
}

// ExecutorInfo names the program that ran the call.
type ExecutorInfo struct {
	Name    Executor `json:"name"`
	Version string   `json:"version"`
	// Tier is "builtin", "a", "b" or "c".
	Tier string `json:"tier"`
	// Backend names the mechanism and its version, "bubblewrap 0.8.0".
	Backend string `json:"backend,omitempty"`
}

// Enforcement is the isolation level asked for and reached.
type Enforcement struct {
	// Level is the one word of the sources: none, preflight, strict.
	Level      string   `json:"level"`
	Requested  []string `json:"requested"`
	Applied    []string `json:"applied"`
	Downgrades []string `json:"downgrades"`
}

// Isolation is what the helper read back from inside the sandbox.
type Isolation struct {
	// Namespaces maps a kind (mnt, pid, net, user, ipc, uts, cgroup) to the
	// inode number of the sandbox's namespace.
	Namespaces   map[string]uint64 `json:"namespaces"`
	UID          int               `json:"uid"`
	GID          int               `json:"gid"`
	CapEff       string            `json:"cap_eff"`
	CapBnd       string            `json:"cap_bnd"`
	CapPrm       string            `json:"cap_prm"`
	NoNewPrivs   bool              `json:"no_new_privs"`
	SeccompMode  int               `json:"seccomp_mode"`
	SeccompSHA   string            `json:"seccomp_sha256,omitempty"`
	LandlockABI  int               `json:"landlock_abi"`
	Cgroup       string            `json:"cgroup,omitempty"`
	LimitsBy     string            `json:"limits_by"`
	Rlimits      map[string]uint64 `json:"rlimits"`
	HelperSHA    string            `json:"helper_sha256"`
	ArgumentsSHA string            `json:"arguments_sha256"`
}

// Egress is what the call could and did reach.
type Egress struct {
	Mode     string       `json:"mode"`
	Allowed  []string     `json:"allowed"`
	Observed []Connection `json:"observed"`
}

// Connection is one observed connection.
type Connection struct {
	Host     string `json:"host"`
	Port     int    `json:"port"`
	Address  string `json:"address"`
	BytesOut int64  `json:"bytes_out"`
	BytesIn  int64  `json:"bytes_in"`
	Verdict  string `json:"verdict"`
}

// Outputs are digests over everything the tool wrote, kept or not.
type Outputs struct {
	StdoutSHA256 string   `json:"stdout_sha256,omitempty"`
	StderrSHA256 string   `json:"stderr_sha256,omitempty"`
	StdoutBytes  int64    `json:"stdout_bytes"`
	StderrBytes  int64    `json:"stderr_bytes"`
	Truncated    bool     `json:"truncated"`
	Redactions   []string `json:"redactions,omitempty"`
}

// FileChange is one file that a call wrote.
type FileChange struct {
	Workspace string `json:"workspace"`
	Path      string `json:"path"`
	// Was and Is are SHA-256 digests; "" means the file did not exist.
	Was string `json:"was"`
	Is  string `json:"is"`
}

// Usage is what the call consumed.
type Usage struct {
	Wall       time.Duration `json:"wall_ns"`
	CPU        time.Duration `json:"cpu_ns"`
	PeakMemory int64         `json:"peak_memory_bytes"`
	Processes  int           `json:"processes,omitempty"`
}

// Call is a decided call on its way into an executor.
type Call struct {
	Proposal Proposal
	Plan     Plan
	// Output receives provisional chunks while the tool runs; it may be nil.
	Output func(stream string, chunk []byte)
}
