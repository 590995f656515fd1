package attest

import (
	"time"

	"palyra/internal/core/tool"
)

// Identifiers of the format.
const (
	// PredicateType identifies the predicate; its specification is
	// docs/format/attestation.md.
	PredicateType = "https://palyra.dev/attestation/tool-execution/v1"
	// PayloadType is the DSSE payload type of an in-toto statement.
	PayloadType = "application/vnd.in-toto+json"
	// CallSubject is the prefix of the proposal's ULID in the name of the first subject.
	CallSubject = "palyra:tool-call/"
	// FileSubject is the prefix of "<workspace>/<path>" in the name of an output file.
	FileSubject = "palyra:file/"
)

// Statement is an in-toto Statement v1 with the predicate of this package.
type Statement struct {
	Type          string    `json:"_type"`
	Subject       []Subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     Predicate `json:"predicate"`
}

// Subject is an in-toto resource descriptor of which only name and digest are used.
type Subject struct {
	Name   string `json:"name"`
	Digest Digest `json:"digest"`
}

// Digest is an in-toto digest set with exactly one member.
type Digest struct {
	// SHA256 is lower-case hex.
	SHA256 string `json:"sha256"`
}

// Predicate describes the execution. Members named "...sha256" and members of Digest are
// lower-case hex; members named "...digest" are "sha256:" and hex.
type Predicate struct {
	AttestationID string     `json:"attestation_id"`
	Gateway       string     `json:"gateway"`
	Invocation    Invocation `json:"invocation"`
	Policy        Policy     `json:"policy"`
	Executor      Executor   `json:"executor"`
	// SandboxEnforcement is none, preflight or strict.
	SandboxEnforcement string      `json:"sandbox_enforcement"`
	Enforcement        Enforcement `json:"enforcement"`
	// Isolation is nil if no values were read back from inside the sandbox.
	Isolation *Isolation `json:"isolation,omitempty"`
	Egress    Egress     `json:"egress"`
	Inputs    Inputs     `json:"inputs"`
	Outputs   Outputs    `json:"outputs"`
	// Changes is nil for a call without a writable copy of a workspace.
	Changes *Changes `json:"changes,omitempty"`
	// Violations is nil if the sandbox denied nothing.
	Violations *Violations `json:"violations,omitempty"`
	// Claim is set for a call that an agent ran itself: the gateway decided the call and did not
	// execute it, and only the agent vouches for the contents of the claim.
	Claim *tool.Claim `json:"claim,omitempty"`
	// Grants are the grants that a WebAssembly guest used, and its denied accesses; nil for other
	// calls.
	Grants []GrantUse `json:"grants,omitempty"`
	// Secrets are the names of the secrets that the call could use, never their values.
	Secrets []string `json:"secrets"`
	// Journal is the durable head of the journal at the time of the proposal; nil in statements of
	// older gateways.
	Journal *Journal `json:"journal,omitempty"`
	Result  Result   `json:"result"`
	Usage   Usage    `json:"usage"`
	// Limits are the limits that ended the call or refused something; nil if there are none, and in
	// statements of older gateways.
	Limits []LimitUse `json:"limits,omitempty"`
	Times  Times      `json:"times"`
	// ExecutionSHA256 covers exactly the result bytes that the client received.
	ExecutionSHA256 string `json:"execution_sha256"`
}

// Types that are identical in the report. The other types differ from those in the report in
// digests, which are hex here and "sha256:" and hex there, and in numbers that may not fit a
// double.
type (
	// Executor identifies the executor of the call.
	Executor = tool.ExecutorInfo
	// Egress describes the hosts that the call could reach and did reach. Mode is strict, preflight
	// or unrestricted. Unrestricted is the network of the host; a report calls it none.
	Egress = tool.Egress
	// Connection is one observed connection; sizes are in bytes.
	Connection = tool.Connection
	// GrantUse counts a guest's uses of one grant.
	GrantUse = tool.GrantUse
	// LimitUse is the use of one reached limit.
	LimitUse = tool.LimitUse
)

// Journal is a position in the journal: the number of events, and the hash of the last one. For
// 0 events, the hash is all zeros. The proposal also contains it. A verifier compares both, and
// then needs only a bounded window of event hashes for proposals, instead of all hashes until
// the last pending call ends.
type Journal struct {
	Size       int64  `json:"size"`
	HeadSHA256 string `json:"head_sha256"`
}

// Invocation is the call and its authorization.
type Invocation struct {
	ProposalID string `json:"proposal_id"`
	DecisionID string `json:"decision_id"`
	// ApprovalID and GrantID are "" if policy alone decided.
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

// Policy identifies the deciding policy: version, configuration and determining policies.
type Policy struct {
	Version        string   `json:"version"`
	SnapshotDigest string   `json:"snapshot_digest"`
	Determining    []string `json:"determining"`
}

// Enforcement compares the requested layers with the applied ones. Each requested layer that is not
// in Applied has a line in Downgrades.
type Enforcement struct {
	Requested  []string `json:"requested"`
	Applied    []string `json:"applied"`
	Downgrades []string `json:"downgrades"`
}

// Isolation has the values that were read back from inside the sandbox. Numbers that may not
// fit a double (inode numbers, rlimits) are decimal strings; an unlimited rlimit is
// "unlimited".
type Isolation struct {
	tool.Measured
	Namespaces      map[string]string `json:"namespaces"`
	Rlimits         map[string]string `json:"rlimits"`
	SeccompSHA256   string            `json:"seccomp_sha256,omitempty"`
	HelperSHA256    string            `json:"helper_sha256"`
	ArgumentsSHA256 string            `json:"arguments_sha256"`
	// BackendSHA256 is the digest of the backend's program.
	BackendSHA256 string `json:"backend_sha256,omitempty"`
}

// Changes is the outcome of the call's changes to its copy of a workspace.
type Changes struct {
	// State is unchanged, committed, discarded, conflicted or dry_run.
	State     string `json:"state"`
	Workspace string `json:"workspace"`
	// RootSHA256 is the digest of the change set, "" if nothing changed.
	RootSHA256 string `json:"root_sha256,omitempty"`
	Added      int    `json:"added"`
	Modified   int    `json:"modified"`
	Deleted    int    `json:"deleted"`
	Bytes      int64  `json:"bytes"`
	// Protected are the changed paths that are protected.
	Protected []string `json:"protected"`
	// ApprovalID and GrantID are "" if policy alone allowed the changes; Reason is set for
	// changes that were not committed.
	ApprovalID string `json:"approval_id,omitempty"`
	GrantID    string `json:"grant_id,omitempty"`
	Reason     string `json:"reason,omitempty"`
}

// Violations are the system calls that the sandbox denied.
type Violations struct {
	// Count includes the items that do not fit in First.
	Count int         `json:"count"`
	First []Violation `json:"first"`
}

// Violation is one denied system call. Arguments are hexadecimal register values.
type Violation struct {
	At         time.Time `json:"at"`
	Syscall    string    `json:"syscall"`
	Arguments  []string  `json:"arguments"`
	Executable string    `json:"executable"`
	Errno      string    `json:"errno"`
}

// Inputs are the digests of the inputs.
type Inputs struct {
	ArgumentsDigest string `json:"arguments_digest"`
	// Executable is nil for a call that starts no program.
	Executable *File `json:"executable,omitempty"`
	// Files are the bound operands.
	Files []File `json:"files"`
	// UnboundArguments counts the arguments that look like paths but do not name a file that could
	// be bound. Older gateways omit it.
	UnboundArguments int `json:"unbound_arguments,omitempty"`
}

// File is a file by path and content.
type File struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
}

// Outputs are the digests of the outputs; sizes are in bytes and count all written bytes,
// stored or not.
type Outputs struct {
	StdoutSHA256 string `json:"stdout_sha256,omitempty"`
	StderrSHA256 string `json:"stderr_sha256,omitempty"`
	// These cover the stored bytes of a stream if some were omitted: the part in the result,
	// before redaction.
	StdoutKeptSHA256 string `json:"stdout_kept_sha256,omitempty"`
	StderrKeptSHA256 string `json:"stderr_kept_sha256,omitempty"`
	StdoutBytes      int64  `json:"stdout_bytes"`
	StderrBytes      int64  `json:"stderr_bytes"`
	ResultSHA256     string `json:"result_sha256"`
	ResultBytes      int64  `json:"result_bytes"`
	// ResultNotKept is true if the gateway could not store the result: only the client has it,
	// and the gateway only has its digest.
	ResultNotKept bool     `json:"result_not_kept,omitempty"`
	Truncated     bool     `json:"truncated"`
	Redactions    []string `json:"redactions"`
	// Files are the files that the call wrote or removed.
	Files []FileChange `json:"files"`
}

// FileChange is one written file: its digests before and after, in hex; "" means that no file
// existed.
type FileChange struct {
	Workspace string `json:"workspace"`
	Path      string `json:"path"`
	Was       string `json:"was"`
	Is        string `json:"is"`
}

// Result is the outcome of the call. It does not have the text of an error: the result digest
// covers the text that was sent to the client.
type Result struct {
	Outcome  string `json:"outcome"`
	Reason   string `json:"reason,omitempty"`
	ExitCode *int   `json:"exit_code,omitempty"`
	Signal   string `json:"signal,omitempty"`
	TimedOut bool   `json:"timed_out"`
}

// Usage lists the resources consumed by the call.
type Usage struct {
	// WallNS and CPUNS are nanoseconds.
	WallNS          int64 `json:"wall_ns"`
	CPUNS           int64 `json:"cpu_ns"`
	PeakMemoryBytes int64 `json:"peak_memory_bytes"`
	Processes       int   `json:"processes"`
	// FuelReported is the fuel that a WebAssembly guest used according to its worker, which is
	// not trusted; 0 for other calls.
	FuelReported int64 `json:"fuel_reported,omitempty"`
}

// Times are in UTC. A step that did not happen has no time.
type Times struct {
	ProposedAt time.Time `json:"proposed_at,omitzero"`
	DecidedAt  time.Time `json:"decided_at,omitzero"`
	ApprovedAt time.Time `json:"approved_at,omitzero"`
	StartedAt  time.Time `json:"started_at,omitzero"`
	FinishedAt time.Time `json:"finished_at,omitzero"`
	// AttestedAt is the time of the notary's signature. The certificate must be valid at this time.
	AttestedAt time.Time `json:"attested_at"`
}
