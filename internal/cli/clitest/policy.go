package clitest

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/reason"
)

func servePolicy(f *Gateway) {
	f.reply(
		someExplanation(),
		&palyrav1.SimulatePolicyResponse{Explanation: someExplanation(), VerdictInForce: "ask"},
		&palyrav1.TestPolicyResponse{
			Passed: 1, Failed: 1, CoveragePercent: 60,
			Results: []*palyrav1.PolicyTestResult{
				{File: "a.test.yaml", Line: 3, Name: "reads", Passed: true, Verdict: "allow", Determining: []string{"tools.not-sensitive"}},
				{File: "a.test.yaml", Line: 9, Name: "curl is denied", Verdict: "ask", Message: "expected verdict deny, got ask: a sensitive tool runs once a person approved the call"},
			},
			Coverage: []*palyrav1.PolicyCoverage{
				{PolicyId: "team.no-curl", File: "20-team.cedar", Line: 3, Applied: 0, Conditions: []*palyrav1.ConditionCoverage{
					{Text: "context has exec", Line: 5, Column: 8, WasTrue: 2, WasFalse: 1}, {Text: `context.exec.basename == "curl"`, Line: 5, Column: 28, WasFalse: 1},
				}},
				{PolicyId: "team.whole", File: "20-team.cedar", Line: 9, Applied: 2, Determined: 1},
			},
		},
		&palyrav1.ListPolicyVersionsResponse{Versions: []*palyrav1.PolicyVersion{
			{Version: "sha256:" + strings.Repeat("b", 64), FirstLoadedAt: ago(time.Hour), Policies: 14, Files: []string{"20-team.cedar"}, LoadedBy: "user:ada"},
			{Version: "sha256:" + strings.Repeat("a", 64), FirstLoadedAt: ago(48 * time.Hour), InForce: true, Activated: true, LoadedBy: "service:palyrad"},
		}},
		&palyrav1.ActivatePolicyResponse{Version: "sha256:" + strings.Repeat("b", 64), WasVersion: "sha256:aa", SnapshotDigest: "sha256:cc", Changed: true},
		&palyrav1.GetSnapshotResponse{SnapshotJson: []byte(`{"settings":{"max_calls_per_run":200}}`)},
	)
	on(f, func(*palyrav1.ValidatePolicyRequest) (*palyrav1.ValidatePolicyResponse, error) {
		return &palyrav1.ValidatePolicyResponse{Findings: f.findings}, nil
	})
	on(f, func(req *palyrav1.GetPolicyRequest) (*palyrav1.GetPolicyResponse, error) {
		if req.GetVersion() != "" {
			return oldPolicy(req.GetVersion()), nil
		}
		return &palyrav1.GetPolicyResponse{
			Version: "sha256:aa", SchemaDigest: "sha256:bb", SnapshotDigest: "sha256:cc", LoadedAt: ago(time.Hour),
			Schema:    "namespace Palyra;",
			Sources:   append([]*palyrav1.PolicySource{{Name: "defaults/10.cedar", Text: "permit(principal, action, resource);\n"}}, f.Own...),
			Directory: f.directory(), Activated: f.Activated,
		}, nil
	})
	on(f, f.reload)
}

// directory returns the policy directory in the form of the API.
func (f *Gateway) directory() *palyrav1.PolicyDirectory {
	d := &palyrav1.PolicyDirectory{Path: f.PolicyDir, Present: len(f.Own) > 0, Files: int32(len(f.Own)), Policies: int32(len(f.Own)), InForce: len(f.Own) > 0 && !f.Activated}
	switch {
	case f.Activated:
		d.Problem = "an activated version is in force instead; run `palyra policy reload` to return to the directory"
	case !d.InForce:
		d.Problem = "it is not there; `palyra policy init --profile laptop` makes it"
	}
	return d
}

// reload reads the policy directory, if the gateway has one.
func (f *Gateway) reload(*palyrav1.ReloadPolicyRequest) (*palyrav1.ReloadPolicyResponse, error) {
	if f.ReloadFails != nil {
		return nil, f.ReloadFails
	}
	found, err := filepath.Glob(filepath.Join(f.PolicyDir, "*.cedar"))
	if err != nil || len(found) == 0 {
		return nil, reason.Errorf(reason.PolicyInvalid, "the policy set does not load")
	}
	f.Own, f.Activated = nil, false
	for _, path := range found {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		f.Own = append(f.Own, &palyrav1.PolicySource{Name: filepath.Base(path), Text: string(text)})
	}
	return &palyrav1.ReloadPolicyResponse{Version: "sha256:dd", SnapshotDigest: "sha256:ee", Changed: true, Directory: f.directory()}, nil
}

// oldPolicy is a stored version with two files, one of which differs by version.
func oldPolicy(version string) *palyrav1.GetPolicyResponse {
	return &palyrav1.GetPolicyResponse{
		Version: version, LoadedAt: ago(48 * time.Hour),
		Sources: []*palyrav1.PolicySource{{Name: "10-same.cedar", Text: "same\n"}, {Name: "20-team.cedar", Text: "first\n" + version + "\nlast\n"}},
	}
}

// someExplanation is a denial with every field of an explanation, and with text that contains
// control characters.
func someExplanation() *palyrav1.ExplainPolicyResponse {
	long := strings.Repeat("averylongwordwithoutanyspace", 6)
	return &palyrav1.ExplainPolicyResponse{
		Verdict: "deny", Decision: "denied", Reason: "POLICY_DENIED", Message: "a policy denies it", Remedy: "Ask the team.",
		Tool: "process.run", Principal: "agent:claude", PolicyVersion: "sha256:" + strings.Repeat("a", 64), SnapshotDigest: "sha256:" + strings.Repeat("c", 64),
		Summary:       "team.no-curl (20-team.cedar:3) forbids it: curl sends what it reads to the network, and the run has read from the open world before",
		NearestPermit: "tools.sensitive-approved (defaults/20-tools.cedar:9): context.approval.granted",
		Flips: []*palyrav1.PolicyFlip{
			{Verdict: "ask", Summary: "call another program than curl", PolicyId: "team.no-curl", Steps: []*palyrav1.FlipStep{
				{Kind: "context", Path: "context.exec.basename", Was: `"curl"`, Becomes: `"git"`},
			}},
			{Verdict: "allow", Summary: "remove the policy team.no-curl", Steps: []*palyrav1.FlipStep{{Kind: "policy", Path: "team.no-curl", File: "20-team.cedar", Line: 3}}},
		},
		Policies: []*palyrav1.ExplainedPolicy{
			{PolicyId: "team.no-curl", File: "20-team.cedar", Line: 3, Effect: "forbid", Determining: true, Outcome: "satisfied", Reason: "curl sends \x1b[31mout", Conjuncts: []*palyrav1.ExplainedConjunct{
				{Text: "context has exec", Clause: "when", Outcome: "true", Line: 5, Column: 8},
				{Text: `context.exec.basename == "curl" || context.session.tainted`, Clause: "when", Outcome: "true", Line: 5, Column: 28, Parts: []*palyrav1.ExplainedConjunct{
					{Text: `context.exec.basename == "curl"`, Clause: "when", Outcome: "true", Values: []*palyrav1.ExplainedValue{{Path: "context.exec.basename", Value: `"curl"`}}},
					{Text: "context.session.tainted", Clause: "when", Outcome: "skipped", Values: []*palyrav1.ExplainedValue{{Path: "context.session.tainted", Value: "false"}}},
				}},
				{Text: "context.path like \"*.md\"", Clause: "unless", Outcome: "false", Values: []*palyrav1.ExplainedValue{{Path: "context.path", Value: `"` + long + `"`}}},
			}},
			{PolicyId: "team.sum", File: "20-team.cedar", Line: 20, Effect: "permit", Outcome: "error", Conjuncts: []*palyrav1.ExplainedConjunct{
				{Text: "context.risk * 9223372036854775807 > 1", Clause: "when", Outcome: "error", Error: "integer overflow"},
			}},
			{PolicyId: "tools.not-sensitive", File: "defaults/20-tools.cedar", Line: 4, Effect: "permit", Outcome: "not_satisfied", Conjuncts: []*palyrav1.ExplainedConjunct{
				{Text: "!resource.sensitive", Clause: "when", Outcome: "false"},
			}},
		},
		ContextJson: []byte(`{"risk":3}`), Errors: []string{"team.sum: integer overflow"}, Missing: "the approval of 1 person",
		Notes: []string{"secrets were removed from the arguments before they were journaled"}, ProposalId: "01PRPSA0000000000000000000", DecisionId: "01DECSN0000000000000000000",
	}
}
