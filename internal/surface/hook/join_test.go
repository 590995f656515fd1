package hook_test

import (
	"context"
	"testing"

	"palyra/internal/call"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/tool"
	"palyra/internal/gateway/gatewaytest"
	"palyra/internal/surface/hook"
)

// arrives makes a call through the gateway's own MCP server. The second result is whether the
// call joined an announced one.
func (w *world) arrives(caller access.Caller, id, name, input string) (call.Outcome, bool) {
	w.t.Helper()
	vouch := w.hooks.Arrive(caller, id, name, []byte(input))
	return must.Get(w.Pipeline.Call(w.t.Context(), call.Submission{
		Caller: caller, Tool: policytest.Run.Name, Input: []byte(input), CallID: id, PriorAnswer: vouch,
	}, func(call.Event) {}))(w.t), vouch != nil
}

// announced returns the digest that a call of the test's tool would have now.
func (w *world) announced(ctx context.Context, caller access.Caller, name string, input []byte) string {
	if name != "process_run" {
		return ""
	}
	return must.Get(w.Pipeline.CallDigest(ctx, call.Submission{Caller: caller, Tool: policytest.Run.Name, Input: input}))(w.t)
}

// TestJoinBindsOperands: an approval from the hook does not apply if the content of the call's
// files has changed.
func TestJoinBindsOperands(t *testing.T) {
	t.Parallel()
	for _, changed := range []bool{false, true} {
		w := newWorld(t, "")
		operand := tool.Operand{Path: "rules.mk", SHA256: gatewaytest.Digest("1")}
		w.probe.Change(func(p *gatewaytest.Probe) { p.Found.Binding.Operands = []tool.Operand{operand} })
		in := map[string]any{"argv": []string{"make"}}
		stop := w.people(yes)
		w.before("t1", "mcp__palyra__process_run", in)
		stop()
		if changed {
			operand.SHA256 = gatewaytest.Digest("2")
			w.probe.Change(func(p *gatewaytest.Probe) { p.Found.Binding.Operands = []tool.Operand{operand} })
		}
		stop = w.people(no)
		got, joined := w.arrives(w.caller, "t1", "process_run", `{"argv":["make"]}`)
		if asked := stop(); !joined || got.Decision.Allowed == changed || (len(asked) == 1) != changed {
			t.Errorf("changed %t: joined %t, %+v, %d asks", changed, joined, got.Decision, len(asked))
		}
		w.after("t1", "mcp__palyra__process_run", in)
		w.idle()
		if n := len(w.events(event.Unjoined)); n != 0 {
			t.Errorf("changed %t: %d alarms for a call that arrived", changed, n)
		}
	}
}

// TestOwnServerCallIsApprovedOnce: the hook requests the approval, which is valid once, for the
// following call.
func TestOwnServerCallIsApprovedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	in := map[string]any{"argv": []string{"make"}}
	const input = `{"argv":["make"]}`
	stop := w.people(yes)
	if a := w.before("t1", "mcp__palyra__process_run", in); a.decision != "allow" {
		t.Fatalf("%+v", a)
	}
	if asked := stop(); len(asked) != 1 {
		t.Fatalf("people were asked %d times", len(asked))
	}
	got, joined := w.arrives(w.caller, "t1", "process_run", input)
	if !joined || !got.Decision.Allowed || got.Decision.Joins == "" || got.Decision.ApprovalID != "" || len(w.events(event.Asked)) != 1 {
		t.Errorf("the call that follows: joined %v, %+v, %d asks", joined, got.Decision, len(w.events(event.Asked)))
	}
	stop = w.people(no)
	if again, joined := w.arrives(w.caller, "t1", "process_run", input); joined || again.Decision.Allowed {
		t.Errorf("the same call again: %+v", again.Decision)
	}
	stop()
	w.after("t1", "mcp__palyra__process_run", in)
	w.idle()
	if n := len(w.events(event.Unjoined)) + len(w.events(event.RanOther)); n != 0 || w.hooks.Counts().Unjoined != 0 {
		t.Errorf("%d alarms for a call that arrived", n)
	}
}

// TestOnlyTheSameCallJoins: a call that differs from the announced one is decided separately.
func TestOnlyTheSameCallJoins(t *testing.T) {
	t.Parallel()
	const input = `{"argv":["make"]}`
	other := access.Agent("other")
	for name, c := range map[string]struct {
		caller   func(*access.Caller)
		id, tool string
		input    string
	}{
		"another id":        {nil, "t2", "process_run", input},
		"no id":             {nil, "", "process_run", input},
		"another tool":      {nil, "t1", "fs_write", input},
		"another input":     {nil, "t1", "process_run", `{"argv":["make","x"]}`},
		"another principal": {func(c *access.Caller) { c.Principal = other }, "t1", "process_run", input},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "")
			stop := w.people(yes)
			w.before("t1", "mcp__palyra__process_run", map[string]any{"argv": []string{"make"}})
			stop()
			caller := w.caller
			if c.caller != nil {
				c.caller(&caller)
			}
			if w.hooks.Arrive(caller, c.id, c.tool, []byte(c.input)) != nil {
				t.Error("it joined")
			}
			if w.hooks.Arrive(w.caller, "t1", "process_run", []byte(input)) == nil {
				t.Error("the control did not join")
			}
		})
	}
}

// TestDeniedAnnouncementJoinsNothing: a call does not join an announcement that was denied, or
// that required no approval.
func TestDeniedAnnouncementJoinsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	stop := w.people(no)
	w.before("t1", "mcp__palyra__process_run", map[string]any{"argv": []string{"make"}})
	stop()
	if w.hooks.Arrive(w.caller, "t1", "process_run", []byte(`{"argv":["make"]}`)) != nil {
		t.Error("a call that people denied is vouched for")
	}
	w = newWorld(t, `@id("test.free") @waives("approval: a test") permit(principal, action == Action::"tool.execute/claude-code/mcp", resource) when { context.sandbox.tier == "external" };`)
	if a := w.before("t1", "mcp__palyra__process_run", map[string]any{"argv": []string{"make"}}); a.decision != "allow" {
		t.Fatalf("%+v", a)
	}
	stop = w.people(yes)
	got, joined := w.arrives(w.caller, "t1", "process_run", `{"argv":["make"]}`)
	if asked := stop(); !joined || !got.Decision.Allowed || got.Decision.Joins != "" || len(asked) != 1 {
		t.Errorf("nobody was asked by the hook, so that people are asked now: %+v, %d asks", got.Decision, len(asked))
	}
}

// TestAnotherServerOfThatName: a project's own server that is named palyra gets no permission
// from the name. An approval is required, and the missing call is journaled and counted.
func TestAnotherServerOfThatName(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	in := map[string]any{"path": "a secret that leaves by the arguments"}
	stop := w.people(no)
	if a := w.before("t1", "mcp__palyra__fs_read", in); a.decision != "deny" {
		t.Errorf("the name let it pass: %+v", a)
	}
	stop()
	stop = w.people(yes)
	w.before("t2", "mcp__palyra__fs_list", in)
	stop()
	w.after("t2", "mcp__palyra__fs_list", in)
	if e := w.eventually(event.Unjoined, 1); e[0].Subject == "" || w.hooks.Counts().Unjoined != 1 {
		t.Errorf("%+v, counted %+v", e[0], w.hooks.Counts())
	}
	if hook.OwnServer != "palyra" {
		t.Error("the test is about another name")
	}
}
