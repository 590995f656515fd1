package policy

import (
	"fmt"
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

// TestVerdictsAreKept: a stored verdict is not computed again, up to the number of stored
// verdicts. Verdicts that are no longer requested are dropped.
func TestVerdictsAreKept(t *testing.T) {
	t.Parallel()
	m := verdictMemory{now: map[verdictKey][]message{}}
	judged := 0
	ask := func(text string) []message {
		return m.of(verdictKeyOf("sha256:s", text), func() []message {
			judged++
			return []message{{text: text}}
		})
	}
	for i := range 3 * maxVerdicts {
		ask(fmt.Sprint(i))
		if got := ask("often"); len(got) != 1 || got[0].text != "often" {
			t.Fatalf("the verdict of another: %v", got)
		}
	}
	if judged != 3*maxVerdicts+1 {
		t.Errorf("judged %d times", judged)
	}
	if len(m.now) > maxVerdicts || len(m.before) > maxVerdicts {
		t.Errorf("%d and %d are kept", len(m.now), len(m.before))
	}
	if ask("0"); judged != 3*maxVerdicts+2 {
		t.Error("what was asked for once, long ago, is kept")
	}
}
