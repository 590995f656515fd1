package policytests

import (
	"testing"

	"palyra/internal/call/policy"
)

// The parser of test files never panics, and a text that it accepts has cases.
func FuzzTestFile(f *testing.F) {
	f.Add("principal: alice\ntests:\n  - name: a\n    call: {tool: fs.read, args: {path: a}}\n    expect: {verdict: allow}\n")
	f.Add("tests: [{name: a, call: {tool: x, votes: [{user: b, roles: [c]}]}, expect: {verdict: ask}}]")
	f.Add("members:\n  agent:a: {owner: b}\n  b: {}\ntests:\n- name: |\n    a\n  call:\n    at: 2026-01-05T12:00:00Z\n    facts: {a: [1, 1.5, null, ~]}\n")
	f.Add("- - - ? x: !y &z *w\n<<: {a")
	f.Fuzz(func(t *testing.T, text string) {
		cases, findings := parseTests([]policy.Source{{Name: "a", Text: text}})
		if len(cases) == 0 && len(findings) == 0 {
			t.Errorf("%q was accepted and has no cases", text)
		}
		for _, finding := range findings {
			if finding.Line < 1 || finding.Column < 1 {
				t.Errorf("%q: %s has no place", text, finding)
			}
		}
	})
}
