package pure

import (
	"context"
	"encoding/json"

	"palyra/internal/core/tool"
)

const echoName = "echo"

// Echo returns its input. Its zero value is ready for use.
type Echo struct {
	// Version is the daemon's version for reports.
	Version string
}

// Pure marks a tool whose calls have no effect.
func (Echo) Pure() {}

// Descriptor describes the tool.
func (Echo) Descriptor() tool.Descriptor {
	return tool.Descriptor{
		Name: echoName, Title: "Echo",
		Description: "Return the input unchanged. Has no effect; use it to test that calls arrive.",
		InputSchema: json.RawMessage(`{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "additionalProperties": false,
  "properties": {
    "text": {"type": "string", "description": "Text to return."},
    "data": {"description": "Any JSON value to return."}
  }
}`),
		Capabilities: []tool.Capability{}, Executor: tool.Builtin, ReadOnly: true,
	}
}

// Plan describes a call.
func (Echo) Plan(context.Context, tool.Proposal) (tool.Plan, error) {
	return tool.Plan{
		Facts:   tool.Facts{SandboxTier: "builtin", SandboxLevel: "none"},
		Preview: tool.Preview{Summary: "Return the input unchanged."},
		Subject: echoName,
	}, nil
}

// Prepare holds no resources.
func (e Echo) Prepare(ctx context.Context, p tool.Proposal) (tool.Prepared, error) {
	plan, err := e.Plan(ctx, p)
	return tool.Prepared{Plan: plan, Run: e.run}, err
}

// run returns the input, which is canonical already.
func (e Echo) run(_ context.Context, c tool.Call) tool.Report {
	report := tool.Begin(tool.ExecutorInfo{Name: tool.Builtin, Version: e.Version, Tier: "builtin"})
	report.Outcome, report.Result, report.FinishedAt = tool.Succeeded, c.Proposal.Input, report.StartedAt
	return report
}
