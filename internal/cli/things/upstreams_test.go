package things_test

import (
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/clitest"
)

// TestGoldenUpstreams compares the output of every listing and page in every format.
func TestGoldenUpstreams(t *testing.T) {
	t.Parallel()
	clitest.Golden(t, map[string][]string{
		"mcp_list":    {"mcp", "list"},
		"mcp_show":    {"mcp", "show", clitest.UpstreamName},
		"mcp_add":     {"mcp", "add", "search", "--url", "https://mcp.example.org/mcp", "--header", "Authorization: Bearer vault://global/search", "--trust"},
		"mcp_refresh": {"mcp", "refresh", clitest.UpstreamName},
		"mcp_approve": {"mcp", "approve", clitest.UpstreamName, "--yes"},
	})
}

func TestUpstreams(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Cases("", clitest.Cases{
		{"a program", []string{"mcp", "add", "files", "--workspace", "demo", "--write", "--env", "A=b", "--", "mcp-files", "--root", "/workspace"}, 0, "files"},
		{"a secret as it is", []string{"mcp", "add", clitest.UpstreamName, "--inject", "vault://global/signing", "--", "mcp-signer"}, 0, "starting github"},
		{"a header without a secret", []string{"mcp", "add", "x", "--url", "https://x.example", "--header", "Authorization: Bearer abc"}, 2, "vault://"},
		{"an approval without review", []string{"mcp", "approve", clitest.UpstreamName, "--yes"}, 0, "github"},
		{"no such server", []string{"mcp", "show", "other"}, 1, "the upstream server other does not exist"},
		{"removed", []string{"mcp", "remove", clitest.UpstreamName, "--yes"}, 0, "was removed"},
		{"removed unasked", []string{"mcp", "remove", clitest.UpstreamName}, 2, "--yes"},
	})
	added := clitest.Requests[*palyrav1.AddUpstreamRequest](w)[0].GetServer()
	if c := added.GetCommand(); len(c) != 3 || c[0] != "mcp-files" || c[1] != "--root" || !added.GetWrite() || added.GetEnv()[0] != "A=b" {
		t.Errorf("added %v", added)
	}
	if got := clitest.Requests[*palyrav1.AddUpstreamRequest](w)[1].GetServer().GetInject(); len(got) != 1 || got[0] != "vault://global/signing" {
		t.Errorf("injected %q", got)
	}
	if got := clitest.Requests[*palyrav1.ApproveUpstreamRequest](w)[0].GetPendingDigest(); got != "sha256:bb" {
		t.Errorf("approved %s", got)
	}
}
