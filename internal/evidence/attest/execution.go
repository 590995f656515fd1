package attest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	spb "github.com/in-toto/attestation/go/v1"
	"github.com/oklog/ulid/v2"

	"palyra/internal/core/tool"
)

// Execution is the input of a notary for one decided call.
type Execution struct {
	// AttestationID and ProposalID are ULIDs.
	AttestationID, ProposalID, DecisionID string
	// ApprovalID and GrantID are "" if policy alone decided.
	ApprovalID, GrantID string
	Session, Run        string
	// Principal and OnBehalfOf are written "kind:name".
	Principal, OnBehalfOf string
	Tool                  string
	// The digests are "sha256:" and hex.
	ToolDefinitionDigest, CallDigest, ArgumentsDigest string
	PolicyVersion, SnapshotDigest                     string
	// Determining are the ids of the policies that determined the verdict.
	Determining []string
	Operands    []tool.Operand
	Executable  tool.Executable
	// UnboundArguments counts the arguments that look like paths and are not operands.
	UnboundArguments int
	// Secrets are names of leases.
	Secrets []string
	// Journal is the durable head of the journal at the time of the proposal; nil if unknown.
	Journal *Journal
	// ResultNotKept is true if the result cannot be stored.
	ResultNotKept bool
	// A zero time means that the step did not happen.
	ProposedAt, DecidedAt, ApprovedAt time.Time
	Report                            tool.Report
}

// statement builds the statement of x as attested at the given time.
func (x Execution) statement(gateway string, at time.Time) (Statement, error) {
	if err := x.check(); err != nil {
		return Statement{}, err
	}
	x.Report.Files = lastOfEach(x.Report.Files)
	p := Predicate{
		AttestationID: x.AttestationID,
		Gateway:       gateway,
		Invocation:    x.invocation(),
		Policy:        Policy{Version: x.PolicyVersion, SnapshotDigest: x.SnapshotDigest, Determining: list(x.Determining)},
		Executor:      x.Report.Executor,
		Isolation:     isolation(x.Report.Isolation),
		Egress:        egress(x.Report.Egress),
		Inputs:        x.inputs(),
		Outputs:       outputs(x.Report),
		Changes:       changes(x.Report.Changes), Violations: violations(x.Report),
		Claim:   claim(x.Report.Claim),
		Grants:  x.Report.Grants,
		Secrets: list(x.Secrets),
		Journal: x.Journal,
		Result: Result{
			Outcome: string(x.Report.Outcome), Reason: x.Report.Reason, ExitCode: x.Report.ExitCode,
			Signal: x.Report.Signal, TimedOut: x.Report.Outcome == tool.TimedOut,
		},
		Usage: Usage{
			WallNS: int64(x.Report.Usage.Wall), CPUNS: int64(x.Report.Usage.CPU),
			PeakMemoryBytes: x.Report.Usage.PeakMemory, Processes: x.Report.Usage.Processes, FuelReported: x.Report.Usage.Fuel,
		},
		Limits: x.Report.Limits,
		Times: Times{
			ProposedAt: utc(x.ProposedAt), DecidedAt: utc(x.DecidedAt), ApprovedAt: utc(x.ApprovedAt),
			StartedAt: utc(x.Report.StartedAt), FinishedAt: utc(x.Report.FinishedAt), AttestedAt: utc(at),
		},
	}
	p.ExecutionSHA256 = p.Outputs.ResultSHA256
	p.Outputs.ResultNotKept = x.ResultNotKept
	p.SandboxEnforcement, p.Enforcement = enforcement(x.Report)
	s := Statement{Type: spb.StatementTypeUri, PredicateType: PredicateType, Predicate: p}
	s.Subject = subjects(p)
	return s, s.check()
}

// check refuses an execution without an outcome, or without the ids and digests that identify it
// and its call.
func (x Execution) check() error {
	for name, id := range map[string]string{"attestation id": x.AttestationID, "proposal id": x.ProposalID} {
		if _, err := ulid.ParseStrict(id); err != nil {
			return fmt.Errorf("%s %q is not a ULID", name, id)
		}
	}
	if x.Report.Outcome == "" {
		return errors.New("the report has no outcome")
	}
	for name, d := range map[string]string{
		"call": x.CallDigest, "tool definition": x.ToolDefinitionDigest,
		"arguments": x.ArgumentsDigest, "policy snapshot": x.SnapshotDigest,
	} {
		if !isDigest(d) {
			return fmt.Errorf("digest of the %s %q is not \"sha256:\" and 64 hex digits", name, d)
		}
	}
	return nil
}

func (x Execution) invocation() Invocation {
	return Invocation{
		ProposalID: x.ProposalID, DecisionID: x.DecisionID, ApprovalID: x.ApprovalID, GrantID: x.GrantID,
		Session: x.Session, Run: x.Run, Principal: x.Principal, OnBehalfOf: x.OnBehalfOf,
		Tool: x.Tool, ToolDefinitionDigest: x.ToolDefinitionDigest, CallDigest: x.CallDigest,
	}
}

func (x Execution) inputs() Inputs {
	in := Inputs{ArgumentsDigest: x.ArgumentsDigest, Files: make([]File, 0, len(x.Operands)), UnboundArguments: x.UnboundArguments}
	if x.Executable != (tool.Executable{}) {
		in.Executable = &File{Path: x.Executable.Path, SHA256: bare(x.Executable.SHA256)}
	}
	for _, o := range x.Operands {
		in.Files = append(in.Files, File{Path: o.Path, SHA256: bare(o.SHA256)})
	}
	return in
}

func outputs(r tool.Report) Outputs {
	sum := sha256.Sum256(r.Result)
	out := Outputs{
		StdoutSHA256: bare(r.Outputs.StdoutSHA256), StderrSHA256: bare(r.Outputs.StderrSHA256),
		StdoutKeptSHA256: bare(r.Outputs.StdoutKeptSHA256), StderrKeptSHA256: bare(r.Outputs.StderrKeptSHA256),
		StdoutBytes: r.Outputs.StdoutBytes, StderrBytes: r.Outputs.StderrBytes,
		ResultSHA256: hex.EncodeToString(sum[:]), ResultBytes: int64(len(r.Result)),
		Truncated: r.Outputs.Truncated, Redactions: list(r.Outputs.Redactions),
		Files: make([]FileChange, 0, len(r.Files)),
	}
	for _, f := range r.Files {
		out.Files = append(out.Files, FileChange{Workspace: f.Workspace, Path: f.Path, Was: bare(f.Was), Is: bare(f.Is)})
	}
	return out
}

// lastOfEach merges the changes of a file that a call wrote more than once: it keeps the digest
// before the first write and the digest after the last one. Each subject then has one digest.
func lastOfEach(files []tool.FileChange) []tool.FileChange {
	kept := make([]tool.FileChange, 0, len(files))
	for _, f := range files {
		i := slices.IndexFunc(kept, func(k tool.FileChange) bool { return k.Workspace == f.Workspace && k.Path == f.Path })
		if i < 0 {
			kept = append(kept, f)
			continue
		}
		kept[i].Is = f.Is
	}
	return kept
}

// unrestricted is the egress mode in attestations for the network of the host.
const unrestricted = "unrestricted"

func egress(e tool.Egress) Egress {
	if e.Mode == "none" {
		e.Mode = unrestricted
	}
	e.Allowed, e.Observed = list(e.Allowed), list(e.Observed)
	return e
}

func isolation(i *tool.Isolation) *Isolation {
	if i == nil {
		return nil
	}
	return &Isolation{
		Measured: i.Measured, Namespaces: decimals(i.Namespaces), Rlimits: decimals(i.Rlimits),
		SeccompSHA256: bare(i.SeccompSHA), HelperSHA256: bare(i.HelperSHA),
		ArgumentsSHA256: bare(i.ArgumentsSHA), BackendSHA256: bare(i.BackendSHA),
	}
}

func changes(c *tool.Changes) *Changes {
	if c == nil {
		return nil
	}
	return &Changes{
		State: string(c.State), Workspace: c.Workspace, RootSHA256: bare(c.Root), Added: c.Added, Modified: c.Modified,
		Deleted: c.Deleted, Bytes: c.Bytes, Protected: list(c.Protected), ApprovalID: c.ApprovalID, GrantID: c.GrantID,
		Reason: c.Reason,
	}
}

func claim(c *tool.Claim) *tool.Claim {
	if c == nil {
		return nil
	}
	out := *c
	out.InputSHA256, out.ResponseSHA256 = bare(c.InputSHA256), bare(c.ResponseSHA256)
	return &out
}

// mostViolations bounds the violations that an attestation lists.
const mostViolations = 16

func violations(r tool.Report) *Violations {
	if len(r.Violations) == 0 {
		return nil
	}
	out := &Violations{Count: len(r.Violations) + r.ViolationsMissed}
	for _, v := range r.Violations[:min(len(r.Violations), mostViolations)] {
		out.First = append(out.First, Violation{
			At: utc(v.At), Syscall: v.Syscall, Arguments: list(v.Arguments), Executable: v.Executable, Errno: v.Errno,
		})
	}
	return out
}

// enforcement records every downgrade. In Tiers B and C, layers count as applied only if the
// isolation was read back from inside the sandbox. Otherwise the level is none, and every claimed
// layer is a downgrade.
func enforcement(r tool.Report) (level string, e Enforcement) {
	level = r.Enforcement.Level
	if level == "" {
		level = "none"
	}
	e = Enforcement{
		Requested:  list(r.Enforcement.Requested),
		Applied:    list(r.Enforcement.Applied),
		Downgrades: list(r.Enforcement.Downgrades),
	}
	tier := strings.ToLower(r.Executor.Tier)
	if r.Isolation == nil && (tier == "b" || tier == "c") {
		for _, layer := range e.Applied {
			e.Downgrades = addDowngrade(e.Downgrades, layer, "claimed, not read back")
		}
		e.Applied = []string{}
		level = "none"
	}
	for _, layer := range e.Requested {
		if !slices.Contains(e.Applied, layer) {
			e.Downgrades = addDowngrade(e.Downgrades, layer, "requested, not applied")
		}
	}
	return level, e
}

// addDowngrade adds a line for layer unless a line already begins with its name, which must end the
// line or be followed by ':' or a space.
func addDowngrade(lines []string, layer, why string) []string {
	if namesLayer(lines, layer) {
		return lines
	}
	return append(lines, layer+": "+why)
}

func namesLayer(lines []string, layer string) bool {
	return slices.ContainsFunc(lines, func(line string) bool {
		rest, ok := strings.CutPrefix(line, layer)
		return ok && (rest == "" || rest[0] == ':' || rest[0] == ' ')
	})
}

func subjects(p Predicate) []Subject {
	out := []Subject{{
		Name:   CallSubject + p.Invocation.ProposalID,
		Digest: Digest{SHA256: bare(p.Invocation.CallDigest)},
	}}
	for _, f := range p.Outputs.Files {
		if f.Is != "" {
			out = append(out, Subject{Name: FileSubject + f.Workspace + "/" + f.Path, Digest: Digest{SHA256: f.Is}})
		}
	}
	return out
}

const digestPrefix = "sha256:"

func bare(digest string) string { return strings.TrimPrefix(digest, digestPrefix) }

func isDigest(s string) bool {
	rest, ok := strings.CutPrefix(s, digestPrefix)
	return ok && isHex(rest)
}

func isHex(s string) bool {
	if len(s) != 2*sha256.Size {
		return false
	}
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// list returns a copy that is never nil, so that an empty list is encoded as [].
func list[T any](in []T) []T { return append(make([]T, 0, len(in)), in...) }

func decimals(in map[string]uint64) map[string]string {
	out := make(map[string]string, len(in))
	for k, v := range in {
		out[k] = strconv.FormatUint(v, 10)
		if v == math.MaxUint64 {
			out[k] = "unlimited"
		}
	}
	return out
}

// utc converts a time to UTC without its monotonic reading, which is not part of a record.
func utc(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Round(0)
}
