package policy

import (
	"testing"

	"palyra/internal/call/policy/finding"
	"palyra/internal/core/access"
	"palyra/internal/core/tool"
)

// TestVerdictsShareOneSchema: a policy that compares an argument with a number is valid exactly
// while the schema declares an integer, also after the schema changes back.
func TestVerdictsShareOneSchema(t *testing.T) {
	t.Parallel()
	under := func(kind string) Config {
		return Config{
			Sources: []Source{{Name: "a.cedar", Text: `@id("a") forbid(principal, action == Action::"tool.execute/srv/t", resource) when { context.args.size > 3 };`}},
			Members: []access.Member{{Principal: access.User("alice"), Roles: []access.Role{access.RoleOwner}}},
			Tools: []tool.Descriptor{{
				Name: "srv/t", ReadOnly: true, Capabilities: []tool.Capability{tool.FilesystemRead}, Executor: tool.MCPUpstream,
				InputSchema: []byte(`{"type":"object","properties":{"size":{"type":"` + kind + `"}},"required":["size"],"additionalProperties":false}`),
			}},
		}
	}
	for i, kind := range []string{"integer", "string", "integer", "string"} {
		_, findings := build(under(kind), Defaults())
		if got, want := !finding.HasErrors(findings), kind == "integer"; got != want {
			t.Errorf("build %d, %s: valid is %v: %v", i, kind, got, findings)
		}
	}
}
