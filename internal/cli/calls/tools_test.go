package calls_test

import (
	"fmt"
	"strings"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/clitest"
)

// TestToolsOfAgents: the list has the tools that the caller can call. Tools that agents run
// themselves, which only their hooks propose, are listed with --agents, and `tools show` finds
// them.
func TestToolsOfAgents(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	for n := range 80 {
		w.Gateway.Tools = append(w.Gateway.Tools, &palyrav1.Tool{Name: fmt.Sprintf("claude/Tool%02d", n), Executor: "external", InputSchemaJson: []byte(`{}`)})
	}
	w.Gateway.Tools = append(w.Gateway.Tools, &palyrav1.Tool{Name: "fs.read", Executor: "gateway", InputSchemaJson: []byte(`{}`)})
	w.Gateway.Hidden = []*palyrav1.HiddenTool{
		{Tool: &palyrav1.Tool{Name: "claude/Hidden", Executor: "external"}, Reason: "POLICY_DENIED"}, {Tool: &palyrav1.Tool{Name: "http.fetch", Executor: "gateway"}, Reason: "POLICY_DENIED"},
	}
	for _, c := range []struct {
		args     []string
		has, not string
		lines    int
	}{
		{[]string{"tools"}, "fs.read", "claude/", 1},
		{[]string{"tools", "list", "-o", "json"}, "fs.read", "claude/", 0},
		{[]string{"tools", "--agents"}, "claude/Tool79", "fs.read", 80},
		{[]string{"tools", "list", "--agents"}, "claude/Tool00", "fs.read", 80},
		{[]string{"tools", "list", "--hidden"}, "http.fetch", "claude/", 1},
		{[]string{"tools", "list", "--hidden", "--agents"}, "claude/Hidden", "http.fetch", 1},
		{[]string{"tools", "show", "claude/Tool01"}, "claude/Tool01", "fs.read", 0},
	} {
		r := w.Run(c.args...)
		w.Want(r, 0)
		if !strings.Contains(r.Out, c.has) || strings.Contains(r.Out, c.not) || c.lines > 0 && strings.Count(r.Out, "\n") != c.lines+1 {
			t.Errorf("%q:\n%s", c.args, r.Out)
		}
	}
	if r := w.Run("tools"); !strings.Contains(r.Err, "80 more of agents: palyra tools list --agents") || !strings.Contains(r.Err, "1 hidden: palyra tools list --hidden") {
		t.Error(r.Err)
	}
}
