package rpc

import (
	"context"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/policy/policytests"
)

// TestPolicy runs test cases. Cases that fail are in the answer, and no error.
func (p *policies) TestPolicy(ctx context.Context, req *palyrav1.TestPolicyRequest) (*palyrav1.TestPolicyResponse, error) {
	report, err := p.admin.Test(ctx, sourcesOf(req.GetSources()), sourcesOf(req.GetTests()))
	if err != nil {
		return nil, err
	}
	failed := report.Failed()
	res := &palyrav1.TestPolicyResponse{
		Failed: int32(failed), Passed: int32(len(report.Results) - failed), Findings: findingMessages(report.Findings),
		CoveragePercent: int32(policytests.CoveredPercent(report.Coverage)),
	}
	for _, r := range report.Results {
		res.Results = append(res.Results, &palyrav1.PolicyTestResult{
			File: r.File, Line: int32(r.Line), Name: r.Name, Passed: r.Passed, Message: r.Message, Verdict: r.Verdict,
			Determining: r.Determining,
		})
	}
	for _, c := range report.Coverage {
		res.Coverage = append(res.Coverage, coverageMessage(c))
	}
	return res, nil
}

func coverageMessage(c policytests.Coverage) *palyrav1.PolicyCoverage {
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
