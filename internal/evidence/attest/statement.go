package attest

import (
	"errors"
	"fmt"
	"slices"

	spb "github.com/in-toto/attestation/go/v1"
	"github.com/oklog/ulid/v2"

	"palyra/internal/core/tool"
)

// check verifies that a statement is complete and that its parts agree. The notary calls it before
// it signs, and Verify calls it afterwards, so that no signed statement fails verification.
func (s Statement) check() error {
	if s.Type != spb.StatementTypeUri {
		return fmt.Errorf("statement type is %q, want %q", s.Type, spb.StatementTypeUri)
	}
	if s.PredicateType != PredicateType {
		return fmt.Errorf("predicate type is %q, want %q", s.PredicateType, PredicateType)
	}
	if len(s.Subject) == 0 {
		return errors.New("statement has no subject")
	}
	for _, sub := range s.Subject {
		if !isHex(sub.Digest.SHA256) {
			return fmt.Errorf("subject %q: digest %q is not 64 lower-case hex digits", sub.Name, sub.Digest.SHA256)
		}
	}
	if err := s.Predicate.check(); err != nil {
		return err
	}
	return s.checkSubjects()
}

// checkSubjects compares the subjects with the predicate.
func (s Statement) checkSubjects() error {
	want := subjects(s.Predicate)
	if len(want) != len(s.Subject) {
		return fmt.Errorf("statement has %d subjects, the predicate names %d", len(s.Subject), len(want))
	}
	for i := range want {
		if s.Subject[i] != want[i] {
			return fmt.Errorf("subject %d is %s %s, the predicate says %s %s", i,
				s.Subject[i].Name, s.Subject[i].Digest.SHA256, want[i].Name, want[i].Digest.SHA256)
		}
	}
	return nil
}

var changeStates = []tool.ChangeState{tool.Unchanged, tool.Committed, tool.Discarded, tool.Conflicted, tool.DryRun}

func (p Predicate) check() error {
	for _, id := range []struct{ name, value string }{
		{"attestation_id", p.AttestationID}, {"invocation.proposal_id", p.Invocation.ProposalID},
	} {
		if _, err := ulid.ParseStrict(id.value); err != nil {
			return fmt.Errorf("%s %q is not a ULID", id.name, id.value)
		}
	}
	for _, f := range []struct{ name, value string }{
		{"gateway", p.Gateway}, {"invocation.decision_id", p.Invocation.DecisionID},
		{"invocation.principal", p.Invocation.Principal}, {"invocation.tool", p.Invocation.Tool},
		{"policy.version", p.Policy.Version}, {"executor.name", string(p.Executor.Name)},
		{"sandbox_enforcement", p.SandboxEnforcement}, {"result.outcome", p.Result.Outcome},
	} {
		if f.value == "" {
			return fmt.Errorf("%s is missing", f.name)
		}
	}
	if p.Times.AttestedAt.IsZero() {
		return errors.New("times.attested_at is missing")
	}
	if c := p.Changes; c != nil && !slices.Contains(changeStates, tool.ChangeState(c.State)) {
		return fmt.Errorf("changes.state is %q", c.State)
	}
	if v := p.Violations; v != nil && (len(v.First) == 0 || v.Count < len(v.First)) {
		return fmt.Errorf("violations.count is %d and %d are listed", v.Count, len(v.First))
	}
	if j := p.Journal; j != nil && (j.Size < 0 || !isHex(j.HeadSHA256)) {
		return fmt.Errorf("journal is of size %d with the head %q", j.Size, j.HeadSHA256)
	}
	if err := p.checkDigests(); err != nil {
		return err
	}
	return p.checkEnforcement()
}

func (p Predicate) checkDigests() error {
	for _, f := range []struct{ name, value string }{
		{"invocation.call_digest", p.Invocation.CallDigest},
		{"invocation.tool_definition_digest", p.Invocation.ToolDefinitionDigest},
		{"policy.snapshot_digest", p.Policy.SnapshotDigest},
		{"inputs.arguments_digest", p.Inputs.ArgumentsDigest},
	} {
		if !isDigest(f.value) {
			return fmt.Errorf("%s %q is not \"sha256:\" and 64 hex digits", f.name, f.value)
		}
	}
	if !isHex(p.ExecutionSHA256) {
		return fmt.Errorf("execution_sha256 %q is not 64 hex digits", p.ExecutionSHA256)
	}
	if p.Outputs.ResultSHA256 != p.ExecutionSHA256 {
		return fmt.Errorf("outputs.result_sha256 %q differs from execution_sha256 %q", p.Outputs.ResultSHA256, p.ExecutionSHA256)
	}
	for _, d := range p.optionalDigests() {
		if d != "" && !isHex(d) {
			return fmt.Errorf("digest %q is not 64 hex digits", d)
		}
	}
	return nil
}

func (p Predicate) optionalDigests() []string {
	all := []string{p.Outputs.StdoutSHA256, p.Outputs.StderrSHA256, p.Outputs.StdoutKeptSHA256, p.Outputs.StderrKeptSHA256}
	if p.Inputs.Executable != nil {
		all = append(all, p.Inputs.Executable.SHA256)
	}
	for _, f := range p.Inputs.Files {
		all = append(all, f.SHA256)
	}
	for _, f := range p.Outputs.Files {
		all = append(all, f.Was, f.Is)
	}
	if i := p.Isolation; i != nil {
		all = append(all, i.SeccompSHA256, i.HelperSHA256, i.ArgumentsSHA256, i.BackendSHA256)
	}
	if p.Changes != nil {
		all = append(all, p.Changes.RootSHA256)
	}
	return all
}

// checkEnforcement refuses a silent downgrade.
func (p Predicate) checkEnforcement() error {
	applied := make(map[string]bool, len(p.Enforcement.Applied))
	for _, layer := range p.Enforcement.Applied {
		applied[layer] = true
	}
	for _, layer := range p.Enforcement.Requested {
		if !applied[layer] && !namesLayer(p.Enforcement.Downgrades, layer) {
			return fmt.Errorf("layer %q was requested, is not applied and is not listed as a downgrade", layer)
		}
	}
	return nil
}
