package policy_test

import (
	"testing"

	"palyra/internal/call/policy"
	"palyra/internal/call/policy/explain"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/call/policy/policytests"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

const noSecrets = `@id("no-secrets")
forbid(principal, action in Action::"tool.execute", resource)
when { context has path_folded && context.path_folded like "secr\u{e9}ts/*" };`

// TestPathFolded verifies that a rule about path_folded covers every spelling of a path, for
// one file and for many. It also covers a record that has only the path.
func TestPathFolded(t *testing.T) {
	t.Parallel()
	set := policytest.Set(t, policytest.Options{Tools: []tool.Descriptor{patch}, Policies: noSecrets})
	exact := policytest.Set(t, policytest.Options{Tools: []tool.Descriptor{patch}, Policies: `@id("exact")
forbid(principal, action in Action::"tool.execute", resource) when { context has path && context.path like "secr\u{e9}ts/*" };`})
	for path, c := range map[string]struct{ folded, exact policy.Effect }{
		"secr\u00e9ts/key":      {policy.Deny, policy.Deny},
		"SECR\u00c9TS/key":      {policy.Deny, policy.Ask},
		"secre\u0301ts/key":     {policy.Deny, policy.Ask},
		"SECRE\u0301TS/KEY":     {policy.Deny, policy.Ask},
		"\u017fe\u200dcréts/ok": {policy.Deny, policy.Ask},
		"secrets/key":           {policy.Ask, policy.Ask},
		"a/secr\u00e9ts/key":    {policy.Ask, policy.Ask},
	} {
		one := policytest.Request("fs.patch", `{}`)
		one.Facts.Path = path
		many := policytest.Request("fs.patch", `{}`)
		many.Facts.Path, many.Facts.PathFolded, many.Facts.Paths = ".", ".", []string{"docs/a.md", path}
		for name, r := range map[string]policy.Request{"one": one, "many": many} {
			if got := set.Evaluate(r, nil).Effect(); got != c.folded {
				t.Errorf("%s %+q: %v, want %v", name, path, got, c.folded)
			}
			if got := set.Judge(r, policytest.Approval(policytest.Vote(policytest.Alice, "owner"))).Allowed; got != (c.folded != policy.Deny) {
				t.Errorf("%s %+q: with a yes it is allowed: %v", name, path, got)
			}
			// Negative control: a rule about the path does not match other spellings.
			if got := exact.Evaluate(r, nil).Effect(); got != c.exact {
				t.Errorf("%s %+q: by context.path %v, want %v", name, path, got, c.exact)
			}
		}
	}
}

func TestHardLinks(t *testing.T) {
	t.Parallel()
	set := policytest.Set(t, policytest.Options{Policies: `@id("links")
forbid(principal, action in Action::"tool.execute", resource) when { context.hard_links > 1 };`})
	r := policytest.Request("fs.read", `{"path":"a"}`)
	for links, want := range map[int]policy.Effect{0: policy.Allow, 1: policy.Allow, 2: policy.Deny, 1 << 30: policy.Deny} {
		r.Facts.HardLinks = links
		if got := set.Evaluate(r, nil).Effect(); got != want {
			t.Errorf("with %d links: %v, want %v", links, got, want)
		}
	}
}

// TestDescribedPathFolded verifies that path_folded is derived from a described path, and that
// no other value can be described.
func TestDescribedPathFolded(t *testing.T) {
	t.Parallel()
	r := policytest.Request("fs.read", `{"path":"a"}`)
	r.Facts.Path, r.Facts.PathFolded, r.Facts.HardLinks = "A/b", "a/b", 2
	for text, want := range map[string]tool.Facts{
		`{}`:                                {Path: "A/b", PathFolded: "a/b", HardLinks: 2},
		`{"path":"C\u0301"}`:                {Path: "C\u0301", PathFolded: "\u0107", HardLinks: 2},
		`{"path":"D","path_folded":"d"}`:    {Path: "D", PathFolded: "d", HardLinks: 2},
		`{"path":"","hard_links":1}`:        {Path: "", PathFolded: "", HardLinks: 1},
		`{"path_folded":"","hard_links":0}`: {},
		`{"path_folded":"a/c"}`:             {},
		`{"path":"D","path_folded":"D"}`:    {},
	} {
		got := r
		err := policytests.ReplaceFacts(&got, []byte(text))
		if want.Path == "" && want.HardLinks == 0 {
			if reason.Of(err) != reason.InvalidInput {
				t.Errorf("%s: %v", text, err)
			}
			continue
		}
		f := got.Facts
		if err != nil || f.Path != want.Path || f.PathFolded != want.PathFolded || f.HardLinks != want.HardLinks {
			t.Errorf("%s gives %+q, %+q and %d links, %v", text, f.Path, f.PathFolded, f.HardLinks, err)
		}
	}
}

// TestExplainPathFolded verifies that an explanation proposes and tests another path if a rule
// about path_folded denies the call.
func TestExplainPathFolded(t *testing.T) {
	t.Parallel()
	set := policytest.Set(t, policytest.Options{Tools: []tool.Descriptor{patch}, Policies: noSecrets})
	for name, facts := range map[string]tool.Facts{
		"one":  {Path: "SECR\u00c9TS/key"},
		"many": {Path: ".", Paths: []string{"docs/a.md", "SECR\u00c9TS/key"}},
	} {
		r := policytest.Request("fs.patch", `{}`)
		r.Facts = facts
		found := false
		for _, f := range explain.Verdict(set, r, policy.Approval{}, nil).Flips {
			for _, s := range f.Steps {
				found = found || s.Path == "context.path_folded" && s.Was == "\"secr\u00e9ts/key\"" && s.Becomes == `"file.txt"`
			}
		}
		if !found {
			t.Errorf("%s: no flip proposes another path", name)
		}
	}
}
