// Package sandbox is the vocabulary of isolation: what to run, under which
// limits, and what came of it. It also holds the guards that look at a command
// line before anything starts. The guards give an early, clear error and facts
// for policy; the boundary is the kernel, which the backends below this folder
// put in place.
package sandbox

import (
	"context"
	"time"

	"palyra/internal/egress"
	"palyra/internal/tool"
)

// Strict is the only egress mode that runs so far; without hosts it means
// offline.
const Strict = egress.Strict

// Quota names the limit that ended a run.
type Quota = string

// The quotas.
const (
	QuotaCPU       Quota = "cpu"
	QuotaMemory    Quota = "memory"
	QuotaOutput    Quota = "output"
	QuotaFileSize  Quota = "file_size"
	QuotaProcesses Quota = "processes"
)

// WorkspaceMount is where the workspace appears inside.
const WorkspaceMount = "/workspace"

// Home is the home directory inside; it is empty and is lost after the run.
const Home = "/home/tool"

// Spec is one program to run. Its zero value has no network, no writable path,
// no environment and small limits, and is refused for want of a program.
type Spec struct {
	// Argv is the command line; Argv[0] is the name as the caller wrote it.
	Argv []string
	// Executable is the resolved program. It is opened and hashed again at
	// start; other bytes give reason.BindingMismatch.
	Executable tool.Executable
	// WorkspaceRoot is absolute, exists and holds no symbolic link.
	WorkspaceRoot     string
	WorkspaceReadOnly bool
	// Cwd is relative to the workspace; "" is its root.
	Cwd string
	// Env holds name=value pairs in addition to PATH, HOME, LANG and TERM.
	Env []string
	// Stdin is what the program reads; nil is /dev/null.
	Stdin  []byte
	Limits Limits
	Egress egress.Mode
	// EgressHosts are the host:port pairs a strict run may reach.
	EgressHosts []string
	// Output receives provisional chunks, one at a time, from "stdout" and
	// "stderr"; it may be nil. It must not keep the chunk.
	Output func(stream string, chunk []byte) `json:"-"`
}

// Stream is what came out of one descriptor. When it was not truncated, Head
// holds everything.
type Stream struct {
	Head []byte
	Tail []byte
	// Total is in bytes, kept or not.
	Total int64
	// SHA256 is "sha256:<hex>" over all bytes that were read.
	SHA256 string
	// Truncated is true when bytes between Head and Tail are missing.
	Truncated bool
}

// Report is what a run came to. A non-zero exit is a result, not an error.
type Report struct {
	// ExitCode is nil when the program was stopped by the sandbox. A program
	// ended by signal N has code 128+N and its name in Signal.
	ExitCode *int
	Signal   string
	TimedOut bool
	// Quota names the limit that stopped the run, "" for none.
	Quota  Quota
	Stdout Stream
	Stderr Stream
	Usage  tool.Usage
	// Isolation is what was read back from inside before the program started.
	Isolation tool.Isolation
	// Requested, Applied and Downgrades are layers by name; Applied holds
	// only those that the read-back proves.
	Requested  []string
	Applied    []string
	Downgrades []string
	// Backend is the mechanism and its version, "bubblewrap 0.8.0".
	Backend  string
	Started  time.Time
	Finished time.Time
}

// Status is what a backend can do on this machine, found by trying.
type Status struct {
	Available bool
	Backend   string
	// Requested and Layers are what a probe run asked for and what it proved.
	Requested []string
	Layers    []string
	// Limits is the level of the ladder: "cgroup_v2", "cgroup_v1", "rlimit".
	Limits      string
	LandlockABI int
	// Problem and Remedy say what is missing and what to do about it.
	Problem string
	Remedy  string
}

// Runner runs programs in isolation.
//
// Run returns a *reason.Error when nothing ran: SandboxDisabled,
// PlatformUnknown, InvalidInput, ExecutableDenied, InlineCode, WorkspaceScope,
// EgressDenied, BindingMismatch, SpawnFailed, SandboxUnavailable. It returns a
// report together with reason.Cancelled when ctx was cancelled while the
// program ran. Deadlines and quotas are in the report.
type Runner interface {
	Run(ctx context.Context, s Spec) (Report, error)
	Probe(ctx context.Context) Status
}
