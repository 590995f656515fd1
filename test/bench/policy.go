//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"palyra/internal/call/policy"
	"palyra/internal/core/access"
	"palyra/internal/core/tool"
)

// policyDecision is goal 9: one verdict with every fact set, under sets of which ten policies
// apply.
func policyDecision(ctx context.Context, b *bench) ([]*line, error) {
	bounds := []float64{15, 150}
	lines := make([]*line, len(bounds))
	engines := make([]*policy.Engine, len(bounds))
	for i, n := range b.size.policies {
		lines[i] = &line{goal: "9", what: fmt.Sprintf("policy decision, %d policies, 10 apply", n), unit: "us", limit: atMost(bounds[i])}
		set, err := policy.Load(manyPolicies(n))
		if err != nil {
			return nil, err
		}
		engines[i] = policy.NewEngine(set)
	}
	r := everyFact()
	return lines, b.each(ctx, func() error {
		for i, engine := range engines {
			started := time.Now()
			for range b.size.decisions {
				v, err := engine.Evaluate(ctx, r, nil)
				if err != nil {
					return err
				}
				if v.Effect() != policy.Allow {
					return fmt.Errorf("the verdict is %s, want allow", v.Effect())
				}
			}
			lines[i].add(0, micros(time.Since(started))/float64(b.size.decisions))
		}
		return nil
	})
}

// others is the number of tools in addition to the called one.
const others = 50

// manyPolicies returns the default set with n more policies. They are forbids with conditions,
// and ten of them can match the call of everyFact.
func manyPolicies(n int) policy.Config {
	var text strings.Builder
	for i := range n {
		scope := fmt.Sprintf(`principal == User::"user-%d", action in Action::"tool.execute", resource`, i)
		switch {
		case i < 10:
			scope = `principal, action == Action::"tool.execute/process.run", resource`
		case i%3 == 0:
			scope = fmt.Sprintf(`principal, action in Action::"tool.execute", resource == Tool::"srv/t%d"`, i%others)
		case i%3 == 1:
			scope = fmt.Sprintf(`principal, action == Action::"tool.execute/srv/t%d", resource`, i%others)
		}
		fmt.Fprintf(&text, `@id("p%d") forbid(%s)
when { context.risk > 90 && context.capabilities.contains("network") && context has host && context.host like "*.example%d.com" };
`, i, scope, i)
	}
	text.WriteString(`@id("unasked") @waives("approval: benchmark")
permit(principal, action == Action::"tool.execute/process.run", resource) when { context.egress.mode != "none" };`)
	tools := []tool.Descriptor{{
		Name: "process.run", Title: "Run a program", Executor: tool.TierCBubblewrap, Destructive: true,
		Capabilities: []tool.Capability{tool.ProcessExec},
		InputSchema: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["argv"],` +
			`"properties":{"argv":{"type":"array","items":{"type":"string"}},"timeout_ms":{"type":"integer"}}}`),
	}}
	for i := range others {
		tools = append(tools, tool.Descriptor{
			Name: fmt.Sprintf("srv/t%d", i), Title: "Another", Executor: tool.Builtin, OpenWorld: true,
			Capabilities: []tool.Capability{tool.Network},
			InputSchema:  json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"url":{"type":"string"}}}`),
		})
	}
	return policy.Config{
		Sources: []policy.Source{{Name: "bench.cedar", Text: text.String()}},
		Tools:   tools, Workspaces: []string{"default"}, Snapshot: policy.Snapshot{MaxCallsPerRun: 200},
		Members: []access.Member{
			{Principal: owner, Roles: []access.Role{access.RoleOwner}, CreatedAt: noon},
			{Principal: agent, Owner: owner, Roles: []access.Role{access.RoleAgent}, CreatedAt: noon},
		},
	}
}

var (
	owner = access.User("alice")
	agent = access.Agent("coder")
	noon  = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
)

// everyFact returns a call with all facts, and a risk for which the ten policies evaluate all their
// conditions.
func everyFact() policy.Request {
	return policy.Request{
		Caller: access.Caller{
			Principal: agent, OnBehalfOf: owner, Roles: []access.Role{access.RoleAgent},
			DeviceID: "01JD0000000000000000000000", Surface: access.SurfaceGRPC, Paired: true,
		},
		Tool: "process.run", Args: json.RawMessage(`{"argv":["git","status","--short"],"timeout_ms":5000}`),
		Capabilities: []tool.Capability{tool.ProcessExec, tool.Network}, Session: "session-1", Run: "run-1", Time: noon,
		Facts: tool.Facts{
			Workspace: "default", Path: "src/main.go", Host: "api.example.com", Domain: "example.com", Port: 443,
			Method: "GET", Risk: 95, SandboxTier: "c", SandboxLevel: "strict", EgressMode: "strict",
			Exec: &tool.ExecFacts{Basename: "git", Path: "/usr/bin/git", SHA256: strings.Repeat("ab", 32)},
		},
		SessionFacts: tool.SessionFacts{CallsInRun: 7, ToolsUsed: []string{"fs.read", "process.run"}, BytesOut: 4096},
	}
}
