//go:build linux || darwin

package gateway

import (
	"context"
	"crypto/x509"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/access"
	"palyra/internal/core/config"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/statedir"
	"palyra/internal/identity"
	"palyra/internal/identity/keptkey"
	"palyra/internal/surface/api"
)

// socketURL is the gateway's URL for clients on the socket.
const socketURL = "http://localhost"

// shortState gives cfg a state directory whose socket has a short enough path.
func shortState(t *testing.T, cfg *config.Config) *config.Config {
	t.Helper()
	dir := must.Get(os.MkdirTemp("", "state"))(t)
	t.Cleanup(func() { must.Check(t, os.RemoveAll(dir)) })
	cfg.StateDir = filepath.Join(dir, "s")
	return cfg
}

// overSocket returns a client of the local operator's socket.
func overSocket(t *testing.T, cfg *config.Config) *http.Client {
	t.Helper()
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: &protocols, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", statedir.Socket(cfg.StateDir))
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func statusOver(t *testing.T, client *http.Client) (*palyrav1.GetStatusResponse, error) {
	t.Helper()
	return palyrav1connect.NewStatusServiceClient(client, socketURL).GetStatus(t.Context(), &palyrav1.GetStatusRequest{})
}

// On the socket, the owner of the state directory is the local operator, with the permissions
// of its roles. It may not certify a key, because a uid would then obtain a paired device.
func TestSocketOperator(t *testing.T) {
	t.Parallel()
	cfg := shortState(t, testConfig(t))
	d := start(t, cfg)
	client := overSocket(t, cfg)
	s := must.Get(statusOver(t, client))(t)
	if s.GetCaller().GetPrincipal() != "user:local" || s.GetCaller().GetCertificateExpiresAt() != nil {
		t.Errorf("the caller is %v", s.GetCaller())
	}
	device := d.status().GetCaller().GetDeviceId()
	if device == "" || s.GetCaller().GetDeviceId() != device {
		t.Errorf("on the socket it is device %q, and by its certificate %q", s.GetCaller().GetDeviceId(), device)
	}
	identities := palyrav1connect.NewIdentityServiceClient(client, socketURL)
	_, renewed := identities.RenewCertificate(t.Context(), &palyrav1.RenewCertificateRequest{CertificateRequest: []byte("x")})
	_, added := identities.AddDevice(t.Context(), &palyrav1.AddDeviceRequest{Member: "local", CertificateRequest: []byte("x")})
	_, member := palyrav1connect.NewAccessServiceClient(client, socketURL).AddMember(t.Context(), &palyrav1.AddMemberRequest{Name: "bob", Kind: "user", Roles: []string{"operator"}, CertificateRequest: []byte("x")})
	for name, err := range map[string]error{"renewing": renewed, "another device": added, "another member": member} {
		if reason.Of(api.ReasonOf(err)) != reason.PermissionDenied {
			t.Errorf("%s over the socket: %v", name, err)
		}
	}
	d.end()
	if _, err := os.Lstat(statedir.Socket(cfg.StateDir)); err == nil {
		t.Error("the socket is left when palyrad has stopped")
	}
}

// Revoking, disabling or removing the local operator, or storing its key elsewhere, ends its
// streams on the socket and refuses the next request. The socket can also be switched off.
func TestSocketEndsWithTheLocalOperator(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, d *running, bob *http.Client){
		"revoked": func(t *testing.T, d *running, bob *http.Client) {
			must.Get(palyrav1connect.NewIdentityServiceClient(bob, d.url()).RevokeDevice(t.Context(), &palyrav1.RevokeDeviceRequest{
				DeviceId: d.status().GetCaller().GetDeviceId(), Reason: "lost", AcceptLoss: true,
			}))(t)
		},
		"disabled": func(t *testing.T, d *running, bob *http.Client) {
			must.Get(palyrav1connect.NewAccessServiceClient(bob, d.url()).DisableMember(t.Context(), &palyrav1.DisableMemberRequest{Member: "local", AcceptLoss: true}))(t)
		},
		"removed": func(t *testing.T, d *running, bob *http.Client) {
			must.Get(palyrav1connect.NewAccessServiceClient(bob, d.url()).RemoveMember(t.Context(), &palyrav1.RemoveMemberRequest{Member: "local", AcceptLoss: true}))(t)
		},
		"its key is kept elsewhere": func(t *testing.T, d *running, _ *http.Client) {
			public := must.Get(x509.MarshalPKIXPublicKey(must.Get(identity.ReadBundle(d.Credentials))(t).Key.Public()))(t)
			must.Do(t, identity.Keep(t.Context(), d.Credentials, keptkey.ForKeyring("device key", public)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := shortState(t, testConfig(t))
			d := start(t, cfg)
			dir := filepath.Join(t.TempDir(), "bob")
			must.Get(AddOperator(t.Context(), cfg, NewOperator{Name: "bob", Roles: []access.Role{access.RoleOwner}, Dir: dir, AcceptLoss: true}))(t)
			client, bob := overSocket(t, cfg), dialAs(t, dir)
			ended := tailing(t, client, socketURL)
			others := tailing(t, bob, d.url())
			end(t, d, bob)
			if err := <-ended; reason.Of(api.ReasonOf(err)) != reason.Unauthenticated {
				t.Errorf("the stream ended with %v", err)
			}
			if _, err := statusOver(t, client); reason.Of(api.ReasonOf(err)) != reason.Unauthenticated {
				t.Errorf("the next request on the socket: %v", err)
			}
			select {
			case err := <-others:
				t.Errorf("another's stream ended: %v", err)
			default:
			}
			d.end()
			<-others
		})
	}

	cfg := shortState(t, testConfig(t))
	cfg.Listen.SocketOperator = false
	d := start(t, cfg)
	if _, err := os.Lstat(statedir.Socket(cfg.StateDir)); err == nil {
		t.Error("there is a socket although it is switched off")
	}
	d.end()
}

// tailing opens a stream of the journal, and returns a channel that receives its error.
func tailing(t *testing.T, client *http.Client, url string) <-chan error {
	t.Helper()
	stream := must.Get(palyrav1connect.NewJournalServiceClient(client, url).TailEvents(t.Context(), &palyrav1.TailEventsRequest{}))(t)
	if !stream.Receive() {
		t.Fatalf("the stream did not open: %v", stream.Err())
	}
	ended := make(chan error, 1)
	go func() {
		for stream.Receive() {
		}
		ended <- stream.Err()
	}()
	return ended
}

// A vote over the socket counts, but not as the vote of a paired device. A policy that requires
// such a vote stays unsatisfied. Control: the same member's vote by certificate.
func TestSocketVoteIsNotPaired(t *testing.T) {
	t.Parallel()
	cfg := shortState(t, testConfig(t))
	cfg.Policy.Dir = t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(cfg.Policy.Dir, "paired.cedar"), []byte(`@id("paired")
@reason("fs.write needs a device")
forbid(principal, action == Action::"tool.execute/fs.write", resource)
unless { context.approval.votes.contains({ role: "*", surface: "cli", paired: true, present: false }) };`), 0o600))
	ws := t.TempDir()
	cfg.Workspaces = []config.Workspace{{Name: "default", Path: ws}}
	d := start(t, cfg)
	client := overSocket(t, cfg)
	stream := must.Get(palyrav1connect.NewGatewayServiceClient(client, socketURL).CallTool(t.Context(), &palyrav1.CallToolRequest{
		Tool: "fs.write", InputJson: []byte(`{"path":"a","content":"x"}`),
	}))(t)
	defer stream.Close()
	ask := func(a *palyrav1.Approval) *palyrav1.DecideApprovalRequest {
		return &palyrav1.DecideApprovalRequest{ApprovalId: a.GetApprovalId(), Allow: true, ShownDigest: a.GetCallDigest(), Surface: "cli"}
	}
	voted := false
	for stream.Receive() {
		a := stream.Msg().GetApprovalRequested().GetApproval()
		if a == nil {
			continue
		}
		res := must.Get(palyrav1connect.NewApprovalsServiceClient(client, socketURL).DecideApproval(t.Context(), ask(a)))(t)
		v := res.GetApproval().GetVotes()
		if res.GetApproval().GetState() != palyrav1.ApprovalState_APPROVAL_STATE_PENDING || len(v) != 1 || v[0].GetPaired() || v[0].GetPresent() || v[0].GetTransport() != "socket" {
			t.Errorf("after a vote over the socket: %v", res.GetApproval())
		}
		if _, err := palyrav1connect.NewApprovalsServiceClient(client, socketURL).DecideApproval(t.Context(), ask(a)); reason.Of(api.ReasonOf(err)) != reason.ApprovalConflict {
			t.Errorf("the same vote again: %v", err)
		}
		res = must.Get(palyrav1connect.NewApprovalsServiceClient(d.client(), d.url()).DecideApproval(t.Context(), ask(a)))(t)
		v = res.GetApproval().GetVotes()
		if res.GetApproval().GetState() != palyrav1.ApprovalState_APPROVAL_STATE_ALLOWED || len(v) != 1 || !v[0].GetPaired() || v[0].GetTransport() != "" {
			t.Errorf("after a vote by certificate: %v", res.GetApproval())
		}
		voted = true
	}
	must.Do(t, stream.Err())
	if _, err := os.Stat(filepath.Join(ws, "a")); err != nil || !voted {
		t.Errorf("voted %v, and the call did not run: %v", voted, err)
	}
	d.end()
}

// The socket file of a killed palyrad does not prevent the next start. A file that is not a
// socket does.
func TestSocketOfAKilledPalyrad(t *testing.T) {
	t.Parallel()
	cfg := shortState(t, testConfig(t))
	must.Do(t, os.Mkdir(cfg.StateDir, 0o700))
	left := must.Get(net.ListenUnix("unix", &net.UnixAddr{Name: statedir.Socket(cfg.StateDir), Net: "unix"}))(t)
	left.SetUnlinkOnClose(false)
	must.Do(t, left.Close())
	d := start(t, cfg)
	must.Get(statusOver(t, overSocket(t, cfg)))(t)
	d.end()
	must.Do(t, os.WriteFile(statedir.Socket(cfg.StateDir), nil, 0o600))
	if err := Run(t.Context(), Options{Config: cfg, Log: slog.New(slog.DiscardHandler)}); reason.Of(err) != reason.ConfigInvalid {
		t.Errorf("a file at the place of the socket: %v", err)
	}
}

// Once the operator's key is stored elsewhere, the uid alone is not accepted on the socket,
// immediately and after a restart. The certificate stays valid, and the host can still issue a
// new bundle while palyrad is stopped.
func TestSocketEndsWhenTheKeyIsKeptElsewhere(t *testing.T) {
	t.Parallel()
	cfg := shortState(t, testConfig(t))
	d := start(t, cfg)
	client := overSocket(t, cfg)
	must.Get(statusOver(t, client))(t)
	bundle := must.Get(identity.ReadBundle(d.Credentials))(t)
	public := must.Get(x509.MarshalPKIXPublicKey(bundle.Key.Public()))(t)
	must.Do(t, identity.Keep(t.Context(), d.Credentials, keptkey.ForKeyring("device key", public)))
	for range 2 {
		if _, err := statusOver(t, client); reason.Of(api.ReasonOf(err)) != reason.Unauthenticated {
			t.Errorf("the uid alone is the operator: %v", err)
		}
		with := must.Get(identity.ReadBundle(d.Credentials))(t)
		with.Key = bundle.Key
		transport := &http.Transport{TLSClientConfig: with.ClientTLS(), ForceAttemptHTTP2: true}
		status := palyrav1connect.NewStatusServiceClient(&http.Client{Transport: transport}, d.url())
		must.Get(status.GetStatus(t.Context(), &palyrav1.GetStatusRequest{}))(t)
		transport.CloseIdleConnections()
		dir := filepath.Join(t.TempDir(), "again")
		if _, err := MakeBundle(t.Context(), cfg, NewBundle{Member: "local", Dir: dir}); reason.Of(err) != reason.NotConnected {
			t.Errorf("a bundle beside a palyrad that runs: %v", err)
		}
		d.end()
		client.CloseIdleConnections()
		d = start(t, cfg)
	}
	d.end()
	dir := filepath.Join(t.TempDir(), "again")
	must.Get(MakeBundle(t.Context(), cfg, NewBundle{Member: "local", Dir: dir, RevokeOld: true}))(t)
	d = start(t, cfg)
	must.Get(d.as(t, dir))(t)
	d.end()
}
