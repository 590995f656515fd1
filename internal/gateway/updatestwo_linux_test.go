//go:build palyrainit

package gateway

import (
	"context"
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/must"
	"palyra/internal/exec/upstream/packages"
	"palyra/internal/exec/upstream/packages/packagestest"
	"palyra/internal/surface/api"
)

// packed has the package of a server installed by pip from a test registry, and returns it.
func (d *team) packed(registry *packagestest.Registry, version string) packages.Installed {
	t := d.t
	t.Helper()
	registry.PutProbe(version)
	local := d.as("local")
	r := must.Get(local.mcp.ResolvePackage(t.Context(), &palyrav1.ResolvePackageRequest{Server: "packed", Ecosystem: "pypi", Name: "probe-server", Registry: registry.Index}))(t)
	input := must.Get(json.Marshal(map[string]string{
		"server": "packed", "resolution": r.GetResolution(), "ecosystem": r.GetEcosystem(), "package": r.GetName(), "version": r.GetVersion(), "integrity": r.GetIntegrity(), "registry": r.GetRegistry(),
	}))(t)
	stream := must.Get(palyrav1connect.NewGatewayServiceClient(d.client(), d.url()).CallTool(t.Context(), &palyrav1.CallToolRequest{Tool: packages.ToolName, InputJson: input}))(t)
	defer func() { _ = stream.Close() }()
	var made packages.Installed
	for stream.Receive() {
		if v := stream.Msg().GetResult(); v != nil {
			must.Do(t, json.Unmarshal(v.GetResultJson(), &made))
		}
	}
	if err := stream.Err(); err != nil || made.Package.Version != version {
		t.Fatalf("installed %+v, %v", made, api.ReasonOf(err))
	}
	return made
}

// TestUpdateTakesTwo: a server that runs from an installed package keeps its version until a
// second person approves another. The approval request names the new version.
func TestUpdateTakesTwo(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("pip3"); err != nil {
		t.Skip("the machine has no pip; `make test` installs it")
	}
	cfg := policyConfigAt(t)
	cfg.ProcessRunner.Enabled, cfg.AllowSensitiveTools = true, true
	d := newTeam(t, cfg)
	registry := packagestest.New(t)
	first := d.packed(registry, "1.0")
	command := []string{first.Program}
	w := d.as("bob").ask("local", func(ctx context.Context, p person) error {
		_, err := p.mcp.AddUpstream(ctx, &palyrav1.AddUpstreamRequest{Server: &palyrav1.UpstreamServer{
			Name: "packed", Command: command, Package: &palyrav1.UpstreamPackage{Prefix: first.Package.Prefix},
		}})
		return err
	})
	must.Do(t, d.as("bob").vote(w.question, true))
	must.Do(t, api.ReasonOf(<-w.done))
	runs := func(made packages.Installed) {
		t.Helper()
		up := must.Get(d.as("local").mcp.RefreshUpstream(t.Context(), &palyrav1.RefreshUpstreamRequest{Name: "packed"}))(t).GetUpstream()
		if p := up.GetServer().GetPackage(); p.GetPrefix() != made.Package.Prefix || p.GetVersion() != made.Package.Version || up.GetTools() != 1 || up.GetProblem() != "" {
			t.Errorf("it comes from %v, with %d tools: %s", p, up.GetTools(), up.GetProblem())
		}
	}
	runs(first)

	second := d.packed(registry, "1.1")
	update := func(ctx context.Context, p person) error {
		_, err := p.mcp.UpdateUpstream(ctx, &palyrav1.UpdateUpstreamRequest{Name: "packed", Prefix: second.Package.Prefix})
		return err
	}
	w = d.as("bob").ask("local", update)
	text := w.question.GetPrompt().GetSummary() + strings.Join(w.question.GetPrompt().GetNotes(), " ")
	if !strings.Contains(text, "probe-server 1.1") || !strings.Contains(text, second.Package.Integrity) {
		t.Errorf("the question is %s", text)
	}
	runs(first)
	if d.as("local").vote(w.question, true) == nil {
		t.Error("the yes of who asks was taken")
	}
	w.withdraw()
	runs(first)
	w = d.as("bob").ask("local", update)
	must.Do(t, d.as("bob").vote(w.question, true))
	must.Do(t, api.ReasonOf(<-w.done))
	runs(second)
	if got := registry.Asked(); !slices.ContainsFunc(got, func(path string) bool { return strings.Contains(path, "1.1") }) {
		t.Errorf("the registry was asked for %v", got)
	}
}
