package attest

import (
	"time"

	"palyra/internal/core/tool"
)

// Names of the format.
const (
	// PredicateType identifies the predicate; its specification is
	// docs/format/attestation.md.
	PredicateType = "https://palyra.dev/attestation/tool-execution/v1"
	// PayloadType is the DSSE payload type of an in-toto statement.
	PayloadType = "application/vnd.in-toto+json"
	// CallSubject comes before the proposal's ULID in the first subject's name.
	CallSubject = "palyra:tool-call/"
	// FileSubject comes before "<workspace>/<path>" in an output file's name.
	FileSubject = "palyra:file/"
)

// Statement is an in-toto Statement v1 with the predicate of this package.
type Statement struct {
	Type          string    `json:"_type"`
	Subject       []Subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     Predicate `json:"predicate"`
}

// Subject is an in-toto resource descriptor of which only name and digest are
// used.
type Subject struct {
	Name   string `json:"name"`
	Digest Digest `json:"digest"`
}

// Digest is an in-toto digest set with exactly one member.
type Digest struct {
	// SHA256 is lower-case hex.
	SHA256 string `json:"sha256"`
}

// Predicate says what ran. Members named "...sha256" and members of Digest
// are lower-case hex; members named "...digest" are "sha256:" and hex.
type Predicate struct {
	AttestationID string     `json:"attestation_id"`
	Gateway       string     `json:"gateway"`
	Invocation    Invocation `json:"invocation"`
	Policy        Policy     `json:"policy"`
	Executor      Executor   `json:"executor"`
	// SandboxEnforcement is one word: none, preflight, strict.
	SandboxEnforcement string      `json:"sandbox_enforcement"`
	Enforcement        Enforcement `json:"enforcement"`
	// Isolation is nil when nothing was read back from inside.
	Isolation *Isolation `json:"isolation,omitempty"`
	Egress    Egress     `json:"egress"`
	Inputs    Inputs     `json:"inputs"`
	Outputs   Outputs    `json:"outputs"`
	// Changes is nil when the call had no copy of a workspace to write to.
	Changes *Changes `json:"changes,omitempty"`
	// Violations is nil when the sandbox denied nothing.
	Violations *Violations `json:"violations,omitempty"`
	// Claim is set for a call that an agent ran itself: it was decided here and executed
	// elsewhere, and this is the agent's word alone.
	Claim *tool.Claim `json:"claim,omitempty"`
	// Grants are what a WebAssembly guest used of what it was granted, and what it tried to
	// use and did not get; nil for other calls.
	Grants []GrantUse `json:"grants,omitempty"`
	// Secrets are the names of those that the call could use, never their values.
	Secrets []string `json:"secrets"`
	// Journal is the journal as it was known to be durable when the call was
	// proposed; nil in statements of older gateways.
	Journal *Journal `json:"journal,omitempty"`
	Result  Result   `json:"result"`
	Usage   Usage    `json:"usage"`
	Times   Times    `json:"times"`
	// ExecutionSHA256 covers exactly the result bytes that the client got.
	ExecutionSHA256 string `json:"execution_sha256"`
}

// What a statement says in the words of the report is the report's type. The
// other types differ from the report's: in digests, which are hex here and
// "sha256:" and hex there, and in numbers that may not fit a double.
type (
	// Executor is what ran the call.
	Executor = tool.ExecutorInfo
	// Egress is what the call could and did reach. Mode is strict, preflight, or
	// unrestricted for the network of the host, which a report calls none.
	Egress = tool.Egress
	// Connection is one observed connection; sizes are in bytes.
	Connection = tool.Connection
	// GrantUse is how often a guest used one grant.
	GrantUse = tool.GrantUse
)

// Journal is a place in the journal: how many events it had, and the hash of the
// last of them. With 0 events the hash is all zeros.
type Journal struct {
	Size       int64  `json:"size"`
	HeadSHA256 string `json:"head_sha256"`
}

// Invocation is the call and what allowed it.
type Invocation struct {
	ProposalID string `json:"proposal_id"`
	DecisionID string `json:"decision_id"`
	// ApprovalID and GrantID are "" when policy alone decided.
	ApprovalID           string `json:"approval_id,omitempty"`
	GrantID              string `json:"grant_id,omitempty"`
	Session              string `json:"session"`
	Run                  string `json:"run"`
	Principal            string `json:"principal"`
	OnBehalfOf           string `json:"on_behalf_of"`
	Tool                 string `json:"tool"`
	ToolDefinitionDigest string `json:"tool_definition_digest"`
	CallDigest           string `json:"call_digest"`
}

// Policy is what decided: version, configuration and determining policies.
type Policy struct {
	Version        string   `json:"version"`
	SnapshotDigest string   `json:"snapshot_digest"`
	Determining    []string `json:"determining"`
}

// Enforcement compares the layers asked for with the layers reached. Each
// layer that was asked for and is not in Applied has a line in Downgrades.
type Enforcement struct {
	Requested  []string `json:"requested"`
	Applied    []string `json:"applied"`
	Downgrades []string `json:"downgrades"`
}

// Isolation is what was read back from inside the sandbox. Numbers that may
// not fit a double (inode numbers, rlimits) are decimal strings; an unlimited
// rlimit is "unlimited".
type Isolation struct {
	tool.Measured
	Namespaces      map[string]string `json:"namespaces"`
	Rlimits         map[string]string `json:"rlimits"`
	SeccompSHA256   string            `json:"seccomp_sha256,omitempty"`
	HelperSHA256    string            `json:"helper_sha256"`
	ArgumentsSHA256 string            `json:"arguments_sha256"`
	// BackendSHA256 is of the backend's program.
	BackendSHA256 string `json:"backend_sha256,omitempty"`
}

// Changes is what became of what the call wrote to its copy of a workspace.
type Changes struct {
	// State is unchanged, committed, discarded, conflicted or dry_run.
	State     string `json:"state"`
	Workspace string `json:"workspace"`
	// RootSHA256 is the digest of the change set, "" when nothing changed.
	RootSHA256 string `json:"root_sha256,omitempty"`
	Added      int    `json:"added"`
	Modified   int    `json:"modified"`
	Deleted    int    `json:"deleted"`
	Bytes      int64  `json:"bytes"`
	// Protected are the protected paths among them.
	Protected []string `json:"protected"`
	// ApprovalID and GrantID are "" when policy alone let them through; Reason
	// is that of changes that were not committed.
	ApprovalID string `json:"approval_id,omitempty"`
	GrantID    string `json:"grant_id,omitempty"`
	Reason     string `json:"reason,omitempty"`
}

// Violations are the system calls that the sandbox denied.
type Violations struct {
	// Count includes those that First has no room for.
	Count int         `json:"count"`
	First []Violation `json:"first"`
}

// Violation is one system call that was denied. Arguments are hexadecimal and
// those in registers.
type Violation struct {
	At         time.Time `json:"at"`
	Syscall    string    `json:"syscall"`
	Arguments  []string  `json:"arguments"`
	Executable string    `json:"executable"`
	Errno      string    `json:"errno"`
}

// Inputs are the digests of what went in.
type Inputs struct {
	ArgumentsDigest string `json:"arguments_digest"`
	// Executable is nil for a call that starts no program.
	Executable *File `json:"executable,omitempty"`
	// Files are the bound operands.
	Files []File `json:"files"`
	// UnboundArguments counts the arguments that look like paths and led to no
	// file that could be bound. Older gateways do not state it.
	UnboundArguments int `json:"unbound_arguments,omitempty"`
}

// File is a file by path and content.
type File struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
}

// Outputs are the digests of what came out; sizes are in bytes and count all
// that the tool wrote, kept or not.
type Outputs struct {
	StdoutSHA256 string `json:"stdout_sha256,omitempty"`
	StderrSHA256 string `json:"stderr_sha256,omitempty"`
	// These are over the bytes that were kept of a stream when some were left
	// out: what the result holds of it, before anything was redacted.
	StdoutKeptSHA256 string `json:"stdout_kept_sha256,omitempty"`
	StderrKeptSHA256 string `json:"stderr_kept_sha256,omitempty"`
	StdoutBytes      int64  `json:"stdout_bytes"`
	StderrBytes      int64  `json:"stderr_bytes"`
	ResultSHA256     string `json:"result_sha256"`
	ResultBytes      int64  `json:"result_bytes"`
	// ResultNotKept is true when the gateway could not store the result: nobody
	// but the client has it, and the digest is what there is.
	ResultNotKept bool     `json:"result_not_kept,omitempty"`
	Truncated     bool     `json:"truncated"`
	Redactions    []string `json:"redactions"`
	// Files are the files that the call wrote or removed.
	Files []FileChange `json:"files"`
}

// FileChange is one written file: its digests before and after, in hex; ""
// means that there was or is no file.
type FileChange struct {
	Workspace string `json:"workspace"`
	Path      string `json:"path"`
	Was       string `json:"was"`
	Is        string `json:"is"`
}

// Result is how the call ended. The text of an error is not in it: the result
// digest covers what the client was told.
type Result struct {
	Outcome  string `json:"outcome"`
	Reason   string `json:"reason,omitempty"`
	ExitCode *int   `json:"exit_code,omitempty"`
	Signal   string `json:"signal,omitempty"`
	TimedOut bool   `json:"timed_out"`
}

// Usage is what the call consumed.
type Usage struct {
	// WallNS and CPUNS are nanoseconds.
	WallNS          int64 `json:"wall_ns"`
	CPUNS           int64 `json:"cpu_ns"`
	PeakMemoryBytes int64 `json:"peak_memory_bytes"`
	Processes       int   `json:"processes"`
	// FuelReported is what a WebAssembly guest used. Its worker says so, which is not
	// trusted; 0 for other calls.
	FuelReported int64 `json:"fuel_reported,omitempty"`
}

// Times are in UTC. A step that did not happen has no time.
type Times struct {
	ProposedAt time.Time `json:"proposed_at,omitzero"`
	DecidedAt  time.Time `json:"decided_at,omitzero"`
	ApprovedAt time.Time `json:"approved_at,omitzero"`
	StartedAt  time.Time `json:"started_at,omitzero"`
	FinishedAt time.Time `json:"finished_at,omitzero"`
	// AttestedAt is when the notary signed; the certificate is judged at it.
	AttestedAt time.Time `json:"attested_at"`
}
