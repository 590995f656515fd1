//go:build linux

package e2e

import (
	"strings"
	"testing"

	"palyra/internal/core/must"
)

// waivedGuests lets guests run without approval.
const waivedGuests = `@id("guests")
@reason("guests run unattended in the tests")
@waives("approval: they can reach nothing")
permit(principal, action == Action::"tool.execute/wasm.run", resource) when { context.egress.mode != "none" };
`

// copying is a module that copies its input to its output; its source is echo in test/wasm.
const copying = "AGFzbQEAAAABDAJgBH9/f38Bf2AAAAJEAhZ3YXNpX3NuYXBzaG90X3ByZXZpZXcxB2ZkX3JlYWQAABZ3YXNpX3NuYXBzaG90X3ByZXZpZXcxCGZkX3dyaXRlAAADAgEBBQMBAAIHEwIGbWVtb3J5AgAGX3N0YXJ0AAIKNQEzAEEAQYAINgIAQQRB4NQDNgIAQQBBAEEBQQgQABpBBEEIKAIANgIAQQFBAEEBQQgQARoL"

// TestGuests runs a WebAssembly guest through the gateway. It checks the result, the fuel in
// the attestation, and that the guest ran in its own sandbox. Without a worker, the tool
// reports the missing worker.
func TestGuests(t *testing.T) {
	t.Parallel()
	path := must.Get(worker())(t)
	g := newGateway(t, "[wasm_runtime]", "allow_inline_modules = true", `worker = "`+path+`"`)
	g.policy("10.cedar", waivedGuests)
	g.Start()
	c := g.local()
	arguments := `{"module":"` + copying + `","input":{"greeting":"hello"}}`
	ran := decode[struct {
		Output struct{ Greeting string }
		Fuel   int64
	}](t, c.ok("call", "wasm.run", "--input", arguments))
	if ran.Output.Greeting != "hello" || ran.Fuel <= 0 {
		t.Errorf("%+v", ran)
	}
	s := c.lastAttestation().Statement.Predicate
	if s.Usage.FuelReported != ran.Fuel || s.Executor.Name != "sandbox_tier_a_wasmtime" || s.Executor.Tier != "a" || !strings.Contains(s.Executor.Backend, "wasmtime 39") || s.SandboxEnforcement != "strict" {
		t.Errorf("the attestation says %+v", s)
	}
	fails := func(c *client, arguments, says string) {
		t.Helper()
		if r := c.run("call", "wasm.run", "--input", arguments); r.Code == 0 || !strings.Contains(r.Out+r.Err, says) {
			t.Errorf("code %d: %s%s", r.Code, r.Out, r.Err)
		}
	}
	if out := c.ok("attest", "show", c.lastAttestation().AttestationID); !strings.Contains(out, "as the worker reports") {
		t.Errorf("attest show says nothing of fuel: %s", out)
	}
	fails(c, `{"module":"`+copying+`","input":{},"fuel":1}`, "fuel")
	fails(c, `{"module":"AAAAAAAAAAAA"}`, "malformed")

	without := newGateway(t, "[wasm_runtime]", "allow_inline_modules = true")
	without.policy("10.cedar", waivedGuests)
	without.Start()
	fails(without.local(), arguments, "palyra-wasm")
}
