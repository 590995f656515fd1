package lint_test

import (
	"encoding/json"
	"strings"
	"testing"

	"palyra/internal/call/policy/finding"
	"palyra/internal/call/policy/lint"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/tool"
)

// lines is a descriptor with the properties of shell.run that policies use.
var lines = tool.Descriptor{
	Name: "shell.run", Title: "Run a line", Executor: tool.TierCBubblewrap, Destructive: true, Capabilities: []tool.Capability{tool.ProcessExec},
	InputSchema: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["command"],"properties":{"command":{"type":"string"}}}`),
}

// found returns the findings about policies that have a code or are errors, as text.
func found(policies, code string, tools ...tool.Descriptor) (helps []string) {
	for _, f := range lint.Check(policytest.Config(policytest.Options{Policies: policies, Tools: tools})) {
		if f.Code == code || f.Severity == finding.SeverityError {
			helps = append(helps, f.Message+": "+f.Help)
		}
	}
	return helps
}

// TestShellLeftOut: a policy that restricts programs gets a finding if it omits shell.run,
// which also runs them.
func TestShellLeftOut(t *testing.T) {
	t.Parallel()
	const one = `forbid(principal, action == Action::"tool.execute/process.run", resource) when { context.risk > 50 };`
	if got := found(one, finding.CodeShellLeftOut, lines); len(got) != 1 || !strings.Contains(got[0], "tool.execute/shell.run") {
		t.Errorf("found %q", got)
	}
	for name, policies := range map[string]string{
		"both":           `forbid(principal, action in [Action::"tool.execute/process.run", Action::"tool.execute/shell.run"], resource) when { context.risk > 50 };`,
		"another rule":   one + "\n" + `forbid(principal, action == Action::"tool.execute/shell.run", resource);`,
		"all tools":      `forbid(principal, action in Action::"tool.execute", resource) when { context.risk > 50 };`,
		"a permit":       `permit(principal, action == Action::"tool.execute/process.run", resource) when { context.approval.granted && context.egress.mode != "none" };`,
		"another tool":   `forbid(principal, action == Action::"tool.execute/http.fetch", resource) when { context.risk > 50 };`,
		"nothing at all": "",
	} {
		if got := found(policies, finding.CodeShellLeftOut, lines); len(got) > 0 {
			t.Errorf("%s: found %q", name, got)
		}
	}
	if got := found(one, finding.CodeShellLeftOut); len(got) > 0 {
		t.Errorf("without the tool: found %q", got)
	}
}

// TestAmongCommands: a permit that requires one command in a line allows all other commands in
// it, which is reported.
func TestAmongCommands(t *testing.T) {
	t.Parallel()
	permit := func(condition string) string {
		return `permit(principal, action == Action::"tool.execute/shell.run", resource) when { context has shell && ` + condition + ` && context.approval.granted && context.egress.mode != "none" };`
	}
	forbid := func(condition string) string {
		return `forbid(principal, action == Action::"tool.execute/shell.run", resource) when { context has shell && ` + condition + ` };`
	}
	for _, policies := range []string{
		permit(`context.shell.commands.contains("ls")`), permit(`context.shell.subcommands.containsAny(["git status"])`), permit(`context.shell.lines.containsAll(["ls"])`),
		permit(`(context.shell.origins.contains("system") || context.risk < 3)`), forbid(`!context.shell.commands.contains("ls")`),
		permit(`context has exec && context.exec.env.contains("GOOS")`), permit(`context has exec && context.exec.starts.contains("ls")`),
	} {
		if got := found(policies, finding.CodeCommandLine, lines); len(got) != 1 || !strings.Contains(got[0], "containsAll(context.") {
			t.Errorf("%s: found %q", policies, got)
		}
	}
	for _, policies := range []string{
		permit(`["ls"].containsAll(context.shell.commands)`), permit(`!context.shell.commands.contains("rm")`), forbid(`context.shell.commands.contains("rm")`),
		forbid(`context.shell.subcommands.containsAny(["git push", "git ?"])`), forbid(`context.shell.special.contains("eval")`),
		permit(`context has exec && ["GOOS"].containsAll(context.exec.env)`), forbid(`context has exec && context.exec.starts.contains("curl")`),
	} {
		if got := found(policies, finding.CodeCommandLine, lines); len(got) > 0 {
			t.Errorf("%s: found %q", policies, got)
		}
	}
	if got := found(forbid(`context.shell.special.contains("evil")`), finding.CodeUnknownValue, lines); len(got) != 1 {
		t.Errorf("a construct that there is not: found %q", got)
	}
}
