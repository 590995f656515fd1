package api_test

import (
	"context"
	"encoding/pem"
	"net/http"
	"slices"
	"strings"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/gateway/gatewaytest"
	"palyra/internal/identity"
	"palyra/internal/identity/ca"
)

// renewed renews the device's certificate with a new key, and returns a client with that key.
func (c *client) renewed() (*client, error) {
	c.w.t.Helper()
	key, csr := request(c.w.t)
	block, _ := pem.Decode(csr)
	res, err := palyrav1connect.NewIdentityServiceClient(c.http, c.w.url).RenewCertificate(c.w.t.Context(), &palyrav1.RenewCertificateRequest{CertificateRequest: block.Bytes})
	if err != nil {
		return nil, err
	}
	chain, err := ca.ParseChain([]byte(res.GetCertificateChain()))
	if err != nil {
		return nil, err
	}
	return c.w.connect(c.device, certificate(chain, key)), nil
}

// keysEnd starts the ending of requests whose key ended, as in the daemon.
func (w *world) keysEnd() {
	w.t.Helper()
	w.identity.Keys.OnEnd(func(device, key string, why *reason.Error) { w.server.EndKey(device, key, why) })
	must.Run(w.t, w.identity.Keys.Run)
}

// A replaced key stays valid for five minutes and cannot renew. Afterwards every method refuses
// it with the remedy, and its use raises an alarm for the owners. Control: the new key is
// accepted.
func TestReplacedKeyIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	fresh := must.Get(w.bob.renewed())(t)
	use := func(c *client) error {
		_, err := c.status().GetStatus(t.Context(), &palyrav1.GetStatusRequest{})
		return err
	}
	again := must.Get(w.bob.renewed())(t) // permitted while no newer key was used
	must.Do(t, use(again))
	must.Do(t, use(w.bob))
	_, err := w.bob.renewed()
	wantError(t, "a renewal by the old key", err, reason.KeyReplaced)

	w.ago.Store(int64(-identity.KeyGrace))
	for name, opts := range protocols {
		_, err := w.bob.status(opts...).GetStatus(t.Context(), &palyrav1.GetStatusRequest{})
		info := wantError(t, name, err, reason.KeyReplaced)
		if remedy := info.GetMetadata()["remedy"]; !strings.Contains(remedy, "palyra devices revoke "+w.bob.device) || !strings.Contains(remedy, "--revoke-old") {
			t.Errorf("%s: the way back is %q", name, remedy)
		}
	}
	_, err = w.bob.renewed()
	wantError(t, "a renewal later", err, reason.KeyReplaced)
	wantError(t, "a renewal that was never used", use(fresh), reason.KeyReplaced)
	must.Do(t, use(again))

	events := must.Get(w.journalEvents())(t)
	var alarms []*palyrav1.Event
	for _, e := range events {
		if e.GetCode() == "PAL-I151" {
			alarms = append(alarms, e)
		}
	}
	if len(alarms) != 1 || !strings.Contains(string(alarms[0].GetPayloadJson()), `"127.0.0.1"`) {
		t.Errorf("alarms %v", alarms)
	}
	for c, told := range map[*client]bool{w.alice: true, again: true, w.eve: false} {
		res := must.Get(c.status().GetStatus(t.Context(), &palyrav1.GetStatusRequest{}))(t)
		if got := slices.ContainsFunc(res.GetNotices(), func(n string) bool { return strings.Contains(n, "replaced key of device "+w.bob.device) }); got != told {
			t.Errorf("%s is told %v: %v", c.device, got, res.GetNotices())
		}
	}
	// The connection of the old key ends, so that the next connection presents the client's
	// current certificate.
	code, _ := w.bob.sendEmpty(statusProcedure)
	if code != http.StatusUnauthorized {
		t.Errorf("answered %d", code)
	}
}

// Streams that were opened with a key end with the key: watches in each protocol, and a call.
// Streams of the same device with its new key continue.
func TestEndOfAKeyEndsItsStreams(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.keysEnd()
	began := make(chan struct{})
	w.read.Work = func(ctx context.Context, _ tool.Call) tool.Report {
		close(began)
		<-ctx.Done()
		return gatewaytest.Succeeded(`{}`)
	}
	var streams []*watching
	for _, opts := range protocols {
		streams = append(streams, w.bob.watch(opts...))
	}
	call := make(chan error, 1)
	go func() {
		_, err := w.coder.call(reading())
		call <- err
	}()
	<-began
	other := must.Get(w.bob.renewed())(t).watch() // the first use of the new key
	must.Get(must.Get(w.coder.renewed())(t).status().GetStatus(t.Context(), &palyrav1.GetStatusRequest{}))(t)
	w.ago.Store(int64(-identity.KeyGrace))
	// The first use of dan's key makes the gateway check the clock.
	must.Get(w.dan.status().GetStatus(t.Context(), &palyrav1.GetStatusRequest{}))(t)
	for _, s := range streams {
		wantError(t, "a watch with the old key", s.ended(t), reason.KeyReplaced)
	}
	wantError(t, "a call with the old key", <-call, reason.KeyReplaced)
	if !other.open() {
		t.Error("a watch with the new key ended")
	}
}

func (c *client) life() palyrav1connect.DeviceServiceClient {
	return palyrav1connect.NewDeviceServiceClient(c.http, c.w.url)
}

// TestDeviceActs: a device's acts are listed newest first and page by page: votes, grants,
// runs, calls, tokens, members and devices. Acts of other devices are not listed.
func TestDeviceActs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stream := must.Get(w.coder.gateway().CallTool(t.Context(), running()))(t)
	var asked *palyrav1.Approval
	for asked == nil && stream.Receive() {
		asked = stream.Msg().GetApprovalRequested().GetApproval()
	}
	must.Get(w.bob.approvals().DecideApproval(t.Context(), &palyrav1.DecideApprovalRequest{
		ApprovalId: asked.GetApprovalId(), Allow: true, ShownDigest: asked.GetCallDigest(), Scope: palyrav1.ApprovalScope_APPROVAL_SCOPE_SESSION,
	}))(t)
	for stream.Receive() {
	}
	_ = stream.Close()
	token := w.bob.create(&palyrav1.CreateTokenRequest{Scopes: []string{"daemon.status"}}).GetToken().GetTokenId()
	w.model.plays(says("done"))
	run, _ := w.completeRun(w.coder, &palyrav1.StartRunRequest{Message: "look"})
	_, csr := request(t)
	block, _ := pem.Decode(csr)
	members := palyrav1connect.NewAccessServiceClient(w.alice.http, w.url)
	made := must.Get(members.AddMember(t.Context(), &palyrav1.AddMemberRequest{Name: "zed", Kind: "user", Roles: []string{"auditor"}, CertificateRequest: block.Bytes, AcceptLoss: true}))(t)
	must.Get(members.UpdateMember(t.Context(), &palyrav1.UpdateMemberRequest{Member: "zed", AddRoles: []string{"developer"}, AcceptLoss: true}))(t)
	must.Get(palyrav1connect.NewIdentityServiceClient(w.alice.http, w.url).RevokeDevice(t.Context(), &palyrav1.RevokeDeviceRequest{DeviceId: made.GetDeviceId(), AcceptLoss: true}))(t)

	for _, c := range []struct {
		of   *client
		want []string
	}{
		{w.bob, []string{
			"PAL-I120 palyra tokens revoke " + token,
			"PAL-G100 palyra grants revoke *",
			"PAL-A102 palyra approvals cancel " + asked.GetApprovalId(),
		}},
		{w.coder, []string{"PAL-R100 palyra runs cancel " + run, "PAL-D100 palyra calls cancel *"}},
		{w.alice, []string{"PAL-I106 ", "PAL-I109 palyra members roles user:zed --remove developer", "PAL-I102 palyra members disable user:zed"}},
		{w.dan, nil},
	} {
		var got []string
		req := &palyrav1.ListDeviceActsRequest{DeviceId: c.of.device, PageSize: 1}
		for pages := 0; pages < 10; pages++ {
			res := must.Get(w.alice.life().ListDeviceActs(t.Context(), req))(t)
			for _, act := range res.GetActs() {
				undo := act.GetUndo()
				if (act.GetCode() == "PAL-G100" || act.GetCode() == "PAL-D100") && strings.HasSuffix(undo, act.GetSubject()) {
					undo = strings.TrimSuffix(undo, act.GetSubject()) + "*"
				}
				got = append(got, act.GetCode()+" "+undo)
			}
			if req.PageToken = res.GetNextPageToken(); req.PageToken == "" {
				break
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s did\n%s\nwant\n%s", c.of.device, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
	// Calls and runs end with the device, so that their acts have no undo.
	must.Get(palyrav1connect.NewIdentityServiceClient(w.alice.http, w.url).RevokeDevice(t.Context(), &palyrav1.RevokeDeviceRequest{DeviceId: w.coder.device, AcceptLoss: true}))(t)
	acts := must.Get(w.alice.life().ListDeviceActs(t.Context(), &palyrav1.ListDeviceActsRequest{DeviceId: w.coder.device}))(t).GetActs()
	if len(acts) != 2 || acts[0].GetUndo() != "" || acts[1].GetUndo() != "" {
		t.Errorf("after the revocation: %v", acts)
	}
}

// TestDeviceVisibility: a member can see its own devices and its agents' devices. Other devices
// require access.read, without which their existence is not revealed.
func TestDeviceVisibility(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, row := range []struct {
		by   *client
		id   string
		want reason.Code
	}{
		{w.dan, "", ""}, {w.dan, w.dan.device, ""}, {w.coder, "", ""}, {w.alice, w.coder.device, ""}, {w.eve, w.bob.device, ""},
		{w.dan, w.alice.device, reason.PermissionDenied}, {w.coder, w.alice.device, reason.PermissionDenied},
		{w.dan, "01JNA3Q0G0DEV1CE0000000099", reason.PermissionDenied}, {w.alice, "01JNA3Q0G0DEV1CE0000000099", reason.NotFound},
	} {
		res, err := row.by.life().GetDevice(t.Context(), &palyrav1.GetDeviceRequest{DeviceId: row.id})
		if row.want != "" {
			wantError(t, row.id, err, row.want)
			continue
		}
		if err != nil || res.GetAddedBy() != identity.Daemon().String() || len(res.GetKeys()) != 1 || res.GetKeys()[0].GetSha256() != res.GetDevice().GetKeySha256() {
			t.Errorf("%q: %v, %v", row.id, res, err)
		}
	}
}

// TestRotateKeyNeedsTheHost: only the gateway's host can rotate its keys, and devices stay
// valid.
func TestRotateKeyNeedsTheHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	keys := func(c *client) palyrav1connect.KeyServiceClient {
		return palyrav1connect.NewKeyServiceClient(c.http, w.url)
	}
	must.Get(keys(w.eve).ListKeys(t.Context(), &palyrav1.ListKeysRequest{}))(t)
	for _, name := range []string{"issuing", "notary", "journal"} {
		for _, c := range []*client{w.alice, w.bob} {
			_, err := keys(c).RotateKey(t.Context(), &palyrav1.RotateKeyRequest{Name: name})
			wantError(t, name, err, reason.PermissionDenied)
		}
	}
}
