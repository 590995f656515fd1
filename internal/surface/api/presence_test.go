package api_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/identity"
	"palyra/internal/identity/presence"
	"palyra/internal/ops/localsocket"
	"palyra/internal/store/sqlite"
	"palyra/internal/surface/api"
	"palyra/internal/surface/api/presenceproof"
)

// somebodyThere requires proof of presence from the approver of a program.
const somebodyThere = `@id("somebody-there") forbid(principal, action == Action::"tool.execute/process.run", resource)
unless { context.approval.votes.contains({ role: "*", surface: "grpc", paired: true, present: true }) };`

func (c *client) presence() palyrav1connect.PresenceServiceClient {
	return palyrav1connect.NewPresenceServiceClient(c.http, c.w.url)
}

func (w *world) rootDigest() string { return presenceproof.Gateway(w.authority.Root()) }

func (c *client) challenge(approval string) ([]byte, error) {
	res, err := c.presence().ChallengePresence(c.w.t.Context(), &palyrav1.ChallengePresenceRequest{ApprovalId: approval})
	return res.GetNonce(), err
}

// registers registers a new presence key of the client's device. was, if not nil, signs as the
// previous key.
func (c *client) registers(was crypto.Signer) (crypto.Signer, *palyrav1.PresenceKey, error) {
	t := c.w.t
	t.Helper()
	key := must.Get(presence.NewKey())(t)
	nonce, err := c.challenge("")
	if err != nil {
		return key, nil, err
	}
	said := presence.Enrolment{Gateway: c.w.rootDigest(), Device: c.device, PublicKey: must.Get(x509.MarshalPKIXPublicKey(key.Public()))(t), Nonce: nonce}
	req := &palyrav1.RegisterPresenceKeyRequest{PublicKey: said.PublicKey, Proof: &palyrav1.PresenceProof{Nonce: nonce, Signature: must.Get(presence.Sign(key, said))(t)}}
	if was != nil {
		req.PreviousSignature = must.Get(presence.Sign(was, said))(t)
	}
	res, err := c.presence().RegisterPresenceKey(t.Context(), req)
	return key, res.GetKey(), err
}

// confirms confirms the presence key of another device.
func (c *client) confirms(by crypto.Signer, device, sha256 string) error {
	t := c.w.t
	t.Helper()
	nonce, err := c.challenge("")
	if err != nil {
		return err
	}
	signature := must.Get(presence.Sign(by, presence.Confirmation{Gateway: c.w.rootDigest(), By: c.device, Device: device, KeySHA256: sha256, Nonce: nonce}))(t)
	_, err = c.presence().ConfirmPresenceKey(t.Context(), &palyrav1.ConfirmPresenceKeyRequest{
		DeviceId: device, KeySha256: sha256, Proof: &palyrav1.PresenceProof{Nonce: nonce, Signature: signature},
	})
	return err
}

// asks makes the agent call a program, and returns the pending approval.
func (w *world) asks() *palyrav1.Approval {
	t := w.t
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	stream := must.Get(w.coder.gateway().CallTool(ctx, &palyrav1.CallToolRequest{Tool: "process.run", InputJson: fmt.Appendf(nil, `{"argv":["make","%d"]}`, time.Now().UnixNano())}))(t)
	t.Cleanup(func() { _ = stream.Close() })
	for stream.Receive() {
		if a := stream.Msg().GetApprovalRequested().GetApproval(); a != nil {
			return a
		}
	}
	t.Fatalf("nothing is asked: %v", stream.Err())
	return nil
}

// proven adds a presence proof by key to a vote of the client.
func (c *client) proven(key crypto.Signer, v *palyrav1.DecideApprovalRequest) *palyrav1.DecideApprovalRequest {
	t := c.w.t
	t.Helper()
	v.Presence = &palyrav1.PresenceProof{Nonce: must.Get(c.challenge(v.GetApprovalId()))(t)}
	v.Presence.Signature = must.Get(presence.Sign(key, presenceproof.Statement(c.w.rootDigest(), c.device, v)))(t)
	return v
}

func (c *client) votes(v *palyrav1.DecideApprovalRequest) (*palyrav1.Approval, error) {
	res, err := c.approvals().DecideApproval(c.w.t.Context(), v)
	return res.GetApproval(), err
}

func yesTo(a *palyrav1.Approval) *palyrav1.DecideApprovalRequest {
	return &palyrav1.DecideApprovalRequest{ApprovalId: a.GetApprovalId(), Allow: true, ShownDigest: a.GetCallDigest()}
}

// worldOfPresence returns a world with two approvers, the first with a valid presence key.
func worldOfPresence(t *testing.T) (w *world, key crypto.Signer) {
	t.Helper()
	w = newWorld(t, func(w *world) { w.policies = somebodyThere })
	key, got, err := w.bob.registers(nil)
	if err != nil || got.GetWaits() {
		t.Fatalf("%v, %v", got, err)
	}
	return w, key
}

// A policy that requires presence accepts a vote with a proof. Without one, the approval names
// the missing proof, and the same user may vote again with it.
func TestVoteWithPresence(t *testing.T) {
	t.Parallel()
	w, key := worldOfPresence(t)
	asked := w.asks()
	if !asked.GetPresenceWanted() || !strings.Contains(asked.GetMissing(), "with presence proven") {
		t.Errorf("asked: %q, presence wanted: %v", asked.GetMissing(), asked.GetPresenceWanted())
	}
	after := must.Get(w.bob.votes(yesTo(asked)))(t)
	if after.GetState() != palyrav1.ApprovalState_APPROVAL_STATE_PENDING || !after.GetPresenceWanted() || after.GetVotes()[0].GetPresent() {
		t.Fatalf("without a proof: %v", after)
	}
	after = must.Get(w.bob.votes(w.bob.proven(key, yesTo(asked))))(t)
	if after.GetState() == palyrav1.ApprovalState_APPROVAL_STATE_PENDING || after.GetPresenceWanted() || len(after.GetVotes()) != 1 || !after.GetVotes()[0].GetPresent() {
		t.Errorf("with one: %v", after)
	}
}

// Each misuse of a proof refuses the vote, and no vote is recorded. Control: the same vote with
// a valid proof is accepted.
func TestProofsThatAreRefused(t *testing.T) {
	t.Parallel()
	w, key := worldOfPresence(t)
	stranger := must.Get(presence.NewKey())(t)
	other := w.asks()
	for name, misuse := range map[string]func(v *palyrav1.DecideApprovalRequest) *palyrav1.DecideApprovalRequest{
		"another key": func(v *palyrav1.DecideApprovalRequest) *palyrav1.DecideApprovalRequest {
			return w.bob.proven(stranger, v)
		},
		"no signature": func(v *palyrav1.DecideApprovalRequest) *palyrav1.DecideApprovalRequest {
			w.bob.proven(key, v).Presence.Signature = make([]byte, 64)
			return v
		},
		"a number of one's own": func(v *palyrav1.DecideApprovalRequest) *palyrav1.DecideApprovalRequest {
			v.Presence = &palyrav1.PresenceProof{Nonce: make([]byte, presence.NonceSize)}
			v.Presence.Signature = must.Get(presence.Sign(key, presenceproof.Statement(w.rootDigest(), w.bob.device, v)))(t)
			return v
		},
		"a number for another approval": func(v *palyrav1.DecideApprovalRequest) *palyrav1.DecideApprovalRequest {
			v.Presence = &palyrav1.PresenceProof{Nonce: must.Get(w.bob.challenge(other.GetApprovalId()))(t)}
			v.Presence.Signature = must.Get(presence.Sign(key, presenceproof.Statement(w.rootDigest(), w.bob.device, v)))(t)
			return v
		},
		"a number for a key": func(v *palyrav1.DecideApprovalRequest) *palyrav1.DecideApprovalRequest {
			v.Presence = &palyrav1.PresenceProof{Nonce: must.Get(w.bob.challenge(""))(t)}
			v.Presence.Signature = must.Get(presence.Sign(key, presenceproof.Statement(w.rootDigest(), w.bob.device, v)))(t)
			return v
		},
		"a number used before": func(v *palyrav1.DecideApprovalRequest) *palyrav1.DecideApprovalRequest {
			w.bob.proven(key, v)
			signature := v.Presence.Signature
			v.Presence.Signature = make([]byte, 64)
			_, err := w.bob.votes(v)
			wantError(t, "its first use", err, reason.PresenceNotProven)
			v.Presence.Signature = signature
			return v
		},
		"another decision": func(v *palyrav1.DecideApprovalRequest) *palyrav1.DecideApprovalRequest {
			v.Allow, v.Reason = false, "because"
			w.bob.proven(key, v).Allow = true
			return v
		},
		"another scope": func(v *palyrav1.DecideApprovalRequest) *palyrav1.DecideApprovalRequest {
			w.bob.proven(key, v).Scope = palyrav1.ApprovalScope_APPROVAL_SCOPE_SESSION
			return v
		},
		"a longer time": func(v *palyrav1.DecideApprovalRequest) *palyrav1.DecideApprovalRequest {
			v.Scope, v.Ttl = palyrav1.ApprovalScope_APPROVAL_SCOPE_TIMEBOXED, durationpb.New(60e9)
			w.bob.proven(key, v).Ttl = durationpb.New(3600e9)
			return v
		},
		"another reason": func(v *palyrav1.DecideApprovalRequest) *palyrav1.DecideApprovalRequest {
			w.bob.proven(key, v).Reason = "the boss said so"
			return v
		},
		"another surface": func(v *palyrav1.DecideApprovalRequest) *palyrav1.DecideApprovalRequest {
			w.bob.proven(key, v).Surface = "cli"
			return v
		},
		"another gateway": func(v *palyrav1.DecideApprovalRequest) *palyrav1.DecideApprovalRequest {
			w.bob.proven(key, v).Presence.Signature = must.Get(presence.Sign(key, presenceproof.Statement("sha256:"+strings.Repeat("0", 64), w.bob.device, v)))(t)
			return v
		},
		"another device": func(v *palyrav1.DecideApprovalRequest) *palyrav1.DecideApprovalRequest {
			w.bob.proven(key, v).Presence.Signature = must.Get(presence.Sign(key, presenceproof.Statement(w.rootDigest(), w.alice.device, v)))(t)
			return v
		},
	} {
		t.Run(name, func(t *testing.T) {
			asked := w.asks()
			_, err := w.bob.votes(misuse(yesTo(asked)))
			wantError(t, name, err, reason.PresenceNotProven)
			got := must.Get(w.bob.approvals().GetApproval(t.Context(), &palyrav1.GetApprovalRequest{ApprovalId: asked.GetApprovalId()}))(t).GetApproval()
			if got.GetState() != palyrav1.ApprovalState_APPROVAL_STATE_PENDING || len(got.GetVotes()) != 0 {
				t.Errorf("voted: %v", got.GetVotes())
			}
			if after, err := w.bob.votes(w.bob.proven(key, yesTo(asked))); err != nil || !after.GetVotes()[0].GetPresent() {
				t.Errorf("the control: %v, %v", after.GetVotes(), err)
			}
		})
	}
	if !w.audit.has(refusal{"user:bob", palyrav1connect.ApprovalsServiceDecideApprovalProcedure, reason.PresenceNotProven}) {
		t.Error("the refusals are not journaled")
	}
}

// A device cannot use another device's nonce or key.
func TestProofOfAnotherDevice(t *testing.T) {
	t.Parallel()
	w, key := worldOfPresence(t)
	carol := w.admit(access.User("carol"), access.Principal{}, access.RoleOperator)
	w.engine.Swap(w.policySet(must.Get(sqlite.NewIdentity(w.db).Members(t.Context()))(t)))
	asked := w.asks()
	_, err := carol.votes(w.bob.proven(key, yesTo(asked)))
	info := wantError(t, "without a key", err, reason.PresenceNotProven)
	if !strings.Contains(info.GetMetadata()["remedy"], "`palyra key presence --passphrase`") {
		t.Errorf("the remedy is %q", info.GetMetadata()["remedy"])
	}
	theirs, got, err := carol.registers(nil)
	if err != nil || !got.GetWaits() {
		t.Fatalf("%v, %v", got, err)
	}
	if _, err := carol.challenge(asked.GetApprovalId()); err == nil {
		t.Error("a key that waits gets a number for a vote")
	}
	wantError(t, "confirming without the right to", w.bob.confirms(key, carol.device, got.GetSha256()), reason.PermissionDenied)
	must.Get(w.identity.Members.UpdateMember(t.Context(), identity.Daemon(), identity.MemberChange{Member: "user:bob", AddRoles: []access.Role{access.RoleOwner}, AcceptLoss: true}))(t)
	wantError(t, "confirming by another key", w.bob.confirms(theirs, carol.device, got.GetSha256()), reason.PresenceNotProven)
	wantError(t, "confirming one's own key by itself", carol.confirms(theirs, carol.device, got.GetSha256()), reason.PresenceNotProven)
	must.Do(t, w.bob.confirms(key, carol.device, got.GetSha256()))
	_, err = carol.votes(w.bob.proven(key, yesTo(asked)))
	wantError(t, "with a number of another device", err, reason.PresenceNotProven)
	must.Get(carol.votes(carol.proven(theirs, yesTo(asked))))(t)
}

// A presence key is replaced only with a signature of the previous key, which is not accepted
// afterwards.
func TestPresenceKeyIsReplaced(t *testing.T) {
	t.Parallel()
	w, key := worldOfPresence(t)
	_, _, err := w.bob.registers(nil)
	info := wantError(t, "without the key before", err, reason.PresenceNotProven)
	if !strings.Contains(info.GetMetadata()["remedy"], "palyrad presence reset "+w.bob.device) {
		t.Errorf("the remedy is %q", info.GetMetadata()["remedy"])
	}
	_, _, err = w.bob.registers(must.Get(presence.NewKey())(t))
	wantError(t, "with another key", err, reason.PresenceNotProven)
	asked := w.asks()
	next, got, err := w.bob.registers(key)
	if err != nil || got.GetWaits() {
		t.Fatalf("%v, %v", got, err)
	}
	_, err = w.bob.votes(w.bob.proven(key, yesTo(asked)))
	wantError(t, "by the old key", err, reason.PresenceNotProven)
	must.Get(w.bob.votes(w.bob.proven(next, yesTo(asked))))(t)
}

// A registration requires a signature of the registered key over a nonce that was issued for
// it.
func TestRegistrationsThatAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key, other := must.Get(presence.NewKey())(t), must.Get(presence.NewKey())(t)
	public := must.Get(x509.MarshalPKIXPublicKey(key.Public()))(t)
	try := func(by crypto.Signer, change func(*presence.Enrolment)) error {
		nonce := must.Get(w.bob.challenge(""))(t)
		said := presence.Enrolment{Gateway: w.rootDigest(), Device: w.bob.device, PublicKey: public, Nonce: nonce}
		change(&said)
		_, err := w.bob.presence().RegisterPresenceKey(t.Context(), &palyrav1.RegisterPresenceKeyRequest{
			PublicKey: public, Proof: &palyrav1.PresenceProof{Nonce: said.Nonce, Signature: must.Get(presence.Sign(by, said))(t)},
		})
		return err
	}
	wantError(t, "by another key", try(other, func(*presence.Enrolment) {}), reason.PresenceNotProven)
	for name, change := range map[string]func(*presence.Enrolment){
		"another gateway": func(e *presence.Enrolment) { e.Gateway = "sha256:00" },
		"another device":  func(e *presence.Enrolment) { e.Device = w.alice.device },
		"another number":  func(e *presence.Enrolment) { e.Nonce = make([]byte, presence.NonceSize) },
	} {
		wantError(t, name, try(key, change), reason.PresenceNotProven)
	}
	must.Check(t, try(key, func(*presence.Enrolment) {}))
}

// Only a user's device with its certificate can register a presence key; agents and tokens
// cannot. A certificate, even an owner's, cannot reset a presence key.
func TestCallersWithoutPresenceKey(t *testing.T) {
	t.Parallel()
	w, _ := worldOfPresence(t)
	_, _, err := w.coder.registers(nil)
	wantError(t, "an agent", err, reason.PermissionDenied)
	text := w.alice.create(&palyrav1.CreateTokenRequest{Scopes: []string{"tool.call", "daemon.status"}}).GetText()
	_, _, err = w.showing("Bearer " + text).registers(nil)
	wantError(t, "a token", err, reason.PermissionDenied)
	_, err = w.alice.presence().ResetPresenceKey(t.Context(), &palyrav1.ResetPresenceKeyRequest{DeviceId: w.bob.device})
	wantError(t, "taking it away by certificate", err, reason.PermissionDenied)
	_, err = w.alice.presence().ConfirmPresenceKey(t.Context(), &palyrav1.ConfirmPresenceKeyRequest{DeviceId: w.bob.device})
	wantError(t, "confirming without a key", err, reason.PresenceNotProven)
}

// onSocket returns a client of the local operator's socket, and one of the same device with its
// certificate.
func (w *world) onSocket() (socket, device *client) {
	return w.onSocketOf(localsocket.Peer{UID: 1, Socket: true})
}

// onSocketOf is onSocket for a given peer of the socket.
func (w *world) onSocketOf(peer localsocket.Peer) (socket, device *client) {
	t := w.t
	t.Helper()
	dir := filepath.Join(t.TempDir(), "operator")
	dev, _, err := w.identity.Local.Start(t.Context(), identity.LocalConfig{Dir: dir, Address: "127.0.0.1:1", ServerName: "localhost"})
	must.Do(t, err)
	w.engine.Swap(w.policySet(w.registry.List()))
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.server.ServeHTTP(rw, r.WithContext(localsocket.WithPeer(r.Context(), peer)))
	}))
	t.Cleanup(server.Close)
	bundle := must.Get(identity.ReadBundle(dir))(t)
	return &client{w: &world{t: t, url: server.URL}, device: dev.ID, http: server.Client()},
		w.connect(dev.ID, certificate(bundle.Chain, bundle.Key.(*ecdsa.PrivateKey)))
}

// A vote over the socket never has presence, also with a valid proof. Control: the same proof
// over TLS.
func TestVoteOverTheSocketIsNotPresent(t *testing.T) {
	t.Parallel()
	w, _ := worldOfPresence(t)
	socket, device := w.onSocket()
	key, got, err := device.registers(nil)
	must.Do(t, err)
	must.Get(socket.presence().ConfirmPresenceKey(t.Context(), &palyrav1.ConfirmPresenceKeyRequest{DeviceId: device.device, KeySha256: got.GetSha256()}))(t)
	asked := w.asks()
	_, err = socket.challenge(asked.GetApprovalId())
	wantError(t, "a number", err, reason.PermissionDenied)
	_, err = socket.votes(device.proven(key, yesTo(asked)))
	info := wantError(t, "a vote with a proof", err, reason.PresenceNotProven)
	if !strings.Contains(info.GetMetadata()["remedy"], "--socket") {
		t.Errorf("the remedy is %v", info)
	}
	if after, err := socket.votes(yesTo(asked)); err != nil || after.GetVotes()[0].GetPresent() || after.GetState() != palyrav1.ApprovalState_APPROVAL_STATE_PENDING {
		t.Errorf("a vote without: %v, %v", after, err)
	}
	if after, err := device.votes(device.proven(key, yesTo(asked))); err != nil || after.GetState() == palyrav1.ApprovalState_APPROVAL_STATE_PENDING {
		t.Errorf("over TLS: %v, %v", after, err)
	}
}

// The host can reset and confirm a presence key. The device's member and the owners get a
// notice.
func TestHostResetsAPresenceKey(t *testing.T) {
	t.Parallel()
	w, key := worldOfPresence(t)
	socket, _ := w.onSocket()
	asked := w.asks()
	must.Get(socket.presence().ResetPresenceKey(t.Context(), &palyrav1.ResetPresenceKeyRequest{DeviceId: w.bob.device}))(t)
	_, err := w.bob.challenge(asked.GetApprovalId())
	wantError(t, "after it", err, reason.PresenceNotProven)
	for name, c := range map[string]*client{"bob": w.bob, "an owner": w.alice} {
		status := must.Get(c.status().GetStatus(t.Context(), &palyrav1.GetStatusRequest{}))(t)
		if !strings.Contains(strings.Join(status.GetNotices(), "\n"), "the gateway's host removed the presence key of device "+w.bob.device) {
			t.Errorf("%s is told %q", name, status.GetNotices())
		}
	}
	// After the reset no presence key is valid. The next one is not the gateway's first, and must
	// be confirmed, so that an attacker who registers first gains nothing.
	for name, c := range map[string]*client{"bob": w.bob, "alice": w.alice} {
		if _, got, err := c.registers(nil); err != nil || !got.GetWaits() {
			t.Errorf("the next key of %s: %v, %v", name, got, err)
		}
	}
	for _, device := range []string{w.alice.device, w.bob.device} {
		must.Get(socket.presence().ConfirmPresenceKey(t.Context(), &palyrav1.ConfirmPresenceKeyRequest{DeviceId: device}))(t)
		if d, _ := w.identity.Directory.Device(device); !d.Presence.Proves() {
			t.Error("the host's word does not count")
		}
	}
	_, err = w.bob.votes(w.bob.proven(key, yesTo(asked)))
	wantError(t, "by the key that was taken away", err, reason.PresenceNotProven)
}

// TestConfirmMembersForHost: root and a service user act for the gateway's host over the
// socket; a user that agents may run as, and a device of another member, do not.
func TestConfirmMembersForHost(t *testing.T) {
	t.Parallel()
	refused := reason.Errorf(reason.Unauthenticated, "the socket is for another uid")
	for name, c := range map[string]struct {
		peer        localsocket.Peer
		serviceUser bool
		want        reason.Code // "" if confirmed
	}{
		"root":                                 {localsocket.Peer{UID: 0, Socket: true, Near: true, Refused: refused}, false, ""},
		"root that is palyrad's user":          {localsocket.Peer{UID: 0, Socket: true, Near: true}, false, ""},
		"uid 0 of another namespace":           {localsocket.Peer{UID: 0, Socket: true, Refused: refused}, true, reason.Unauthenticated},
		"a service user":                       {localsocket.Peer{UID: 1, Socket: true, Near: true}, true, ""},
		"a service user in a container":        {localsocket.Peer{UID: 1, Socket: true}, true, reason.PermissionDenied},
		"root in a container":                  {localsocket.Peer{UID: 0, Socket: true}, true, reason.PermissionDenied},
		"a user that agents run as":            {localsocket.Peer{UID: 1, Socket: true, Near: true}, false, reason.PresenceNotProven},
		"another user beside a service user":   {localsocket.Peer{UID: 2, Socket: true, Refused: refused}, true, reason.Unauthenticated},
		"a process of which nothing is known ": {localsocket.Peer{UID: -1, Socket: true, Refused: refused}, true, reason.Unauthenticated},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.serviceUser = c.serviceUser
			socket, _ := w.onSocketOf(c.peer)
			reply, err := socket.presence().ConfirmMembers(t.Context(), &palyrav1.ConfirmMembersRequest{Members: []string{"bob", "user:bob"}})
			if c.want != "" {
				wantError(t, name, err, c.want)
				if len(w.identity.Notices.Confirmed()) > 0 {
					t.Error("members were confirmed")
				}
				return
			}
			if got := reply.GetMembers(); err != nil || !slices.Equal(got, []string{"user:bob"}) || !slices.Equal(w.identity.Notices.Confirmed(), []access.Principal{access.User("bob")}) {
				t.Errorf("confirmed %v: %v", got, err)
			}
			_, err = socket.presence().ConfirmMembers(t.Context(), &palyrav1.ConfirmMembersRequest{Members: []string{"carl", "nosuch"}})
			wantError(t, "with an unknown member", err, reason.NotFound)
			if slices.Contains(w.identity.Notices.Confirmed(), access.User("carl")) {
				t.Error("one of the two was confirmed")
			}
			// Root is accepted for this method alone.
			_, err = socket.presence().ResetPresenceKey(t.Context(), &palyrav1.ResetPresenceKeyRequest{DeviceId: w.bob.device})
			if (c.peer.Refused != nil) != (reason.Of(api.ReasonOf(err)) == reason.Unauthenticated) {
				t.Errorf("another method: %v", err)
			}
		})
	}
}

// TestConfirmMembersWithPresence: the presence key of the local operator's device acts for the
// gateway's host, for exactly the members that it signed. Presence keys of other devices do
// not.
func TestConfirmMembersWithPresence(t *testing.T) {
	t.Parallel()
	w, bobs := worldOfPresence(t)
	socket, device := w.onSocket()
	key, got, err := device.registers(nil)
	must.Do(t, err)
	confirm := func(c *client, by crypto.Signer, signed, sent []string) error {
		challenge := must.Get(c.presence().ChallengePresence(t.Context(), &palyrav1.ChallengePresenceRequest{}))(t)
		signature := must.Get(presence.Sign(by, presence.MemberConfirmation{Gateway: w.rootDigest(), By: c.device, Members: signed, Nonce: challenge.GetNonce()}))(t)
		_, err := c.presence().ConfirmMembers(t.Context(), &palyrav1.ConfirmMembersRequest{
			Members: sent, Proof: &palyrav1.PresenceProof{Nonce: challenge.GetNonce(), Signature: signature},
		})
		return err
	}
	bob := []string{"bob"}
	wantError(t, "a key that waits", confirm(device, key, bob, bob), reason.PresenceNotProven)
	must.Get(socket.presence().ConfirmPresenceKey(t.Context(), &palyrav1.ConfirmPresenceKeyRequest{DeviceId: device.device, KeySha256: got.GetSha256()}))(t)
	wantError(t, "another member", confirm(device, key, bob, []string{"carl"}), reason.PresenceNotProven)
	wantError(t, "one more member", confirm(device, key, bob, []string{"bob", "carl"}), reason.PresenceNotProven)
	wantError(t, "all members", confirm(device, key, nil, nil), reason.InvalidInput)
	wantError(t, "another key", confirm(device, bobs, bob, bob), reason.PresenceNotProven)
	_, err = device.presence().ConfirmMembers(t.Context(), &palyrav1.ConfirmMembersRequest{Members: bob})
	wantError(t, "no proof", err, reason.PresenceNotProven)
	wantError(t, "another owner's device", confirm(w.alice, key, bob, bob), reason.PermissionDenied)
	wantError(t, "the device of another member", confirm(w.bob, bobs, bob, bob), reason.PermissionDenied)
	if list := w.identity.Notices.Confirmed(); len(list) > 0 {
		t.Fatalf("confirmed %v", list)
	}
	must.Check(t, confirm(device, key, bob, bob))
	if list := w.identity.Notices.Confirmed(); !slices.Equal(list, []access.Principal{access.User("bob")}) {
		t.Errorf("confirmed %v", list)
	}
}
