package gateway

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/access"
	"palyra/internal/core/config"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/statedir"
	"palyra/internal/identity"
)

// as requests the gateway's status with the credential in a directory.
func (d *running) as(t *testing.T, dir string) (*palyrav1.GetStatusResponse, error) {
	t.Helper()
	bundle := must.Get(identity.ReadBundle(dir))(t)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: bundle.ClientTLS(), ForceAttemptHTTP2: true}, Timeout: must.Patience}
	t.Cleanup(client.CloseIdleConnections)
	return palyrav1connect.NewStatusServiceClient(client, d.url()).GetStatus(t.Context(), &palyrav1.GetStatusRequest{})
}

// A new credential for a member is issued online and offline. The member and the owners get a
// notice in their status, and other members do not. The member's previous devices stay valid
// unless RevokeOld is set.
func TestBundleOnlineAndOffline(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	d := start(t, cfg)
	at := t.TempDir()
	add := func(name string) string {
		dir := filepath.Join(at, name)
		must.Get(AddOperator(t.Context(), cfg, NewOperator{Name: name, Roles: []access.Role{access.RoleOperator}, Dir: dir, AcceptLoss: true}))(t)
		return dir
	}
	bob, carol := add("bob"), add("carol")
	noticed := func(d *running, dir, device string) bool {
		s := must.Get(d.as(t, dir))(t)
		return slices.ContainsFunc(s.GetNotices(), func(n string) bool { return strings.Contains(n, device) })
	}

	first := filepath.Join(at, "first")
	made := must.Get(MakeBundle(t.Context(), cfg, NewBundle{Member: "bob", Dir: first}))(t)
	if made.Member != "user:bob" || len(made.Revoked) != 0 {
		t.Errorf("%+v", made)
	}
	if s := must.Get(d.as(t, first))(t); s.GetCaller().GetDeviceId() != made.Device {
		t.Errorf("the new credential is %v", s.GetCaller())
	}
	for _, dir := range []string{bob, first, statedir.Operator(cfg.StateDir)} {
		if !noticed(d, dir, made.Device) {
			t.Errorf("%s is not told of %s", dir, made.Device)
		}
	}
	if noticed(d, carol, made.Device) {
		t.Error("carol is told of a device that is no business of hers")
	}
	d.end()

	second := filepath.Join(at, "second")
	replaced := must.Get(MakeBundle(t.Context(), cfg, NewBundle{Member: "user:bob", Dir: second, RevokeOld: true}))(t)
	if len(replaced.Revoked) != 2 {
		t.Errorf("%+v", replaced)
	}
	again := start(t, cfg)
	defer again.end()
	if _, err := again.as(t, first); err == nil {
		t.Error("a device that was replaced works on")
	}
	if !noticed(again, second, replaced.Device) {
		t.Error("bob is not told of the device that replaced his")
	}
	if _, err := MakeBundle(t.Context(), cfg, NewBundle{Member: "mallory", Dir: filepath.Join(at, "m")}); reason.Of(err) != reason.NotFound {
		t.Errorf("a device for nobody gives %v", err)
	}
	if _, err := os.Stat(filepath.Join(at, "m")); err == nil {
		t.Error("a bundle that was not made left its directory")
	}
}

// The command warns when a change takes a permission from another member. It is refused without
// a terminal, and runs with --yes.
func TestOperatorCommandNamesTheLoss(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.Listen.API = "127.0.0.1:7443"
	file := filepath.Join(t.TempDir(), "palyra.toml")
	must.Write(t, file, "state_dir = \""+cfg.StateDir+"\"\n[listen]\napi = \"127.0.0.1:7443\"\n[storage]\nreserve_bytes = 1048576\n")
	dir := t.TempDir()
	run := func(args ...string) (string, error) {
		var out, said bytes.Buffer
		c := Command(&out, &said)
		c.SetIn(strings.NewReader("y\n"))
		c.SetArgs(append(args, "--config", file))
		err := c.ExecuteContext(context.WithoutCancel(t.Context()))
		return said.String(), err
	}
	members := func() []access.Member { return membersOf(t, cfg) }
	bob := filepath.Join(dir, "bob")
	const loss = "user:local can then answer for their own calls no longer"
	if _, err := run("operator", "add", "bob", "--role", "operator", "--out", bob); reason.Of(err) != reason.LossNotAccepted || !strings.Contains(err.Error(), loss) {
		t.Errorf("without --yes: %v", err)
	}
	if _, err := os.Stat(bob); err == nil || len(members()) != 1 {
		t.Fatalf("the refused command left something: %v, %v", err, members())
	}
	said, err := run("operator", "add", "bob", "--role", "operator", "--out", bob, "--yes")
	if err != nil || !strings.Contains(said, "warning: "+loss) || len(members()) != 2 {
		t.Errorf("with --yes: %v, %q, %v", err, said, members())
	}
	// Control: an auditor, an agent or another device takes no permission from a member.
	for _, args := range [][]string{
		{"operator", "add", "ann", "--role", "auditor", "--out", filepath.Join(dir, "ann")},
		{"operator", "add", "bot", "--owner", "bob", "--out", filepath.Join(dir, "bot")},
		{"operator", "bundle", "bob", "--revoke-old", "--out", filepath.Join(dir, "bob2")},
	} {
		if said, err := run(args...); err != nil || strings.Contains(said, "warning") {
			t.Errorf("%v: %v, %q", args, err, said)
		}
	}
}

func membersOf(t *testing.T, cfg *config.Config) (list []access.Member) {
	t.Helper()
	s := must.Get(openReadOnly(t.Context(), cfg.StateDir))(t)
	defer func() { must.Do(t, s.Close(t.Context())) }()
	return must.Get(s.Members(t.Context()))(t)
}
