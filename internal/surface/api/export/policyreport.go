package export

import (
	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/call/policy"
	"palyra/internal/call/policy/finding"
	"palyra/internal/call/policy/policytests"
)

// Findings converts findings to API messages.
func Findings(list []finding.Finding) []*palyrav1.PolicyFinding {
	out := make([]*palyrav1.PolicyFinding, len(list))
	for i, f := range list {
		out[i] = &palyrav1.PolicyFinding{
			Severity: string(f.Severity), Code: f.Code, File: f.File, Line: int32(f.Line), Column: int32(f.Column),
			Message: f.Message, SourceLine: f.SourceLine, Help: f.Help, PolicyId: f.PolicyID,
		}
	}
	return out
}

// Tests converts a test report to its API message.
func Tests(r policytests.Report) *palyrav1.TestPolicyResponse {
	failed := r.Failed()
	m := &palyrav1.TestPolicyResponse{
		Failed: int32(failed), Passed: int32(len(r.Results) - failed), Findings: Findings(r.Findings),
		CoveragePercent: int32(policytests.CoveredPercent(r.Coverage)),
	}
	for _, one := range r.Results {
		m.Results = append(m.Results, &palyrav1.PolicyTestResult{
			File: one.File, Line: int32(one.Line), Name: one.Name, Passed: one.Passed, Message: one.Message,
			Verdict: one.Verdict, Determining: one.Determining,
		})
	}
	for _, c := range r.Coverage {
		m.Coverage = append(m.Coverage, coverage(c))
	}
	return m
}

func coverage(c policytests.Coverage) *palyrav1.PolicyCoverage {
	m := &palyrav1.PolicyCoverage{
		PolicyId: c.PolicyID, File: c.File, Line: int32(c.Line), Applied: int32(c.Applied), Determined: int32(c.Determined),
	}
	for _, x := range c.Conditions {
		m.Conditions = append(m.Conditions, &palyrav1.ConditionCoverage{
			Text: x.Text, Line: int32(x.Line), Column: int32(x.Column), WasTrue: int32(x.WasTrue), WasFalse: int32(x.WasFalse),
		})
	}
	return m
}

// Sources converts API messages to policy files.
func Sources(list []*palyrav1.PolicySource) []policy.Source {
	out := make([]policy.Source, len(list))
	for i, s := range list {
		out[i] = policy.Source{Name: s.GetName(), Text: s.GetText()}
	}
	return out
}

// SourceMessages converts policy files to API messages.
func SourceMessages(list []policy.Source) []*palyrav1.PolicySource {
	out := make([]*palyrav1.PolicySource, len(list))
	for i, s := range list {
		out[i] = &palyrav1.PolicySource{Name: s.Name, Text: s.Text}
	}
	return out
}
