package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

const sleepName = "sleep"

// sleep waits. It has no effect, but it is not in package pure, whose calls are recorded after
// they have ended. A call of sleep may last for minutes, and the journal must contain it while
// it runs.
type sleep struct {
	version string
	most    time.Duration
}

type sleepInput struct {
	DurationMS int64 `json:"duration_ms"`
}

func (sleep) Descriptor() tool.Descriptor {
	return tool.Descriptor{
		Name: sleepName, Title: "Sleep",
		Description: "Wait for a number of milliseconds, then return. Has no effect.",
		InputSchema: json.RawMessage(`{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "additionalProperties": false,
  "required": ["duration_ms"],
  "properties": {
    "duration_ms": {"type": "integer", "minimum": 0, "maximum": 86400000, "description": "How long to wait, in milliseconds. The operator's limit on calls may be lower."}
  }
}`),
		Capabilities: []tool.Capability{}, Executor: tool.Builtin, ReadOnly: true,
	}
}

func (s sleep) Plan(_ context.Context, p tool.Proposal) (tool.Plan, error) {
	in, err := decode[sleepInput](p.Input)
	if err != nil {
		return tool.Plan{}, err
	}
	if err := checkTimeout("duration_ms", in.DurationMS, s.most); err != nil {
		return tool.Plan{}, err
	}
	return tool.Plan{
		Facts:   tool.Facts{SandboxTier: "builtin", SandboxLevel: "none"},
		Preview: tool.Preview{Summary: fmt.Sprintf("Wait for %d ms.", in.DurationMS)},
		Subject: sleepName,
	}, nil
}

// Prepare holds no resources.
func (s sleep) Prepare(ctx context.Context, p tool.Proposal) (tool.Prepared, error) {
	plan, err := s.Plan(ctx, p)
	return tool.Prepared{Plan: plan, Run: s.run}, err
}

func (s sleep) run(ctx context.Context, c tool.Call) tool.Report {
	report := begin(s.version)
	in, err := decode[sleepInput](c.Proposal.Input)
	if err != nil {
		return report.Fail(ctx, err)
	}
	timer := time.NewTimer(time.Duration(in.DurationMS) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return report.Succeed(map[string]int64{"slept_ms": in.DurationMS})
	case <-ctx.Done():
		return report.Fail(ctx, ctx.Err())
	}
}

// checkTimeout checks a requested time against the operator's limit.
func checkTimeout(field string, ms int64, most time.Duration) error {
	if ms > most.Milliseconds() {
		return reason.Errorf(reason.InvalidInput, "input at /%s: %d is greater than the operator's limit of %d ms", field, ms, most.Milliseconds()).
			WithField("pointer", "/"+field)
	}
	return nil
}
