package clitest

import (
	"context"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	palyrav1 "palyra/gen/palyra/v1"
)

// asked records a request to a policy method.
func (s fakePolicy) asked(req proto.Message) {
	s.f.Mu.Lock()
	defer s.f.Mu.Unlock()
	s.f.PolicyAsked = append(s.f.PolicyAsked, req)
}

func (s fakePolicy) ExplainPolicy(_ context.Context, req *palyrav1.ExplainPolicyRequest) (*palyrav1.ExplainPolicyResponse, error) {
	s.asked(req)
	return someExplanation(), nil
}

func (s fakePolicy) SimulatePolicy(_ context.Context, req *palyrav1.SimulatePolicyRequest) (*palyrav1.SimulatePolicyResponse, error) {
	s.asked(req)
	return &palyrav1.SimulatePolicyResponse{Explanation: someExplanation(), VerdictInForce: "ask"}, nil
}

func (s fakePolicy) TestPolicy(_ context.Context, req *palyrav1.TestPolicyRequest) (*palyrav1.TestPolicyResponse, error) {
	s.asked(req)
	return &palyrav1.TestPolicyResponse{
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
	}, nil
}

func (s fakePolicy) ListPolicyVersions(context.Context, *palyrav1.ListPolicyVersionsRequest) (*palyrav1.ListPolicyVersionsResponse, error) {
	at := func(ago time.Duration) *timestamppb.Timestamp { return timestamppb.New(Now.Add(-ago)) }
	return &palyrav1.ListPolicyVersionsResponse{Versions: []*palyrav1.PolicyVersion{
		{Version: "sha256:" + strings.Repeat("b", 64), FirstLoadedAt: at(time.Hour), Policies: 14, Files: []string{"20-team.cedar"}, LoadedBy: "user:ada"},
		{Version: "sha256:" + strings.Repeat("a", 64), FirstLoadedAt: at(48 * time.Hour), InForce: true, Activated: true, LoadedBy: "service:palyrad"},
	}}, nil
}

func (s fakePolicy) ActivatePolicy(_ context.Context, req *palyrav1.ActivatePolicyRequest) (*palyrav1.ActivatePolicyResponse, error) {
	s.asked(req)
	return &palyrav1.ActivatePolicyResponse{Version: "sha256:" + strings.Repeat("b", 64), WasVersion: "sha256:aa", SnapshotDigest: "sha256:cc", Changed: true}, nil
}

// oldPolicy is a stored version with two files, one of which differs by version.
func oldPolicy(version string) *palyrav1.GetPolicyResponse {
	return &palyrav1.GetPolicyResponse{
		Version: version, LoadedAt: timestamppb.New(Now.Add(-48 * time.Hour)),
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
