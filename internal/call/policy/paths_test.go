package policy_test

import (
	"encoding/json"
	"testing"

	"palyra/internal/call/policy"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/tool"
)

var patch = tool.Descriptor{
	Name: "fs.patch", Title: "Apply a patch", Executor: tool.Builtin, Capabilities: []tool.Capability{tool.FilesystemWrite},
	InputSchema: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"patch":{"type":"string"}}}`),
}

// TestEveryChangedFileIsJudged verifies that a rule about a path applies to a call that changes
// several files.
func TestEveryChangedFileIsJudged(t *testing.T) {
	t.Parallel()
	set := policytest.Set(t, policytest.Options{
		Tools: []tool.Descriptor{patch},
		Policies: `
@id("own.no-secrets") @reason("secrets stay as they are")
forbid(principal, action in Action::"tool.execute", resource) when { context has path && context.path like "secrets/*" };
@id("own.docs") @reason("documents may change unattended") @waives("approval: they are only text")
permit(principal, action == Action::"tool.execute/fs.patch", resource) when { context has path && context.path like "docs/*" };
`,
	})
	for name, c := range map[string]struct {
		paths []string
		want  policy.Effect
	}{
		"one that is free":            {[]string{"docs/a.md"}, policy.Allow},
		"all free":                    {[]string{"docs/a.md", "docs/b.md"}, policy.Allow},
		"one of them asks":            {[]string{"docs/a.md", "src/b.go"}, policy.Ask},
		"one of them is forbidden":    {[]string{"docs/a.md", "secrets/key"}, policy.Deny},
		"the forbidden one is first":  {[]string{"secrets/key", "src/b.go"}, policy.Deny},
		"all of them ask":             {[]string{"src/a.go", "src/b.go"}, policy.Ask},
		"one that is forbidden alone": {[]string{"secrets/key"}, policy.Deny},
	} {
		r := policytest.Request("fs.patch", `{}`)
		r.Facts.Path, r.Facts.Paths = ".", c.paths
		if got := set.Evaluate(r, nil).Effect(); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		yes := policytest.Approval(policytest.Vote(policytest.Alice, "owner"))
		if got := set.Judge(r, yes).Allowed; got != (c.want != policy.Deny) {
			t.Errorf("%s: with a yes it is allowed: %v", name, got)
		}
	}
	// Negative control: the rule does not match the common directory of the files.
	r := policytest.Request("fs.patch", `{}`)
	r.Facts.Path = "."
	if got := set.Evaluate(r, nil).Effect(); got != policy.Ask {
		t.Errorf("the shared directory alone gives %v", got)
	}
}
