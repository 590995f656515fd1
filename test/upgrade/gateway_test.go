//go:build linux

package upgrade

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/must"
	"palyra/internal/identity"
	"palyra/test/process"
)

// gateway is a palyrad of some release with its palyra.
type gateway struct {
	*process.Palyrad
	palyra string
}

// newGateway returns a gateway with the programs in a directory. Its own directory may contain
// the state of an older release.
func newGateway(t *testing.T, from, dir string) *gateway {
	t.Helper()
	g := &gateway{process.NewPalyrad(t, filepath.Join(from, "palyrad"), dir), filepath.Join(from, "palyra")}
	text := fmt.Sprintf(settings, g.State, g.Policies, g.Workspace)
	must.Do(t, os.WriteFile(g.Config, []byte(text), 0o600))
	return g
}

// settings are valid in both releases. Without dual control, the host can add the members
// without a second approver.
const settings = `state_dir = %q
dual_control = false
vault.backend = "file"
roles = ["security"]
max_calls_per_session = 1000000
[listen]
api = "127.0.0.1:0"
metrics = ""
console = ""
[policy]
dir = %q
[approvals]
default_timeout = "24h"
[storage]
reserve_bytes = 1048576
[quotas]
bytes_per_second = 1073741824
[[workspaces]]
name = "default"
path = %q
[rate_limits]
global_factor = 1000
[rate_limits.read]
per_second = 10000
burst = 10000
[rate_limits.decide]
per_second = 10000
burst = 10000
[rate_limits.mutate]
per_second = 10000
burst = 10000
[rate_limits.tool_call]
per_second = 10000
burst = 10000
`

// run runs palyrad or palyra and waits until it exits.
func (g *gateway) run(program string, env []string, args ...string) process.Result {
	g.T.Helper()
	cmd := exec.CommandContext(g.T.Context(), program, args...)
	cmd.Env, cmd.Dir = append(process.Environment(g.Dir), env...), g.Dir
	return process.Finish(g.T, cmd)
}

// host runs a palyrad command on the gateway's host, and fails the test unless it succeeds.
func (g *gateway) host(args ...string) {
	g.T.Helper()
	g.run(g.Program, nil, append([]string{"--config", g.Config}, args...)...).Want(g.T, 0)
}

// bundle returns the directory of a member's credential.
func (g *gateway) bundle(name string) string {
	if name == "local" {
		return filepath.Join(g.State, "operator")
	}
	return filepath.Join(g.Dir, "bundles", name)
}

// address returns the address of the running palyrad.
func (g *gateway) address() string {
	g.T.Helper()
	m := process.ReadyLine.FindStringSubmatch(g.Log().String())
	if m == nil {
		g.T.Fatal("palyrad is not ready")
	}
	return m[1]
}

// client is a member at the gateway.
type client struct {
	g         *gateway
	name      string
	calls     palyrav1connect.GatewayServiceClient
	approvals palyrav1connect.ApprovalsServiceClient
	policies  palyrav1connect.PolicyServiceClient
	status    palyrav1connect.StatusServiceClient
	journal   palyrav1connect.JournalServiceClient
	members   palyrav1connect.AccessServiceClient
	attested  palyrav1connect.AttestationServiceClient
}

// as returns a client with the credential of a member.
func (g *gateway) as(name string) *client {
	g.T.Helper()
	bundle := must.Get(identity.ReadBundle(g.bundle(name)))(g.T)
	h := &http.Client{Transport: &http.Transport{TLSClientConfig: bundle.ClientTLS(), ForceAttemptHTTP2: true}}
	g.T.Cleanup(h.CloseIdleConnections)
	url := "https://" + g.address()
	return &client{
		g: g, name: name,
		calls: palyrav1connect.NewGatewayServiceClient(h, url), approvals: palyrav1connect.NewApprovalsServiceClient(h, url),
		policies: palyrav1connect.NewPolicyServiceClient(h, url), status: palyrav1connect.NewStatusServiceClient(h, url),
		journal: palyrav1connect.NewJournalServiceClient(h, url), members: palyrav1connect.NewAccessServiceClient(h, url),
		attested: palyrav1connect.NewAttestationServiceClient(h, url),
	}
}

// run runs palyra with the credential.
func (c *client) run(args ...string) process.Result {
	c.g.T.Helper()
	return c.g.run(c.g.palyra, []string{"PALYRA_CONFIG=" + c.g.Config, "PALYRA_CREDENTIALS=" + c.g.bundle(c.name), "PALYRA_ADDRESS=" + c.g.address()}, args...)
}

// ok runs palyra, fails the test unless it succeeds, and returns its output.
func (c *client) ok(args ...string) string {
	c.g.T.Helper()
	r := c.run(args...)
	r.Want(c.g.T, 0)
	return r.Out
}
