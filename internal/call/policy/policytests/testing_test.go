package policytests_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"palyra/internal/call/policy"
	"palyra/internal/call/policy/finding"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/call/policy/policytests"
	"palyra/internal/core/must"
)

const noCurl = `@id("no-curl")
@reason("curl sends out")
forbid(principal, action == Action::"tool.execute/process.run", resource)
when { context has exec && context.exec.basename == "curl" };
`

// runFile runs one test file against the sets of policytest.
func runFile(t *testing.T, o policytest.Options, text string) policytests.Report {
	t.Helper()
	return must.Get(policytests.Run(t.Context(), policytest.Config(o), []policy.Source{{Name: "a.test.yaml", Text: text}}))(t)
}

// oneCase returns a test file with one case.
func oneCase(call, expect string) string {
	return fmt.Sprintf("principal: agent:coder\ntests:\n  - name: one\n    call: {%s}\n    expect: {%s}\n", call, expect)
}

func TestRunTests(t *testing.T) {
	t.Parallel()
	const curl = `tool: process.run, args: {argv: [curl]}, facts: {exec: {basename: curl}}`
	for _, c := range []struct {
		name, call, expect string
		// fails is a part of the message of a failing case, or "" for a passing one.
		fails string
	}{
		{"a deny", curl, "verdict: deny", ""},
		{"its reason", curl, "verdict: deny, reason: POLICY_DENIED", ""},
		{"another reason", curl, "verdict: deny, reason: UNKNOWN_TOOL", "expected reason UNKNOWN_TOOL, got POLICY_DENIED"},
		{"its policy", curl, "verdict: deny, determining: [no-curl]", ""},
		{"no policy", curl, "verdict: deny, determining: []", "expected determining none, got no-curl"},
		{"one of them", curl, "verdict: deny, includes: [no-curl]", ""},
		{"another of them", curl, "verdict: deny, includes: [no-wget]", "expected determining with no-wget, got no-curl"},
		{"not an allow", curl, "verdict: allow", "expected verdict allow, got deny: "},
		{"an ask", "tool: process.run, args: {argv: [make]}", "verdict: ask, missing: 1 person", ""},
		{"what it lacks", "tool: process.run, args: {argv: [make]}", "verdict: ask, missing: 2 people", `expected missing "2 people", got "the approval of 1 person"`},
		{"a vote", "tool: process.run, args: {argv: [make]}, votes: [{user: alice}]", "verdict: allow", ""},
		{"a vote in a grant", "tool: process.run, args: {argv: [make]}, standing: true, votes: [{user: alice}]", "verdict: allow", ""},
		{"a vote of a stranger", "tool: process.run, args: {argv: [make]}, votes: [{user: zoe}]", "verdict: allow", "the user does not exist"},
		{"another caller", `principal: alice, ` + curl, "verdict: deny", ""},
		{"no roles", "tool: fs.read, args: {path: a}, roles: []", "verdict: allow", ""},
		{"roles without members", "principal: zoe, tool: fs.read, args: {path: a}, roles: [owner]", "verdict: allow", "which is not a member"},
		{"a stranger", "principal: zoe, tool: fs.read, args: {path: a}", "verdict: deny, determining: [ceiling.principal]", ""},
		{"wrong arguments", "tool: fs.read, args: {pfad: a}", "verdict: allow", "pfad"},
		{"wrong facts", "tool: fs.read, args: {path: a}, facts: {exe: 1}", "verdict: allow", `unknown field "exe"`},
		{"no such tool", "tool: fs.raed, args: {path: a}", "verdict: deny, reason: UNKNOWN_TOOL", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			report := runFile(t, policytest.Options{Policies: noCurl}, oneCase(c.call, c.expect))
			if len(report.Results) != 1 {
				t.Fatalf("%d results: %v", len(report.Results), report.Findings)
			}
			r := report.Results[0]
			if r.Passed != (c.fails == "") || !strings.Contains(r.Message, c.fails) {
				t.Errorf("passed %v: %q", r.Passed, r.Message)
			}
			if failed := len(report.Failures()); failed != report.Failed() || failed != 1 && c.fails != "" {
				t.Errorf("%d failures, %d failed", failed, report.Failed())
			}
			if r.File != "a.test.yaml" || r.Line != 3 {
				t.Errorf("the case stands at %s:%d", r.File, r.Line)
			}
		})
	}
}

// An error in a file is reported with its position, and no test runs.
func TestTestFilesAreStrict(t *testing.T) {
	t.Parallel()
	head := "principal: agent:coder\ntests:\n"
	for _, c := range []struct {
		name, text string
		place      string
		says       string
	}{
		{"an unknown key", head + "  - name: a\n    cal: {}\n", "4:5", "cal"},
		{"an unknown key of the file", "principle: x\n" + head, "1:1", "principle"},
		{"an unknown key of an expectation", oneCase("tool: fs.read", "verdict: deny, resaon: X"), "5:29", "resaon"},
		{"a key twice", head + "  - name: a\n    name: b\n", "4:5", "name"},
		{"a wrong type", "tests: 3\n", "1:8", ""},
		{"no YAML", "tests: [\n", "1:8", ""},
		{"no tests", "principal: alice\n", "1:1", "no tests"},
		{"empty", "", "1:1", "one YAML document"},
		{"two documents", oneCase("tool: a", "verdict: deny") + "---\ntests: []\n", "1:1", "one YAML document"},
		{"no name", head + "  - call: {tool: fs.read}\n    expect: {verdict: deny}\n", "3:5", "needs a name"},
		{"one name twice", oneCase("tool: fs.read", "verdict: deny") + "  - name: one\n    call: {tool: fs.read}\n    expect: {verdict: deny}\n", "6:5", `two tests are named "one"`},
		{"no verdict", oneCase("tool: fs.read", "reason: X"), "3:5", `verdict is ""`},
		{"no tool", oneCase("args: {}", "verdict: deny"), "3:5", "needs a tool"},
		{"no principal", "tests:\n  - name: a\n    call: {tool: fs.read}\n    expect: {verdict: deny}\n", "2:5", "a principal"},
		{"no such kind", oneCase("tool: fs.read, principal: dog:rex", "verdict: deny"), "3:5", "dog"},
		{"no time", oneCase("tool: fs.read, at: noon", "verdict: deny"), "3:5", "noon"},
		{"an agent without an owner", "members:\n  agent:x: {roles: [agent]}\n" + oneCase("tool: fs.read", "verdict: deny"), "1:1", "owner"},
		{"an anchor", "x: &a 1\n", "1:4", "anchors"},
		{"an alias", "x: *a\n", "1:4", "anchors"},
		{"a tag", "x: !!str 1\n", "1:4", "tags"},
		{"deep brackets", "x: " + strings.Repeat("[", 5000), "1:68", "nested"},
		{"deep lists", strings.Repeat("- ", 5000), "1:257", "nested"},
		{"large", strings.Repeat("# comment\n", 200_000), "1:1", "limit"},
	} {
		t.Run(c.name, func(t *testing.T) {
			report := runFile(t, policytest.Options{}, c.text)
			if len(report.Results) != 0 || len(report.Failures()) == 0 {
				t.Fatalf("%d results, findings %v", len(report.Results), report.Findings)
			}
			f := report.Failures()[0]
			if got := fmt.Sprintf("%d:%d", f.Line, f.Column); got != c.place || f.File != "a.test.yaml" || f.Code != finding.CodeTestFile {
				t.Errorf("the finding is at %s:%s, want %s: %s", f.File, got, c.place, f)
			}
			if !strings.Contains(f.Message, c.says) {
				t.Errorf("the finding says %q, want %q", f.Message, c.says)
			}
		})
	}
}

// Members declared in a file replace the gateway's members.
func TestDeclaredMembers(t *testing.T) {
	t.Parallel()
	text := "members:\n  alice: {roles: [owner]}\n  bob: {roles: [operator]}\n  eve: {roles: [operator], disabled: true}\n  agent:a: {owner: alice, roles: [agent]}\nprincipal: agent:a\n" +
		"tests:\n  - name: no role\n    call: {tool: process.run, args: {argv: [x]}, roles: []}\n    expect: {verdict: ask}\n" +
		"  - name: the owner does not decide\n    call: {tool: process.run, args: {argv: [x]}, votes: [{user: alice}]}\n    expect: {verdict: ask}\n" +
		"  - name: another does\n    call: {tool: process.run, args: {argv: [x]}, votes: [{user: bob}]}\n    expect: {verdict: allow}\n" +
		"  - name: the disabled hold nothing\n    call: {tool: process.run, args: {argv: [x]}, votes: [{user: eve}]}\n    expect: {verdict: ask}\n"
	report := runFile(t, policytest.Options{}, text)
	for _, f := range report.Failures() {
		if !strings.Contains(f.Message, "role operator, which they do not hold") {
			t.Error(f)
		}
	}
	if len(report.Results) != 4 || report.Failed() != 1 {
		t.Errorf("%d of %d failed", report.Failed(), len(report.Results))
	}
}

func TestCoverage(t *testing.T) {
	t.Parallel()
	half := runFile(t, policytest.Options{Policies: noCurl}, oneCase("tool: process.run, args: {argv: [x]}, facts: {exec: {basename: make}}", "verdict: ask"))
	c := half.Coverage[0]
	if len(half.Coverage) != 1 || c.PolicyID != "no-curl" || c.Applied != 0 || c.Determined != 0 || len(c.Conditions) != 2 {
		t.Fatalf("%+v", half.Coverage)
	}
	if c.Conditions[0].WasTrue != 1 || c.Conditions[0].WasFalse != 0 || c.Conditions[1].WasFalse != 1 || c.Conditions[1].Line != 4 {
		t.Errorf("%+v", c.Conditions)
	}
	if got := policytests.CoveredPercent(half.Coverage); got != 40 {
		t.Errorf("%d %% are covered, want 2 of 5", got)
	}
	whole := runFile(t, policytest.Options{Policies: noCurl}, oneCase("tool: process.run, args: {argv: [x]}, facts: {exec: {basename: make}}", "verdict: ask")+
		"  - name: two\n    call: {tool: process.run, args: {argv: [x]}, facts: {exec: {basename: curl}}}\n    expect: {verdict: deny}\n"+
		"  - name: three\n    call: {tool: process.run, args: {argv: [x]}}\n    expect: {verdict: ask}\n")
	if got := policytests.CoveredPercent(whole.Coverage); got != 100 || whole.Coverage[0].Determined != 1 || whole.Coverage[0].Applied != 1 {
		t.Errorf("%d %%: %+v", got, whole.Coverage)
	}
	if got := policytests.CoveredPercent(nil); got != 100 {
		t.Errorf("nothing to cover is %d %%", got)
	}
}

// Sources that do not load are not tested.
func TestSourcesThatDoNotLoad(t *testing.T) {
	t.Parallel()
	report := runFile(t, policytest.Options{Policies: "permit(principal"}, oneCase("tool: fs.read", "verdict: deny"))
	if len(report.Results) != 0 || len(report.Failures()) == 0 {
		t.Errorf("%+v", report)
	}
}

func TestRunTestsEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	files := []policy.Source{{Name: "a", Text: oneCase("tool: fs.read", "verdict: deny")}}
	if _, err := policytests.Run(ctx, policytest.Config(policytest.Options{}), files); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// Only the first of many failing cases are explained, so that one file does not occupy the
// daemon for minutes. Not all sets of cases that declare members are cached.
func TestManyFailures(t *testing.T) {
	t.Parallel()
	text := &strings.Builder{}
	text.WriteString("principal: agent:coder\ntests:\n")
	for i := range 101 {
		roles := []string{"agent", "developer", "operator", "auditor", "admin", "owner"}
		fmt.Fprintf(text, "  - {name: n%d, call: {tool: fs.read, args: {path: a}, roles: [%s]}, expect: {verdict: deny}}\n",
			i, strings.Join(append(roles[i%6:], roles[:i/6%6]...), ", "))
	}
	report := runFile(t, policytest.Options{}, text.String())
	if report.Failed() != 101 {
		t.Fatalf("%d cases failed", report.Failed())
	}
	first, last := report.Results[0].Message, report.Results[100].Message
	if want := "expected verdict deny, got allow"; !strings.HasPrefix(first, want+": ") || last != want {
		t.Errorf("the first says %q, the last %q", first, last)
	}
}
