package policy

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/access"
	"palyra/internal/core/tool"
)

// TestHookRules: the default rules for an agent's own tools require approval. Control: the set
// without the rule does not.
func TestHookRules(t *testing.T) {
	t.Parallel()
	look := tool.Descriptor{
		Name: "claude-code/Read", Executor: tool.External, Capabilities: []tool.Capability{tool.FilesystemRead},
		InputSchema: json.RawMessage(`{"type":"object"}`),
	}
	edit := look
	edit.Name, edit.Capabilities = "claude-code/Edit", []tool.Capability{tool.FilesystemWrite}
	agent, owner := access.Agent("coder"), access.User("alice")
	cfg := Config{Tools: []tool.Descriptor{look, edit}, Members: []access.Member{
		{Principal: owner, Roles: []access.Role{access.RoleOwner}}, {Principal: agent, Owner: owner, Roles: []access.Role{access.RoleAgent}},
	}}
	request := func(name string, external *tool.ExternalFacts) Request {
		return Request{
			Caller: access.Caller{Principal: agent, OnBehalfOf: owner, Roles: []access.Role{access.RoleAgent}}, Tool: name,
			Args: json.RawMessage("{}"), Facts: tool.Facts{SandboxTier: "external", SandboxLevel: "none", External: external},
		}
	}
	cfg.Sources = []Source{{Name: "free.cedar", Text: `@id("free") @reason("free") @waives("approval: the test's own")
permit(principal, action == Action::"tool.execute/claude-code/Edit", resource) when { context.sandbox.tier == "external" };`}}
	set := func(without string) *Set {
		t.Helper()
		defaults := slices.Clone(Defaults())
		for i, d := range defaults {
			if before, after, ok := strings.Cut(d.Text, "@id(\""+without+"\")"); ok && without != "" {
				_, rest, _ := strings.Cut(after, ";\n")
				defaults[i].Text = before + rest
			}
		}
		s, findings := build(cfg, defaults)
		if s == nil {
			t.Fatal(findings)
		}
		return s
	}
	guarded := &tool.ExternalFacts{Agent: "claude-code", Act: tool.ActWrite, Guarded: []string{"/home/a/.claude/settings.json"}}
	outside := &tool.ExternalFacts{Agent: "claude-code", Act: tool.ActRead, Outside: []string{"/home/a/.ssh/id_rsa"}}
	for _, c := range []struct {
		name, tool, without string
		facts               *tool.ExternalFacts
		want                Effect
	}{
		{"a guarded file", edit.Name, "", guarded, Ask},
		{"its control", edit.Name, "hooks.guarded", guarded, Allow},
		{"a file outside", look.Name, "", outside, Ask},
		{"its control", look.Name, "hooks.outside", outside, Allow},
		{"a file in a workspace", look.Name, "", &tool.ExternalFacts{Agent: "claude-code", Act: tool.ActRead}, Allow},
	} {
		if got := set(c.without).Evaluate(request(c.tool, c.facts), nil).Effect(); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
