package wasm

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/wasm/guest"
	"palyra/internal/exec/wasm/module"
)

// smallest is a command with a memory and an empty _start.
var smallest = []byte("\x00asm\x01\x00\x00\x00\x01\x04\x01\x60\x00\x00\x03\x02\x01\x00\x05\x03\x01\x00\x01\x07\x13\x02\x06memory\x02\x00\x06_start\x00\x00\x0a\x04\x01\x02\x00\x0b")

// noting records its calls.
type noting struct{ calls []guest.Call }

func (n *noting) Run(_ context.Context, c guest.Call) (sandbox.Report, error) {
	n.calls = append(n.calls, c)
	return sandbox.Report{Stdout: sandbox.Stream{Head: []byte(`{"b":1,"a":2}`)}, Usage: tool.Usage{Fuel: 7}}, nil
}

func inlineOf(n *noting) Inline {
	return Inline{Guests: n, Ready: func() error { return nil }, Modules: &module.Known{}, FuelCeiling: 1000, ModuleBytes: 8 << 20, Limits: guest.Limits{Fuel: 100, MemoryBytes: 4 << 16, TableElements: 10, Wall: 1, Output: 1}}
}

func proposal(module []byte, more string) tool.Proposal {
	return tool.Proposal{
		Caller: access.Caller{Principal: access.Agent("helper")},
		Input:  json.RawMessage(fmt.Sprintf(`{"module":%q%s}`, base64.StdEncoding.EncodeToString(module), more)),
	}
}

// TestInlineRefuses: a call that exceeds the limits, or has an invalid module, is refused
// before the module runs.
func TestInlineRefuses(t *testing.T) {
	t.Parallel()
	large := append(append([]byte{}, smallest...), append([]byte{0, 0x80, 0x80, 0x11, 1, 'x'}, make([]byte, 0x44000-2)...)...)
	wide := []byte(strings.Replace(string(smallest), "\x05\x03\x01\x00\x01", "\x05\x03\x01\x00\x05", 1))
	for name, c := range map[string]struct {
		p    tool.Proposal
		says string
		code reason.Code
	}{
		"the control":      {p: proposal(smallest, `,"fuel":1000`)},
		"too much fuel":    {proposal(smallest, `,"fuel":1001`), "fuel_ceiling is 1000", reason.InvalidInput},
		"no module":        {proposal([]byte("no module at all"), ""), "malformed", reason.InvalidInput},
		"no base64":        {tool.Proposal{Input: json.RawMessage(`{"module":"!!!!!!!!!!!!"}`)}, "not in base64", reason.InvalidInput},
		"a large module":   {proposal(large, ""), "the limit is 262144", reason.InputTooLarge},
		"too large memory": {proposal(wide, ""), "initial memory", reason.InputTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			n := &noting{}
			_, err := inlineOf(n).Plan(t.Context(), c.p)
			if c.says == "" {
				must.Do(t, err)
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.says) || reason.Of(err) != c.code {
				t.Errorf("%v (%s), want %q (%s)", err, reason.Of(err), c.says, c.code)
			}
			if len(n.calls) > 0 {
				t.Error("it ran")
			}
		})
	}
	away := inlineOf(&noting{})
	away.Ready = func() error { return unavailable("there is no worker") }
	if _, err := away.Plan(t.Context(), proposal(smallest, "")); reason.Of(err) != reason.SandboxUnavailable {
		t.Errorf("without a worker: %v", err)
	}
}

// TestInlineRuns: a call runs for its principal without any grant. Its randomness is derived
// from its digest, and its result reports the used resources.
func TestInlineRuns(t *testing.T) {
	t.Parallel()
	n := &noting{}
	in := inlineOf(n)
	run := func(p tool.Proposal) tool.Report {
		prepared := must.Get(in.Prepare(t.Context(), p))(t)
		return prepared.Run(t.Context(), tool.Call{Proposal: p, Plan: prepared.Plan})
	}
	r := run(proposal(smallest, `,"input":{"x":1}`))
	if string(r.Result) != `{"fuel":7,"output":{"a":2,"b":1}}` || r.Outcome != tool.Succeeded || r.Executor.Name != tool.TierAWasmtime || r.Executor.Tier != "a" {
		t.Errorf("%s %+v", r.Result, r)
	}
	run(proposal(smallest, `,"input":{"x":1}`))
	c := n.calls[0]
	if c.Caller.Principal != "agent:helper" || string(c.Input) != `{"x":1}` || c.Limits.Fuel != 100 || c.Clock || c.Random || c.Host != nil || c.Seed == [32]byte{} {
		t.Errorf("%+v", c)
	}
	if n.calls[1].Seed != c.Seed {
		t.Error("the same call has another seed")
	}
}

// TestInlinePrompt: the prompt names the module and its limits.
func TestInlinePrompt(t *testing.T) {
	t.Parallel()
	plan := must.Get(inlineOf(&noting{}).Plan(t.Context(), proposal(smallest, `,"fuel":7`)))(t)
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256(smallest))
	for _, c := range []struct{ is, want string }{
		{plan.Binding.SandboxProfile, "WebAssembly guest " + digest + ": fuel 7, memory 262144 bytes, 1ns"},
		{plan.Preview.Summary, "Run a WebAssembly module of 50 bytes (" + digest + ") with fuel 7. It can compute, but has no access to any resource."},
		{strings.Join(plan.Preview.Notes, ""), "1 functions, 0 of them imported: none."},
		{plan.Subject, "wasm.run:" + digest},
	} {
		if c.is != c.want {
			t.Errorf("%q, want %q", c.is, c.want)
		}
	}
}
