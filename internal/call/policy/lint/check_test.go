package lint_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"palyra/internal/call/policy"
	"palyra/internal/call/policy/finding"
	"palyra/internal/call/policy/lint"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// wrong is a policy text and the expected finding: its severity, code and position, the
// character under the caret, and a part of its help.
var wrong = []struct{ text, want, under, help string }{
	{`permt(principal, action, resource);`, "error syntax 1:1", "permt", "did you mean permit?"},
	{"permit(principal, action, resource)\nwehn { true };", "error syntax 2:1", "wehn", "did you mean when?"},
	{`permit(principal action, resource);`, "error syntax 1:18", "action", ""},
	{`permit(principal, action, resource) when { context.risk > };`, "error syntax 1:59", "}", ""},
	{`permit(principal, action, resource) when { true }`, "error syntax 1:50", "", ""},
	{`permit(principal, action, resource) when { "abc };`, "error syntax 1:44", `"abc`, ""},
	{`permit(principal, action, resource) when { ü };`, "error syntax 1:44", "ü", ""},
	{`/* ü */ permit(principal, action == Action::"tool.execute", resource);`,
		"error never_applies 1:27", "action", "write `action in Action::\"tool.execute\"`"},
	{`permit(principal, action == Action::"tool.execute/fs.reed", resource);`,
		"error unknown_name 1:37", `"tool.execute/fs.reed"`, "did you mean tool.execute/fs.read?"},
	{`permit(principal, action == Action::"tool.execute/github/create", resource);`,
		"warning waiting 1:37", `"tool.execute/github`, "palyra mcp add github"},
	{`permit(principal, action == Action::"tool.execute/create", resource);`,
		"error unknown_name 1:37", `"tool.execute/create`, "no tool named create is pinned"},
	{"forbid(principal, action in Action::\"tool.execute\", resource)\nwhen {\n\tcontext.rsk > 3 };",
		"error unknown_name 3:10", "rsk", "did you mean risk?"},
	{`forbid(principal, action == Action::"tool.execute/fs.read", resource) when { context.args.pth like "x*" };`,
		"error unknown_name 1:91", "pth", "did you mean path?"},
	{`forbid(principal, action in Action::"tool.execute", resource) when { context.args.path like "x*" };`,
		"error unknown_name 1:83", "path", "name the action"},
	{`forbid(principal, action in Action::"tool.execute", resource) when { context.host like "x*" };`,
		"error unguarded_optional 1:78", "host", "`context has host && ...`"},
	{`forbid(principal, action == Action::"tool.execute/fs.read", resource) when { context.risk > 1 && context.args.limit > 3 };`,
		"error unguarded_optional 1:111", "limit", "`context.args has limit && ...`"},
	{`forbid(principal, action in Action::"tool.execute", resource) when { context has hots && context.risk > 1 };`,
		"error unknown_name 1:82", "hots", "did you mean host?"},
	{`forbid(principal, action in Action::"tool.execute", resource) when { context has exec.inline_cod };`,
		"error unknown_name 1:87", "inline_cod", "did you mean inline_code?"},
	{`forbid(principal, action in Action::"tool.execute", resource) when { context.egress.mode == "stict" };`,
		"error unknown_value 1:93", `"stict"`, "did you mean strict?"},
	{`forbid(principal, action in Action::"tool.execute", resource) when { ["strict", "open"].contains(context["egress"]["mode"]) };`,
		"error unknown_value 1:81", `"open"`, `there are: ["strict" "preflight" "none" ""]`},
	{`forbid(principal, action in Action::"tool.execute", resource) unless { context.capabilities.containsAny(["network", "process_exce"]) };`,
		"error unknown_value 1:117", `"process_exce"`, "did you mean process_exec?"},
	{`forbid(principal, action in Action::"tool.execute", resource) unless { context.approval.votes.contains({role: "ownr", surface: "cli", paired: false, present: false}) };`,
		"error unknown_value 1:111", `"ownr"`, "did you mean owner?"},
	{`forbid(principal, action in Action::"tool.execute", resource) unless { context.approval.votes.containsAny([{role: "*", surface: "console", paired: true, present: false}, {role: "*", surface: "consol", paired: true, present: false}]) };`,
		"error unknown_value 1:192", `"consol"`, "did you mean console?"},
	{`forbid(principal, action == Action::"workspace.commit", resource) when { "gti" != context.sandbox.tier && context.changes.classes == ["gti"] };`,
		"error unknown_value 1:74", `"gti"`, "there are"},
	{`forbid(principal, action in Action::"tool.execute", resource) when { context.risk == "high" };`,
		"error type 1:83", "==", ""},
	{`forbid(principal, action in Action::"tool.execute", resource) when { context.risk > 3 && context.tool_name };`,
		"error type 1:98", "tool_name", ""},
	{`forbid(principal, action in Action::"tool.execute", resource) when { resource.sensitiv };`,
		"error unknown_name 1:79", "sensitiv", "did you mean sensitive?"},
	{`forbid(principal in Role::"secrity", action in Action::"tool.execute", resource);`,
		"error unknown_entity 1:27", `"secrity"`, "declare the role"},
	{`forbid(principal in Role::"ownr", action in Action::"tool.execute", resource);`,
		"error unknown_entity 1:27", `"ownr"`, "did you mean owner?"},
	{`forbid(principal, action in Action::"tool.execute", resource == Tool::"fs.raed");`,
		"error unknown_entity 1:71", `"fs.raed"`, "did you mean fs.read?"},
	{`forbid(principal == User::"alcie", action in Action::"tool.execute", resource);`,
		"warning unknown_entity 1:27", `"alcie"`, "did you mean alice?"},
	{`forbid(principal == Usr::"alice", action in Action::"tool.execute", resource);`,
		"error unknown_name 1:21", "Usr", "did you mean User?"},
	{`permit(principal, action in Action::"tool.execute", resource) when { context.approval.granted && context.approval.standing };`,
		"error not_monotone 1:115", "standing", "only refuse standing"},
	{`permit(principal, action in Action::"tool.execute", resource) when { context.approval.granted && context.approval.approvers < 5 };`,
		"error not_monotone 1:115", "approvers", "require a minimum"},
	{`forbid(principal, action in Action::"tool.execute", resource) unless { context.approval.approvers == 2 };`,
		"error not_monotone 1:89", "approvers", "require a minimum"},
	{`forbid(principal, action in Action::"tool.execute", resource) unless { context.approval.granted && context.approval.age_seconds > 60 };`,
		"error not_monotone 1:117", "age_seconds", "from above"},
	{`forbid(principal, action in Action::"tool.execute", resource) when { context.approval.votes.contains({role: "*", surface: "cli", paired: false, present: false}) };`,
		"error not_monotone 1:87", "votes", "only require votes"},
	{`forbid(principal, action in Action::"tool.execute", resource) when { context.approval.granted };`,
		"error not_monotone 1:87", "granted", "unless"},
	{`forbid(principal, action in Action::"tool.execute", resource) when { context == context };`,
		"error not_monotone 1:78", "==", ""},
	{`forbid(principal, action in Action::"tool.execute", resource) when { context.risk * 2 > 50 };`,
		"warning may_error 1:83", "*", "compare values directly"},
	{`forbid(principal, action in Action::"tool.execute", resource) when { context has path && context.path like "Secrets/*" };`,
		"warning path_spelling 1:103", "like", "write `context has path_folded && context.path_folded like \"secrets/*\"`"},
	{`forbid(principal, action in Action::"tool.execute", resource) when { context has path && context.path == ".env" };`,
		"warning path_spelling 1:103", "==", "write `context has path_folded && context.path_folded == \".env\"`"},
	{`forbid(principal, action in Action::"tool.execute", resource) when { context has path && "K\u{c9}Y" == context["path"] };`,
		"warning path_spelling 1:101", "==", "write `context has path_folded && \"kéy\" == context[\"path_folded\"]`"},
	{`forbid(principal, action in Action::"tool.execute", resource) when { context.protected } unless { context has path && context.path != "a" };`,
		"warning path_spelling 1:132", "!=", `context.path_folded != "a"`},
	{`forbid(principal, action in Action::"tool.execute", resource) unless { context has path && !(context.path like "Src/*") };`,
		"warning path_spelling 1:107", "like", `context.path_folded like "src/*"`},
	{`permit(principal, action in Action::"tool.execute", resource) when { context has path && !(context.path like "infra/*") && context.approval.granted && context.egress.mode != "none" };`,
		"warning path_spelling 1:105", "like", `context.path_folded like "infra/*"`},
	{`permit(principal, action in Action::"tool.execute", resource) when { context.approval.granted && context.egress.mode != "none" } unless { context has path && context.path == "infra" };`,
		"warning path_spelling 1:172", "==", `context.path_folded == "infra"`},
	{`forbid(principal, action in Action::"tool.execute", resource) unless { context has path && (if context.path like "a/*" then context.risk < 5 else true) };`,
		"warning path_spelling 1:109", "like", `context.path_folded like "a/*"`},
	{`forbid(principal, action in Action::"tool.execute", resource) unless { context has path && (context.path like "a/*") == (context.risk < 5) };`,
		"warning path_spelling 1:106", "like", `context.path_folded like "a/*"`},
	{`forbid(principal, action in Action::"tool.execute", resource) when { context has path && ["1", "A\"*"].contains(context.path) };`,
		"warning path_spelling 1:104", "contains", "write `context has path_folded && [\"1\", \"a\\\"*\"].contains(context.path_folded)`"},
	{`forbid(principal, action in Action::"tool.execute", resource) when { context has path && [context.path].containsAny(["1", "a"]) };`,
		"warning path_spelling 1:105", "containsAny", `[context.path_folded].containsAny(["1", "a"])`},
	{`forbid(principal, action in Action::"tool.execute", resource) when { context has path && (if context.protected then context.path else "1") == "x" };`,
		"warning path_spelling 1:140", "==", `(if context.protected then context.path_folded else "1") == "x"`},
	{`forbid(principal, action in Action::"tool.execute", resource) when { context has path && context.risk > 3 && (context.protected || context.path like "*\*E*1\*") };`,
		"warning path_spelling 1:145", "like", `context.path_folded like "*\*e*1\*"`},
	{`forbid(principal, action in Action::"tool.execute", resource) when { context has path_folded && context.path_folded like "*.PEM" };`,
		"warning path_spelling 1:117", "like", "write `context has path_folded && context.path_folded like \"*.pem\"`"},
	{`permit(principal, action in Action::"tool.execute", resource) when { context has path_folded && ["a", "e\u{301}"].contains(context.path_folded) && context.approval.granted && context.egress.mode != "none" };`,
		"warning path_spelling 1:115", "contains", `["a", "é"].contains(context.path_folded)`},
	{`permit(principal, action == Action::"tool.execute/process.run", resource) when { context has exec.line && context.exec.line like "*npm test*" && context.approval.granted && context.egress.mode != "none" };`,
		"warning command_line 1:125", "like", "a whole line"},
	{`permit(principal, action == Action::"tool.execute/process.run", resource) when { context has exec.line && context.exec.line like "npm test*" && context.approval.granted && context.egress.mode != "none" };`,
		"warning command_line 1:125", "like", "a whole line"},
	{`forbid(principal, action == Action::"tool.execute/process.run", resource) when { context has exec.line && context.exec.line == "git push" };`,
		"warning command_line 1:125", "==", "permit the commands that may run"},
	{`forbid(principal, action == Action::"tool.execute/process.run", resource) unless { context has exec.line && context.exec.line like "npm test*" };`,
		"warning command_line 1:127", "like", "a whole line"},
	{`permit(principal, action == Action::"tool.execute/process.run", resource) when { context has exec.line && !(context.exec.line like "git push*") && context.approval.granted && context.egress.mode != "none" };`,
		"warning command_line 1:127", "like", "permit the commands that may run"},
	{`forbid(principal, action in [Action::"journal.*", Action::"journal.verify"], resource);`,
		"warning not_performed 1:1", "forbid", "written ahead"},
	{`forbid(principal, action == Action::"channel.send", resource);`, "warning not_performed 1:1", "forbid", ""},
	{`permit(principal, action in Action::"tool.execute", resource) when { false };`,
		"error never_applies 1:1", "permit", ""},
	{`forbid(principal, action in Action::"tool.execute", resource) when { resource.read_only && resource.destructive };`,
		"warning never_applies 1:1", "forbid", ""},
	{`permit(principal, action, resource);`, "error permits_everything 1:1", "permit", "name the actions"},
	{`@id("x") permit(principal, action in Action::"tool.execute", resource);`,
		"error waives_approval 1:10", "permit", `@waives("approval: <why>")`},
	{`permit(principal, action == Action::"tool.execute/fs.read", resource);`,
		"error waives_approval 1:1", "permit", ""},
	{`permit(principal, action == Action::"workspace.commit", resource);`,
		"error waives_approval 1:1", "permit", `@waives("approval: <why>")`},
	{`permit(principal, action == Action::"workspace.commit", resource) when { context.changes.classes == ["agent"] };`,
		"error waives_approval 1:1", "permit", ""},
	{`@waives("approval: x") permit(principal, action == Action::"workspace.commit", resource) when { context.changes.protected.isEmpty() };`,
		"warning waives_approval 1:2", "waives", ""},
	{`forbid(principal, action == Action::"workspace.commit", resource) when { context.approval.granted };`,
		"error not_monotone 1:91", "granted", "unless"},
	{`forbid(principal, action == Action::"workspace.commit", resource) when { context.changes.protectd.isEmpty() };`,
		"error unknown_name 1:90", "protectd", "did you mean protected?"},
	{`permit(principal, action == Action::"tool.execute/process.run", resource) when { context.approval.granted };`,
		"error host_network 1:1", "permit", `context.egress.mode == "none"`},
	{`permit(principal, action in Action::"tool.execute", resource) when { context.approval.granted && context.egress.mode != "preflight" };`,
		"error host_network 1:1", "permit", ""},
	{`permit(principal, action in Action::"tool.execute", resource) when { context.approval.granted && context.egress.hosts.isEmpty() };`,
		"error host_network 1:1", "permit", ""},
	{`permit(principal, action in Action::"tool.execute", resource == Tool::"process.run") when { context.approval.granted };`,
		"error host_network 1:1", "permit", ""},
	{`permit(principal, action in Action::"tool.execute", resource) when { resource.sensitive && context.risk < 3 };`,
		"error waives_approval 1:1", "permit", ""},
	{`permit(principal, action in Action::"tool.execute", resource) when { context.approval.granted || context.risk < 3 };`,
		"error waives_approval 1:1", "permit", ""},
	{`@waives("approval: x") permit(principal, action in Action::"tool.execute", resource) when { context.approval.granted };`,
		"warning waives_approval 1:2", "waives", ""},
	{`@idd("x") permit(principal, action in Action::"tool.execute", resource) when { context.approval.granted };`,
		"error annotation 1:2", "idd", "did you mean id?"},
	{`@mode("shadow") permit(principal, action in Action::"tool.execute", resource) when { context.approval.granted };`,
		"error annotation 1:2", "mode", "the annotations are"},
	{`@severity("hgih") permit(principal, action in Action::"tool.execute", resource) when { context.approval.granted };`,
		"error annotation 1:2", "severity", "did you mean high?"},
	{`@timeout("5") permit(principal, action in Action::"tool.execute", resource) when { context.approval.granted };`,
		"error annotation 1:2", "timeout", ""},
	{`@timeout("1s") permit(principal, action in Action::"tool.execute", resource) when { context.approval.granted };`,
		"warning annotation 1:2", "timeout", ""},
	{`@waives("because") permit(principal, action in Action::"tool.execute", resource);`,
		"error annotation 1:2", "waives", ""},
	{`@ask_reason("") forbid(principal, action in Action::"tool.execute", resource) unless { context.approval.granted };`,
		"error annotation 1:2", "ask_reason", ""},
	{`@ask_reason("Which\nticket?") forbid(principal, action in Action::"tool.execute", resource) unless { context.approval.granted };`,
		"error annotation 1:2", "ask_reason", ""},
	{`@ask_reason("` + strings.Repeat("x", 121) + `") forbid(principal, action in Action::"tool.execute", resource) unless { context.approval.granted };`,
		"error annotation 1:2", "ask_reason", ""},
	{`@ask_resaon("Which ticket?") forbid(principal, action in Action::"tool.execute", resource) unless { context.approval.granted };`,
		"error annotation 1:2", "ask_resaon", "did you mean ask_reason?"},
	{"@reason(\"a\u202eb\") permit(principal, action in Action::\"tool.execute\", resource) when { context.approval.granted };",
		"error annotation 1:2", "reason", ""},
	{`@reason permit(principal, action in Action::"tool.execute", resource) when { context.approval.granted };`,
		"error annotation 1:2", "reason", ""},
	{"@id(\"a\") forbid(principal, action in Action::\"tool.execute\", resource) when { context.risk > 50 };\n" +
		"@id(\"b\") forbid(principal == User::\"alice\", action == Action::\"tool.execute/fs.read\", resource) when { context.protected && context.risk > 50 };",
		"warning shadowed 2:10", "forbid", "remove it"},
	{"@id(\"a\") forbid(principal, action in Action::\"tool.execute\", resource) when { context.risk > 50 };\n" +
		"@id(\"b\") permit(principal, action in Action::\"tool.execute\", resource) when { context.approval.granted && context.risk > 50 && context.egress.mode != \"none\" };",
		"warning shadowed 2:10", "permit", ""},
	{"@id(\"a\") forbid(principal, action in Action::\"tool.execute\", resource) when { context.risk > 50 };\n" +
		"@id(\"a\") forbid(principal, action in Action::\"tool.execute\", resource) when { context.risk > 60 };",
		"error duplicate_id 2:2", "id", ""},
	{`@id("tools.not-sensitive") forbid(principal, action in Action::"tool.execute", resource) when { context.risk > 60 };`,
		"error duplicate_id 1:2", "id", ""},
	{"forbid(principal, action in Action::\"tool.execute\", resource) when { " + strings.Repeat("(", 200) + "true" + strings.Repeat(")", 200) + " };",
		"error too_large 1:169", "(", ""},
}

func TestFindings(t *testing.T) {
	t.Parallel()
	for _, c := range wrong {
		t.Run(c.want, func(t *testing.T) {
			findings := lint.Check(policytest.Config(policytest.Options{Policies: c.text}))
			var all []string
			for _, f := range findings {
				got := fmt.Sprintf("%s %s %d:%d", f.Severity, f.Code, f.Line, f.Column)
				all = append(all, f.String())
				if got != c.want {
					continue
				}
				if under := string([]rune(f.SourceLine)[f.Column-1:]); !strings.HasPrefix(under, c.under) {
					t.Errorf("the caret is under %q, want %q", under, c.under)
				}
				if !strings.Contains(f.Help, c.help) {
					t.Errorf("help %q, want %q", f.Help, c.help)
				}
				return
			}
			t.Errorf("no finding %q for\n%s\ngot:\n%s", c.want, c.text, strings.Join(all, "\n"))
		})
	}
}

// fine are policies that must load without a finding about them.
var fine = []string{
	`forbid(principal, action in Action::"tool.execute", resource) when { context has exec.inline_code && context.exec.inline_code };`,
	`forbid(principal, action in Action::"tool.execute", resource) when { resource.destructive && context.approval.standing == true };`,
	`forbid(principal, action in Action::"tool.execute", resource) unless { context.approval.approvers + context.approval.by_role.owner * 2 >= 3 };`,
	`forbid(principal, action in Action::"tool.execute", resource) unless { !(context.approval.approvers < 2) };`,
	`forbid(principal, action in Action::"tool.execute", resource) unless { if context.risk > 3 then context.approval.approvers >= 2 else context.approval.granted };`,
	`@id("a") @waives("approval: the CI runner is thrown away") @severity("low") @timeout("90s") @reason("r") @remedy("m")
permit(principal == Agent::"coder", action == Action::"tool.execute/process.run", resource)
when { context.args.argv.contains("git") && !(context has host) && context.egress.mode != "none" };`,
	`permit(principal, action == Action::"tool.execute/process.run", resource) when { context.approval.granted && context.egress.mode == "none" };`,
	`permit(principal, action in Action::"tool.execute", resource) when { context.approval.granted && ["none", "strict"].contains(context.egress.mode) };`,
	`permit(principal, action == Action::"tool.execute/process.run", resource) when { context.approval.granted && context.egress.mode == "strict" };`,
	`permit(principal, action == Action::"tool.execute/http.fetch", resource) when { context.approval.granted && context.risk < 20 };`,
	`permit(principal, action == Action::"workspace.commit", resource) when { context.changes.protected.isEmpty() && context.exit_code == 0 };`,
	`permit(principal, action == Action::"workspace.commit", resource) when { context.approval.approvers >= 2 };`,
	`@waives("approval: its own files") permit(principal, action == Action::"workspace.commit", resource)
when { [".claude/settings.json"].containsAll(context.changes.protected) };`,
	`forbid(principal, action == Action::"workspace.commit", resource) when { context has exec && context.exec.in_workspace && context.exec.shebang != "" };`,
	`forbid(principal, action == Action::"tool.execute/http.fetch", resource) when { context.args has method && context.args["method"] == "POST" };`,
	`forbid(principal, action, resource) when { principal is Agent && principal.owner == User::"alice" && action == Action::"gateway.thaw" };`,
	`forbid(principal, action in Action::"tool.execute", resource) when { context has path_folded && (context.path_folded like "sécrets/*" || context.path_folded == "1/.env") };`,
	`forbid(principal, action in Action::"tool.execute", resource) when { context has path && (context.path like "*/*" || context.path == "." || context.path == context.tool_name) };`,
	`forbid(principal, action in Action::"tool.execute", resource) unless { context has path && context.path like "src/*" };`,
	`forbid(principal, action in Action::"tool.execute", resource) when { context has path && !(context.path like "src/*") };`,
	`forbid(principal, action in Action::"tool.execute", resource) when { context has path && context.path != "a" };`,
	`forbid(principal, action in Action::"tool.execute", resource) unless { context has path && !(context.path != "a") };`,
	`forbid(principal, action in Action::"tool.execute", resource) unless { context has path && (if context.risk > 3 then ["a", "b"].contains(context.path) else true) };`,
	`permit(principal, action in Action::"tool.execute", resource) when { context.approval.granted && context.egress.mode != "none" } unless { context has path && !(context.path == "a") };`,
	`forbid(principal, action == Action::"tool.execute/process.run", resource) unless { context has exec.line && context.exec.line == "npm test" };`,
	`forbid(principal, action == Action::"tool.execute/process.run", resource) when { context has exec.line && context.exec.line != "npm test" };`,
	`permit(principal, action in Action::"tool.execute", resource) when { context has path && context.path like "Docs/*" && context.approval.granted && context.egress.mode != "none" };`,
	`forbid(principal, action == Action::"approval.decide", resource) when { resource.severity == "critical" } unless { principal in Role::"owner" };`,
}

func TestCleanPoliciesHaveNoFindings(t *testing.T) {
	t.Parallel()
	for _, text := range fine {
		for _, f := range lint.Check(policytest.Config(policytest.Options{Policies: text})) {
			if f.File == "test.cedar" && f.Code != finding.CodeMayError {
				t.Errorf("%s\n%s", text, f)
			}
		}
	}
}

func TestFindingText(t *testing.T) {
	t.Parallel()
	text := "forbid(principal, action in Action::\"tool.execute\", resource)\nwhen {\n\tcontext.rsk > 3 };"
	_, err := policy.Load(policytest.Config(policytest.Options{Policies: text}))
	want := "test.cedar:3:10: error[unknown_name]: context has no attribute rsk for " +
		"tool.execute/fs.read, tool.execute/http.fetch, tool.execute/process.run\n" +
		"  \tcontext.rsk > 3 };\n  \t        ^\n  help: did you mean risk?"
	var load *finding.LoadError
	if !errors.As(err, &load) || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	if reason.Of(err) != reason.PolicyInvalid {
		t.Errorf("reason %v, want %v", reason.Of(err), reason.PolicyInvalid)
	}
}

func TestEveryFindingIsReported(t *testing.T) {
	t.Parallel()
	text := `permt(principal, action, resource);
forbid(principal, action in Action::"tool.execute", resource) when { context.rsk > 3 };
forbid(principal, action in Action::"tool.exec", resource);`
	var lines []int
	for _, f := range lint.Check(policytest.Config(policytest.Options{Policies: text})) {
		if f.Severity == finding.SeverityError {
			lines = append(lines, f.Line)
		}
	}
	if fmt.Sprint(lines) != "[1 2 3]" {
		t.Errorf("errors in lines %v, want one each in 1, 2 and 3", lines)
	}
}

func TestConfigFindings(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]policytest.Options{
		"tool twice":      {Tools: []tool.Descriptor{policytest.Read}},
		"reserved name":   {Tools: []tool.Descriptor{{Name: "(unknown)"}}},
		"broken schema":   {Tools: []tool.Descriptor{{Name: "x", InputSchema: []byte(`[]`)}}},
		"undeclared role": {Members: policytest.ManyMembers("").Members},
	} {
		if _, err := policy.Load(policytest.Config(o)); err == nil {
			t.Errorf("%s: loaded", name)
		}
	}
}

func FuzzCheck(f *testing.F) {
	for _, c := range wrong {
		f.Add(c.text)
	}
	for _, text := range fine {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		cfg := policy.Config{Sources: []policy.Source{{Name: "f.cedar", Text: text}}}
		for _, finding := range lint.Check(cfg) {
			if finding.Line > strings.Count(text, "\n")+1 {
				t.Errorf("line %d is behind the end: %s", finding.Line, finding)
			}
			_ = finding.String()
		}
	})
}

// TestSpellingHelp verifies that the text which a finding proposes loads without that finding.
func TestSpellingHelp(t *testing.T) {
	t.Parallel()
	n := 0
	for _, c := range wrong {
		if !strings.Contains(c.want, finding.CodePathSpelling) {
			continue
		}
		for _, f := range lint.Check(policytest.Config(policytest.Options{Policies: c.text})) {
			parts := strings.Split(f.Help, "`")
			if f.Code != finding.CodePathSpelling || len(parts) != 3 {
				continue
			}
			n++
			text := `forbid(principal, action in Action::"tool.execute", resource) when { ` + parts[1] + ` };`
			for _, again := range lint.Check(policytest.Config(policytest.Options{Policies: text})) {
				if again.File != "" {
					t.Errorf("%s\nis answered by\n%s", c.text, again)
				}
			}
		}
	}
	if n < 10 {
		t.Errorf("%d findings had a line to write", n)
	}
}
