// Package sandbox is the vocabulary of isolation: what to run, under which
// limits, and what came of it. It also holds the guards that look at a command
// line before anything starts. The guards give an early, clear error and facts
// for policy; the boundary is the kernel, which the backends below this folder
// put in place.
package sandbox

import (
	"context"
	"errors"
	"io"
	"time"

	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/exec/workspace/overlay"
)

// Quota names the limit that ended a run.
type Quota = string

// The quotas.
const (
	QuotaCPU       Quota = "cpu"
	QuotaMemory    Quota = "memory"
	QuotaOutput    Quota = "output"
	QuotaFileSize  Quota = "file_size"
	QuotaProcesses Quota = "processes"
	// QuotaDisk is what a run wrote to its copy of the workspace.
	QuotaDisk Quota = "disk"
)

// WorkspaceMount is where the workspace appears inside.
const WorkspaceMount = "/workspace"

// Home is the home directory inside; it is empty and is lost after the run.
const Home = "/home/tool"

// Tier is the class of the mechanism. TierB puts limits and filters of the
// operating system around an ordinary process; TierC gives the program a root
// directory of its own.
type Tier string

// The tiers.
const (
	TierB Tier = "b"
	TierC Tier = "c"
)

// Isolation is a rung of the ladder of what Linux machines offer, best first.
type Isolation string

// The rungs. The macOS and Windows backends name themselves.
const (
	// Full is bubblewrap with all namespaces, Landlock, seccomp and limits.
	Full Isolation = "full"
	// UserNamespaces is Tier B with network, pid and IPC namespaces of its own.
	UserNamespaces Isolation = "user_namespaces"
	// Landlocked is Tier B without namespaces: Landlock, seccomp and limits.
	Landlocked Isolation = "landlock"
	Seatbelt   Isolation = "seatbelt"
	JobObject  Isolation = "job_object"
)

// WorkspaceMode is how a program gets to see its workspace.
type WorkspaceMode string

// The modes.
const (
	// ReadOnly is the zero value's meaning.
	ReadOnly WorkspaceMode = "read_only"
	// CopyOnWrite lets the program write to a layer that is thrown away
	// unless somebody commits it.
	CopyOnWrite WorkspaceMode = "copy_on_write"
	// Direct lets the program write to the workspace itself; nothing is undone.
	// Protected paths are pinned, and new ones are put aside after the run.
	// Until then another program may read them.
	Direct WorkspaceMode = "direct"
)

// Cache is a directory that is kept between the runs of one workspace, such as
// that of a build tool, and seen inside at CacheMount/Name.
type Cache struct {
	// Name is the tool: go, npm, pip, cargo.
	Name string
	// Dir is absolute and belongs to the daemon.
	Dir string
	// Env holds name=value pairs that point the tool there.
	Env []string
}

// CacheMount is the directory above the caches inside.
const CacheMount = "/cache"

// Spec is one program to run. Its zero value has no network, no writable path,
// no environment and small limits, and is refused for want of a program.
type Spec struct {
	// Argv is the command line; Argv[0] is the name as the caller wrote it.
	Argv []string
	// Executable is the resolved program. It is opened and hashed again at
	// start; other bytes give reason.BindingMismatch.
	Executable tool.Executable
	// WorkspaceRoot is absolute, exists and holds no symbolic link.
	WorkspaceRoot string
	// WorkspaceName is the declared name.
	WorkspaceName string
	Workspace     WorkspaceMode
	// HostPath has bubblewrap link WorkspaceRoot to the workspace: git of a linked worktree looks there.
	HostPath bool
	// Protected are further patterns of protected paths (overlay.Config).
	Protected []string
	// Operands are workspace files whose hashed bytes the program gets to see
	// in a CopyOnWrite run, whatever becomes of the files meanwhile. Other
	// bytes at start give reason.BindingMismatch.
	Operands []tool.Operand
	Caches   []Cache
	// Toolchains are seen read-only, and their programs are in PATH.
	Toolchains []Toolchain
	// Author is whom git names in commits; it takes effect on Linux.
	Author Author
	// Cwd is relative to the workspace; "" is its root.
	Cwd string
	// Env holds name=value pairs in addition to PATH, HOME, LANG and TERM.
	Env []string
	// Stdin is what the program reads; nil is /dev/null.
	Stdin []byte
	// Session makes the run a conversation; Stdin is nil then.
	Session *Session `json:"-"`
	Limits  Limits
	Egress  egress.Mode
	// Network is what a run in mode egress.Strict may reach; nil is nothing. In
	// other modes it must be nil.
	Network *egress.Reach
	// Required are layers without which the program must not run, beyond
	// those that the backend itself insists on.
	Required []string
	// Owner is the principal on whose behalf the program runs; a prepared
	// sandbox is never handed from one to another.
	Owner string
	// Injected are secrets that the program gets as they are, and Scrub takes their
	// values out of what it writes, before anybody sees it.
	Injected []Injected                `json:"-"`
	Scrub    func(io.Reader) io.Reader `json:"-"`
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
	// SHA256 is "sha256:<hex>" over all bytes that were read, KeptSHA256 over
	// Head and Tail.
	SHA256     string
	KeptSHA256 string
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
	// Layer holds what a CopyOnWrite run wrote, nil for other modes and for
	// programs that never started. The caller closes it; nothing reaches the
	// workspace unless the caller commits it.
	Layer *overlay.Layer
	// Unpinned are the operands that were too large to be kept, or could not be
	// written to the copy. The program read the files themselves: only hashing
	// them again after the run shows whether they are still the approved bytes.
	Unpinned []string
	// Quarantined are protected names that a Direct run made and that were
	// put aside.
	Quarantined []string
	// Violations are the first system calls that the filter denied and was
	// asked to report; ViolationsMissed counts the others.
	Violations       []tool.Violation
	ViolationsMissed int
	// Connections are what the program tried to reach, in order;
	// ConnectionsMissed counts those beyond what is listed one by one.
	Connections       []tool.Connection
	ConnectionsMissed int
	Tier              Tier
	Rung              Isolation
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
	Tier      Tier
	Rung      Isolation
	// Limits is the level of the ladder: "cgroup_v2", "cgroup_v1", "rlimit".
	Limits string
	// AtOnce is how many runs are given a part each of what bounds palyrad, where
	// nothing bounds all of them together; else 0.
	AtOnce int
	// Tight says that programs at their limits do not fit beside palyrad, "" when
	// they do (Room.Tight).
	Tight       string
	LandlockABI int
	// Problem and Remedy say what is missing and what to do about it; Layer and File
	// name the layer that did not come into force and the file that is at fault,
	// where one is known.
	Problem string
	Remedy  string
	Layer   string
	File    string
}

// The fields of an error in which a backend names what failed.
const (
	fieldLayer = "layer"
	fieldFile  = "file"
)

// Unbuilt is the error of a sandbox that is not what was asked for: layer did not
// come into force, and file is at fault, "" for none that is known.
func Unbuilt(layer, file, format string, args ...any) *reason.Error {
	e := reason.Errorf(reason.SandboxUnavailable, format, args...).WithField(fieldLayer, layer)
	if file != "" {
		e = e.WithField(fieldFile, file)
	}
	return e
}

// Tried returns s with the outcome of a probe run: the layers that it proved, or
// why it failed and what to do.
func (s Status) Tried(r Report, err error) Status {
	if err != nil {
		var refused *reason.Error
		if !errors.As(err, &refused) {
			refused = reason.Errorf(reason.SandboxUnavailable, "%w", err)
		}
		s.Problem, s.Remedy = refused.Message, refused.NextStep()
		s.Layer, s.File = refused.Fields[fieldLayer], refused.Fields[fieldFile]
		return s
	}
	s.Available, s.Requested, s.Layers = true, r.Requested, r.Applied
	return s
}

// Examination is what a live probe of one layer showed. The probe tries the
// forbidden thing twice. Denied: it failed with the layer. Control: it succeeded
// with this one layer left out. The layer is in force when both are true; a probe
// that fails either way proves nothing.
type Examination struct {
	Layer   string
	Denied  bool
	Control bool
	// Absent is true for a layer that this machine does not have: it is not tried,
	// since what nothing forbids is no hole. Problem says why.
	Absent bool
	// Detail says what was tried and what came of it.
	Detail string
	// Problem and Remedy are set when the layer is not in force, or when that
	// cannot be told.
	Problem string
	Remedy  string
}

// Judged adds what is wrong when the layer was not seen to be in force; failed
// is why an attempt did not come to its end.
func (e Examination) Judged(failed error, remedy string) Examination {
	switch {
	case failed != nil:
		e.Problem, e.Remedy = failed.Error(), remedy
	case !e.Denied || !e.Control:
		e.Problem, e.Remedy = "it was not seen to be in force", remedy
	}
	return e
}

// Runner runs programs in isolation.
//
// Run returns a *reason.Error when nothing ran: SandboxDisabled,
// PlatformUnknown, InvalidInput, ExecutableDenied, InlineCode, WorkspaceScope,
// EgressDenied, BindingMismatch, SpawnFailed, SandboxUnavailable. It returns a
// report together with reason.Cancelled when ctx was cancelled while the
// program ran, and with SandboxUnavailable when the program was stopped because
// the way to its hosts broke down. Deadlines and quotas are in the report.
type Runner interface {
	Run(ctx context.Context, s Spec) (Report, error)
	Probe(ctx context.Context) Status
	// Examine probes every layer by itself; it takes about a second.
	Examine(ctx context.Context) []Examination
}
