// Package sandbox defines the types of isolation: the program to run, its limits, and the report
// of the run. The security boundary is the kernel, as configured by the backends in the
// subdirectories; exec/program/command checks command lines before the start.
//
// Files such as .env are not masked in a workspace. A mask by bubblewrap follows links of the
// workspace to the host (CVE-2026-87766), and a mask in the copy would look like a deletion at the
// commit. A secret by placeholder is safer than a file.
package sandbox

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/workspace/overlay"
)

// Quota names a limit of a run.
type Quota = string

// The quotas.
const (
	QuotaCPU       Quota = "cpu"
	QuotaMemory    Quota = "memory"
	QuotaOutput    Quota = "output"
	QuotaFileSize  Quota = "file_size"
	QuotaProcesses Quota = "processes"
	// QuotaDisk is the amount of data written to the copy of the workspace.
	QuotaDisk Quota = "disk"
	// The limits below are never the quota of a report. QuotaWall is Report.TimedOut. QuotaFiles,
	// the number of files in the copy, is reported as QuotaDisk.
	QuotaWall      Quota = "wall"
	QuotaFiles     Quota = "files"
	QuotaOpenFiles Quota = "open_files"
	QuotaTmp       Quota = "tmp"
)

// Tier is the class of the mechanism. TierA runs WebAssembly guests. TierB puts limits and filters
// of the operating system around an ordinary process; TierC gives the program a separate root
// directory.
type Tier string

// The tiers.
const (
	TierA Tier = "a"
	TierB Tier = "b"
	TierC Tier = "c"
)

// Isolation is a rung of the ladder of isolation mechanisms on Linux, best first.
type Isolation string

// The rungs. The macOS and Windows backends have one rung each.
const (
	// Full is bubblewrap with all namespaces, Landlock, seccomp and limits.
	Full Isolation = "full"
	// UserNamespaces is Tier B with separate network, pid and IPC namespaces.
	UserNamespaces Isolation = "user_namespaces"
	// Landlocked is Tier B without namespaces: Landlock, seccomp and limits.
	Landlocked Isolation = "landlock"
	Seatbelt   Isolation = "seatbelt"
	JobObject  Isolation = "job_object"
)

// WorkspaceMode is the access of a program to its workspace.
type WorkspaceMode string

// The modes.
const (
	// ReadOnly is the default.
	ReadOnly WorkspaceMode = "read_only"
	// CopyOnWrite lets the program write to a layer that is discarded unless it is committed.
	CopyOnWrite WorkspaceMode = "copy_on_write"
	// Direct lets the program write to the workspace itself; changes are not undone. Existing
	// protected paths are pinned, and new ones are moved out of the workspace after the run.
	// Until then another program may read them.
	Direct WorkspaceMode = "direct"
)

// Cache is a directory that is kept between the runs of one workspace, such as the cache of a
// build tool, and mounted at CacheMount/Name.
type Cache struct {
	// Name is the name of the tool: go, npm, pip, cargo.
	Name string
	// Dir is absolute and belongs to the daemon.
	Dir string
	// Env contains name=value pairs that point the tool to it.
	Env []string
}

// CacheMount is the parent directory of the caches in the sandbox.
const CacheMount = "/cache"

// Spec specifies one program to run. Its zero value has no network, no writable path, no
// environment and small limits, and is refused because it has no program.
type Spec struct {
	// Argv is the command line; Argv[0] is the name as the caller wrote it.
	Argv []string
	// Executable is the resolved program. It is opened and hashed again at the start; different
	// bytes result in reason.BindingMismatch.
	Executable tool.Executable
	// WorkspaceRoot is absolute, exists and contains no symbolic link.
	WorkspaceRoot string
	// WorkspaceName is the declared name.
	WorkspaceName string
	Workspace     WorkspaceMode
	// HostPath makes bubblewrap create a link at WorkspaceRoot to the workspace: git of a linked
	// worktree uses that path. A link has no permissions of its own. The path is disclosed only to
	// calls in a repository with worktrees, whose files contain it.
	HostPath bool
	// Protected are additional patterns of protected paths (overlay.Config).
	Protected []string
	// Operands are workspace files that the program reads with the hashed bytes in a CopyOnWrite
	// run, regardless of later changes. Different bytes at the start result in
	// reason.BindingMismatch.
	Operands []tool.Operand
	Caches   []Cache
	// Toolchains are mounted read-only, and their programs are in PATH.
	Toolchains []command.Toolchain
	// Author is the default author of git commits; it is supported on Linux.
	Author command.Author
	// Cwd is relative to the workspace; "" is its root.
	Cwd string
	// Env contains name=value pairs in addition to PATH, HOME, LANG and TERM.
	Env []string
	// Stdin is the standard input of the program; nil is /dev/null.
	Stdin []byte
	// Session makes the run a session; Stdin is nil then.
	Session *Session `json:"-"`
	Limits  Limits
	Egress  egress.Mode
	// Network contains the hosts that a run in mode egress.Strict may reach. nil means no hosts and
	// no name service; a Reach without hosts means that the name service refuses and records every
	// name. In other modes it must be nil.
	Network *egress.Reach
	// Required are layers without which the program must not run, in addition to those that the
	// backend itself requires.
	Required []string
	// Owner is the principal on whose behalf the program runs; a prepared sandbox is never passed
	// to another principal.
	Owner string
	// Injected are secrets that the program receives as plain values. Scrub removes their values
	// from the output before anyone can read it.
	Injected []Injected                `json:"-"`
	Scrub    func(io.Reader) io.Reader `json:"-"`
	// Output receives provisional chunks from "stdout" and "stderr", one at a time; it may be
	// nil. It must not keep a chunk.
	Output func(stream string, chunk []byte) `json:"-"`
}

// Stream is the output of one descriptor. If it was not truncated, Head contains everything.
type Stream struct {
	Head []byte
	Tail []byte
	// Total is the size in bytes, including dropped bytes.
	Total int64
	// SHA256 is "sha256:<hex>" over all received bytes, KeptSHA256 over Head and Tail.
	SHA256     string
	KeptSHA256 string
	// Truncated is true if bytes between Head and Tail are missing.
	Truncated bool
}

// Report is the result of a run of a program or of a WebAssembly guest. A non-zero exit code is a
// result, not an error.
type Report struct {
	// ExitCode is nil if the sandbox stopped the program. A program ended by signal N has code
	// 128+N and its name in Signal.
	ExitCode *int
	Signal   string
	TimedOut bool
	// Quota names the limit that stopped the run, "" for none.
	Quota  Quota
	Stdout Stream
	Stderr Stream
	Usage  tool.Usage
	// Limits is the use of every limit (LimitUses).
	Limits []tool.LimitUse
	// Grants are the uses of a guest's grants that its worker counted.
	Grants []tool.GrantUse
	// Layer contains the writes of a CopyOnWrite run, nil for other modes and for programs that
	// never started. The caller closes it, and must commit it to change the workspace.
	Layer *overlay.Layer
	// Unpinned are the operands that were too large to be kept, or could not be written to the
	// copy. The program read the files themselves, so only hashing them again after the run shows
	// whether they still had the approved bytes.
	Unpinned []string
	// Quarantined are protected names that a Direct run created and that were moved out of the
	// workspace.
	Quarantined []string
	// Violations are the first denied system calls that the filter reports; ViolationsMissed
	// counts the others.
	Violations       []tool.Violation
	ViolationsMissed int
	// Refusals are the kinds of denied system calls that ordinary programs make too;
	// RefusalsMissed counts calls of other kinds.
	Refusals       []tool.Refusal
	RefusalsMissed int
	// Connections are the connection attempts of the program, in order; ConnectionsMissed counts
	// attempts beyond the limit of the list.
	Connections       []tool.Connection
	ConnectionsMissed int
	Tier              Tier
	Rung              Isolation
	// Isolation is the isolation verified from inside before the program started.
	Isolation tool.Isolation
	// Requested, Applied and Downgrades are layers by name; Applied contains only the proved
	// ones.
	Requested  []string
	Applied    []string
	Downgrades []string
	// Backend is the mechanism and its version, "bubblewrap 0.8.0".
	Backend  string
	Started  time.Time
	Finished time.Time
}

// Status contains the capabilities of a backend on this machine, found by trial.
type Status struct {
	Available bool
	Backend   string
	// Requested and Layers are the requested and the proved layers of a probe run.
	Requested []string
	Layers    []string
	Tier      Tier
	Rung      Isolation
	// Limits is the level of the ladder: "cgroup_v2", "cgroup_v1", "rlimit".
	Limits string
	// AtOnce is the number of runs that each get a part of palyrad's resources, if no common
	// limit applies to all of them; otherwise 0.
	AtOnce int
	// Tight is a warning that programs at their limits do not fit next to palyrad, "" if they do
	// (Room.Tight).
	Tight       string
	LandlockABI int
	// Passing is true if the sandbox of the probe could not be built for a passing reason (Passing).
	Passing bool
	// Problem and Remedy are the missing feature and the next step. Layer and File name the layer
	// that is not in force and the file that causes it, if they are known.
	Problem string
	Remedy  string
	Layer   string
	File    string
}

// The fields of an error that name the failed layer and file.
const (
	fieldLayer = "layer"
	fieldFile  = "file"
)

// Unbuilt returns the error for a sandbox that differs from the requested one: layer is not in
// force, and file is the cause, "" if unknown.
func Unbuilt(layer, file, format string, args ...any) *reason.Error {
	e := reason.Errorf(reason.SandboxUnavailable, format, args...).WithField(fieldLayer, layer)
	if file != "" {
		e = e.WithField(fieldFile, file)
	}
	return e
}

// Tried returns s with the result of a probe run: the proved layers, or the reason of the failure
// and its remedy.
func (s Status) Tried(r Report, err error) Status {
	if err != nil {
		var refused *reason.Error
		if err = r.Explain(err); !errors.As(err, &refused) {
			refused = reason.Errorf(reason.SandboxUnavailable, "%w", err)
		}
		s.Passing = Passing(err)
		s.Problem, s.Remedy = refused.Message, refused.NextStep()
		s.Layer, s.File = refused.Fields[fieldLayer], refused.Fields[fieldFile]
		return s
	}
	s.Available, s.Requested, s.Layers = true, r.Requested, r.Applied
	return s
}

// Examination is the result of a live probe of one layer. The probe tries the forbidden action
// twice. Denied is true if the action failed with the layer. Control is true if it succeeded
// with only this layer omitted. The layer is in force if both are true; a probe that fails in
// both cases proves nothing.
type Examination struct {
	Layer   string
	Denied  bool
	Control bool
	// Absent is true for a layer that this machine does not have. It is not tried, because a
	// missing feature is not a weakness. Problem contains the reason.
	Absent bool
	// Detail describes the attempt and its result.
	Detail string
	// Problem and Remedy are set if the layer is not in force, or if that is unknown.
	Problem string
	Remedy  string
}

// Judged adds the problem if the layer was not proved; failed is the error of an attempt that
// could not be completed.
func (e Examination) Judged(failed error, remedy string) Examination {
	switch {
	case failed != nil:
		e.Problem, e.Remedy = failed.Error(), remedy
	case !e.Denied || !e.Control:
		e.Problem, e.Remedy = "it was not proved to be in force", remedy
	}
	return e
}

// Runner runs programs in isolation.
//
// Run returns a *reason.Error if no program ran: SandboxDisabled, PlatformUnknown,
// InvalidInput, ExecutableDenied, InlineCode, WorkspaceScope, EgressDenied, BindingMismatch,
// SpawnFailed, SandboxUnavailable. It returns a report together with reason.Cancelled if ctx
// was cancelled while the program ran. It returns a report together with SandboxUnavailable if
// the program was stopped because the connection to its hosts failed. Deadlines and quotas are
// in the report.
type Runner interface {
	Run(ctx context.Context, s Spec) (Report, error)
	Probe(ctx context.Context) Status
	// Examine probes every layer individually; it takes about a second.
	Examine(ctx context.Context) []Examination
}

// GitConfig returns the git configuration of a run in addition to its repository's, "" for
// none.
func (s Spec) GitConfig() string {
	config := s.Author.GitConfig()
	if slices.ContainsFunc(s.Toolchains, func(t command.Toolchain) bool { return t.Git }) {
		config += "[safe]\n\tdirectory = *\n"
	}
	return config
}
