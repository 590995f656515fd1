package tool

import (
	"context"
	"encoding/json"
	"time"
)

// Outcome is the outcome of a call.
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

// Report is an executor's report of a call. Isolation holds only values read back from inside.
type Report struct {
	// Edited is set if an approver changed the call before it ran. It MUST precede the result in
	// every response.
	Edited  *Edited `json:"executed_as_edited,omitempty"`
	Outcome Outcome `json:"outcome"`
	// Reason is a reason.Code when the outcome is not succeeded.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	Remedy  string `json:"remedy,omitempty"`
	// Cause is the error behind the reason INTERNAL. It is only for the log.
	Cause error `json:"-"`
	// Result is the canonical JSON that the client receives, byte for byte.
	Result json.RawMessage `json:"-"`

	Executor    ExecutorInfo `json:"executor"`
	Enforcement Enforcement  `json:"enforcement"`
	Isolation   *Isolation   `json:"isolation,omitempty"`
	Egress      Egress       `json:"egress"`
	Outputs     Outputs      `json:"outputs"`
	// Files are the files that the call wrote, with their new digests.
	Files []FileChange `json:"files,omitempty"`
	// Changes is the outcome of the call's writes to its copy of a workspace, nil without a copy.
	Changes *Changes `json:"changes,omitempty"`
	// Violations are the first system calls that the sandbox denied; ViolationsMissed counts the
	// others.
	Violations       []Violation `json:"violations,omitempty"`
	ViolationsMissed int         `json:"violations_missed,omitempty"`
	// Refusals are the first denied system calls and hosts of a program, by kind; RefusalsMissed
	// counts the other attempts.
	Refusals       []Refusal `json:"refusals,omitempty"`
	RefusalsMissed int       `json:"refusals_missed,omitempty"`
	// Grants lists the grants that a guest used, and the operations that it attempted without a
	// grant.
	Grants []GrantUse `json:"grants,omitempty"`
	// Claim is set for calls that an agent ran itself.
	Claim *Claim `json:"claim,omitempty"`

	ExitCode *int   `json:"exit_code,omitempty"`
	Signal   string `json:"signal,omitempty"`
	Usage    Usage  `json:"usage"`
	// Limits are the limits that ended the call or refused something.
	Limits     []LimitUse `json:"limits,omitempty"`
	StartedAt  time.Time  `json:"started_at"`
	FinishedAt time.Time  `json:"finished_at"`
}

// ExecutorInfo names the program that ran the call.
type ExecutorInfo struct {
	Name    Executor `json:"name"`
	Version string   `json:"version"`
	// Tier is "builtin", "a", "b", "c", or "external" for a call that an agent ran itself.
	Tier string `json:"tier"`
	// Backend names the mechanism and its version, "bubblewrap 0.8.0".
	Backend string `json:"backend,omitempty"`
	// Instance identifies a process that also runs other calls, such as the process of an upstream
	// server; "" if it ran only this call. An isolation section then describes that process, read
	// back when it started.
	Instance string `json:"instance,omitempty"`
}

// Enforcement is the requested and the applied isolation level.
type Enforcement struct {
	// Level is none, preflight or strict.
	Level      string   `json:"level"`
	Requested  []string `json:"requested"`
	Applied    []string `json:"applied"`
	Downgrades []string `json:"downgrades"`
}

// Begin returns the report of a call that starts now. It states no sandbox and no hosts.
func Begin(by ExecutorInfo) Report {
	return Report{
		Executor:    by,
		Enforcement: Enforcement{Level: "none", Requested: []string{}, Applied: []string{}, Downgrades: []string{}},
		Egress:      Egress{Mode: "strict", Allowed: []string{}, Observed: []Connection{}},
		StartedAt:   time.Now().UTC(),
	}
}

// Changes is the change set of a copy-on-write run and its outcome.
type Changes struct {
	// State is one of the ChangeStates.
	State ChangeState `json:"state"`
	// Root is the digest of the change set, "sha256:<hex>".
	Root      string   `json:"root"`
	Workspace string   `json:"workspace"`
	Added     int      `json:"added"`
	Modified  int      `json:"modified"`
	Deleted   int      `json:"deleted"`
	Bytes     int64    `json:"bytes"`
	Protected []string `json:"protected,omitempty"`
	// ApprovalID and GrantID identify the answer that allowed the commit.
	ApprovalID string `json:"approval_id,omitempty"`
	GrantID    string `json:"grant_id,omitempty"`
	// Reason and Message explain why a change set was not committed.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// ChangeState is the outcome of a change set.
type ChangeState string

// The states.
const (
	Unchanged  ChangeState = "unchanged" // nothing was changed
	Committed  ChangeState = "committed"
	Discarded  ChangeState = "discarded"  // not allowed, not answered in time, or the run failed
	Conflicted ChangeState = "conflicted" // the workspace was changed meanwhile; nothing was applied
	DryRun     ChangeState = "dry_run"    // the caller requested no commit
)

// Violation is one system call that the sandbox denied. Arguments are the values in registers;
// the memory that they point to is never read.
type Violation struct {
	At      time.Time `json:"at"`
	Syscall string    `json:"syscall"`
	// Arguments are hexadecimal, without trailing zeros.
	Arguments []string `json:"arguments,omitempty"`
	// Executable is the program that made the call, as seen inside.
	Executable string `json:"executable,omitempty"`
	// Errno is the name of the returned error, "EPERM".
	Errno string `json:"errno"`
}

// Refusal is something that the sandbox refused to a program, with the number of attempts.
type Refusal struct {
	// By is seccomp or network.
	By string `json:"by"`
	// Operation is the system call with its meaning, or the host.
	Operation string `json:"operation"`
	// Reason is the errno that the program got, or one of the reasons of package egress.
	Reason string `json:"reason"`
	Count  int    `json:"count"`
}

// GrantUse counts a WebAssembly guest's uses of one grant. palyrad counts, except for the kinds
// clock and random, which the worker counts.
type GrantUse struct {
	// Kind is http, secret, storage, channel, clock or random.
	Kind string `json:"kind"`
	// Name is the name in the manifest of the skill; "" for operations without a handle.
	Name string `json:"name"`
	Uses int    `json:"uses"`
	// Refused counts the operations that had no grant or were refused.
	Refused int `json:"refused,omitempty"`
}

// Isolation is the state that the helper read back from inside the sandbox.
type Isolation struct {
	Measured
	// Namespaces maps a kind (mnt, pid, net, user, ipc, uts, cgroup) to the
	// inode number of the sandbox's namespace.
	Namespaces   map[string]uint64 `json:"namespaces"`
	Rlimits      map[string]uint64 `json:"rlimits"`
	SeccompSHA   string            `json:"seccomp_sha256,omitempty"`
	HelperSHA    string            `json:"helper_sha256"`
	ArgumentsSHA string            `json:"arguments_sha256"`
	// BackendSHA is the digest of the backend's program, such as bubblewrap.
	BackendSHA string `json:"backend_sha256,omitempty"`
}

// Measured is the isolation data common to reports and attestations.
type Measured struct {
	UID         int    `json:"uid"`
	GID         int    `json:"gid"`
	CapEff      string `json:"cap_eff"`
	CapBnd      string `json:"cap_bnd"`
	CapPrm      string `json:"cap_prm"`
	NoNewPrivs  bool   `json:"no_new_privs"`
	SeccompMode int    `json:"seccomp_mode"`
	LandlockABI int    `json:"landlock_abi"`
	Cgroup      string `json:"cgroup,omitempty"`
	LimitsBy    string `json:"limits_by"`
	// Kernel is the kernel release from uname(2).
	Kernel string `json:"kernel,omitempty"`
	// Rung is the isolation level (sandbox.Isolation).
	Rung string `json:"rung,omitempty"`
	// Workspace is the mount mode of the workspace: copy_on_write, direct or read_only.
	Workspace string `json:"workspace,omitempty"`
	// Watched is true if denied system calls were reported while the call ran.
	Watched bool `json:"watched,omitempty"`
	// Ports are the ports on which palyrad accepted the program's connections, to any address of
	// the Captured families (ipv4, ipv6).
	Ports    []int    `json:"ports,omitempty"`
	Captured []string `json:"captured,omitempty"`
	// Prepared is true if the sandbox was built before the call was made.
	Prepared bool `json:"prepared,omitempty"`
}

// Egress lists the hosts that the call could reach and did reach.
type Egress struct {
	Mode     string       `json:"mode"`
	Allowed  []string     `json:"allowed"`
	Observed []Connection `json:"observed"`
	// Missed counts connections that are not listed individually. The last elements of Observed,
	// which have a Count, are their sums.
	Missed int `json:"missed,omitempty"`
}

// Connection is one observed or refused connection.
type Connection struct {
	Host     string `json:"host"`
	Port     int    `json:"port"`
	Address  string `json:"address"`
	BytesOut int64  `json:"bytes_out"`
	BytesIn  int64  `json:"bytes_in"`
	// Verdict is allowed, denied or failed (package egress).
	Verdict string `json:"verdict"`
	// Leg is the path by which the connection of a program reached palyrad: transparent, connect,
	// forward, socks or name. It is "" for a tool of the daemon itself.
	Leg string `json:"leg,omitempty"`
	// Rule is the deciding rule as written.
	Rule string `json:"rule,omitempty"`
	// Reason explains why a connection was denied, failed or aborted, as one of the reasons of
	// package egress.
	Reason string `json:"reason,omitempty"`
	// Requests counts the requests that could be identified.
	Requests int `json:"requests,omitempty"`
	// Count is the number of connections in a sum, 0 for a single one. A sum without a host covers
	// several hosts.
	Count int `json:"count,omitempty"`
	// Started is relative to the start of the call.
	Started  time.Duration `json:"started_ns,omitempty"`
	Duration time.Duration `json:"duration_ns,omitempty"`
}

// Outputs are digests over everything that the tool wrote, kept or not. When a
// stream was truncated, there is one more over the bytes that were kept.
type Outputs struct {
	StdoutSHA256     string   `json:"stdout_sha256,omitempty"`
	StderrSHA256     string   `json:"stderr_sha256,omitempty"`
	StdoutKeptSHA256 string   `json:"stdout_kept_sha256,omitempty"`
	StderrKeptSHA256 string   `json:"stderr_kept_sha256,omitempty"`
	StdoutBytes      int64    `json:"stdout_bytes"`
	StderrBytes      int64    `json:"stderr_bytes"`
	Truncated        bool     `json:"truncated"`
	Redactions       []string `json:"redactions,omitempty"`
}

// FileChange is one file that a call wrote.
type FileChange struct {
	Workspace string `json:"workspace"`
	Path      string `json:"path"`
	// Was and Is are SHA-256 digests; "" means the file did not exist.
	Was string `json:"was"`
	Is  string `json:"is"`
}

// Usage lists the resources consumed by the call.
type Usage struct {
	Wall       time.Duration `json:"wall_ns"`
	CPU        time.Duration `json:"cpu_ns"`
	PeakMemory int64         `json:"peak_memory_bytes"`
	Processes  int           `json:"processes,omitempty"`
	// Fuel is the fuel used by a WebAssembly guest, as its worker reports it.
	Fuel int64 `json:"fuel_reported,omitempty"`
}

// LimitUse is the use of one limit of a program.
type LimitUse struct {
	// Limit is wall, cpu, memory, processes, output, file_size, disk, files, open_files or tmp.
	Limit string `json:"limit"`
	// Unit is ms, bytes or count.
	Unit    string `json:"unit"`
	Allowed int64  `json:"allowed"`
	// Used is the highest measured use, 0 if it was not measured.
	Used int64 `json:"used,omitempty"`
	// Effect is LimitEnded, LimitRefused, LimitReported, or "" if the limit was not reached.
	Effect string `json:"effect,omitempty"`
	// Refused counts the operations that the kernel refused, if it counts them.
	Refused int64 `json:"refused,omitempty"`
}

// The effects of a limit.
const (
	// LimitEnded means that the program was stopped at the limit.
	LimitEnded = "ended"
	// LimitRefused means that the kernel counted refused operations, and the program continued.
	LimitRefused = "refused"
	// LimitReported means that the program failed and reported an error of this limit. The kernel
	// does not count the refusals of limits per process, so only the program states them.
	LimitReported = "reported"
)

// Shared reports whether the limit of all programs together ended a program that had not reached
// its own limit.
func (u LimitUse) Shared() bool {
	return u.Effect == LimitEnded && u.Used < u.Allowed-u.Allowed/8 && (u.Limit == "memory" || u.Limit == "processes" || u.Limit == "disk")
}

// Call is a decided call on its way into an executor.
type Call struct {
	Proposal Proposal
	Plan     Plan
	// Output receives provisional chunks while the tool runs; it may be nil.
	Output func(stream string, chunk []byte)
	// MayRead reports whether policy allows the call to read a file that it found. It MUST be
	// called before the file is opened. A file that would require an approval may not be read.
	MayRead func(FileAccess) bool `json:"-"`
	// MayDisclose reports whether policy allows the caller to read all of the files without
	// an approval. Tools MUST NOT return details of file content otherwise. A nil function
	// means that nothing may be disclosed.
	MayDisclose func([]FileAccess) bool `json:"-"`
	// Commit requests permission to apply changes to a copy of a workspace. It waits for policy
	// and, if policy requires it, for approvers; the deadline of the call is suspended meanwhile.
	// If it is nil, no approval is possible and nothing is committed.
	Commit func(context.Context, CommitRequest) (CommitRuling, error) `json:"-"`
	// Peer is the client, for executors that forward messages to it.
	Peer Peer `json:"-"`
	// Pause suspends the deadline of the call until resume is called, while an approval is pending.
	// It may be nil.
	Pause func() (resume func()) `json:"-"`
}

// ReadFile is the tool whose policies decide who may read the content of a file, in any form.
const ReadFile = "fs.read"

// FileAccess is one file that a call found and would read.
type FileAccess struct {
	// Tool and Input are the call that would read only this file, with the tool itself or with
	// fs.read.
	Tool  string
	Input json.RawMessage
	Facts Facts
}

// CommitRequest requests a decision on one change set.
type CommitRequest struct {
	Facts   CommitFacts
	Preview Preview
	// Files are all changes, sorted by path.
	Files []FileChange
}

// CommitFacts are the policy facts of a change set.
type CommitFacts struct {
	Workspace string `json:"workspace"`
	// Root is the digest of the change set, "sha256:<hex>".
	Root     string `json:"root"`
	Added    int    `json:"added"`
	Modified int    `json:"modified"`
	Deleted  int    `json:"deleted"`
	Bytes    int64  `json:"bytes"`
	// Protected are the paths of the protected changes. Classes are the reasons for the
	// protection. Both are sorted and without duplicates.
	Protected []string `json:"protected"`
	Classes   []string `json:"classes"`
	// Top are the top-level directories of the workspace that contain changes, "." for files in
	// the workspace directory itself. A name that case folding changes is also included in its
	// folded form.
	Top []string `json:"top,omitempty"`
	// ExitCode is the program's exit code; -1 if it was stopped.
	ExitCode int `json:"exit_code"`
}

// CommitRuling is the decision on a CommitRequest. Reason is a reason.Code if it is not
// allowed.
type CommitRuling struct {
	Allowed    bool
	ApprovalID string
	GrantID    string
	Reason     string
	Message    string
	Remedy     string
}
