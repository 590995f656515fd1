package clitest

import (
	"context"
	"sync"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/identity"
	"palyra/internal/identity/passkey"
	"palyra/internal/surface/api/people"
	"palyra/internal/surface/api/presenceproof"
)

// Gateway is a fake gateway with configurable tools and approvals. A call that requires
// approval waits until the test decides.
type Gateway struct {
	server
	w *World

	Mu        sync.Mutex
	changed   chan struct{}
	Approvals map[string]*palyrav1.Approval
	Grants    map[string]*palyrav1.Grant
	Devices   []*palyrav1.Device
	// ChangedMembers are the names of changed members; the list of members does not change.
	ChangedMembers []string
	// Loss is the reported loss of a revocation, "" for none.
	Loss  string
	Tools []*palyrav1.Tool
	// Hidden are the tools that no call can use.
	Hidden []*palyrav1.HiddenTool
	Caller *palyrav1.Identity
	Ready  bool
	// Degraded are the reported degradations.
	Degraded []string
	frozen   *palyrav1.FreezeState
	Calls    []*palyrav1.CallToolRequest
	// Listed are the calls of the gateway, and CancelledCalls the cancel requests.
	Listed         []*palyrav1.Call
	CancelledCalls []*palyrav1.CancelCallRequest
	Votes          []*palyrav1.DecideApprovalRequest
	findings       []*palyrav1.PolicyFinding
	// PolicyDir is the policy directory, and Own its files in force. Activated is true if a version
	// replaces the directory.
	PolicyDir string
	Own       []*palyrav1.PolicySource
	Activated bool
	// Fail, if set, is the error of every method.
	Fail error
	// ReloadFails is the error of ReloadPolicy.
	ReloadFails error
	// Workspaces are the declared workspaces, and WorkspacesFail the error of listing them.
	Workspaces     []*palyrav1.WorkspaceStatus
	WorkspacesFail error
	// changeSets are the change sets of workspaces.
	changeSets []*palyrav1.ChangeSet
	// Several adds a second user; VotesRefused makes every vote fail.
	Several, VotesRefused bool
	// Play is the behaviour of a call; nil succeeds.
	Play func(ctx context.Context, req *palyrav1.CallToolRequest, send func(*palyrav1.CallToolResponse) error) error

	Runs *Runs
	// life ends with the test; hangUp breaks every connection.
	life   context.Context
	hangUp func()

	Renewals int
	Journal  *Journal
	// ShowsHead includes the head of Journal in the status.
	ShowsHead bool
	// MoreSessions are listed in addition to the usual session.
	MoreSessions []*palyrav1.Session
	// Skills are the uploaded packages and their inspection.
	Skills Skills
	// VaultLocked makes the vault require its passphrase.
	VaultLocked bool
	// steps serves the machines that pair.
	steps *people.PairingService
	// PresenceKeys are the keys of devices, and presence serves them.
	PresenceKeys map[string]identity.PresenceKey
	// Passkeys are the passkeys of the caller.
	Passkeys []passkey.Passkey
	presence *presenceproof.Service
	Logins   Logins
}

func newFakeGateway(w *World) *Gateway {
	f := &Gateway{
		server:  server{methods: map[protoreflect.FullName]method{}, replies: map[protoreflect.FullName]reply{}},
		changed: make(chan struct{}), Approvals: map[string]*palyrav1.Approval{}, Grants: map[string]*palyrav1.Grant{},
		Ready: true, PolicyDir: "/srv/gateway/policies", Workspaces: someWorkspaces(), w: w,
		Caller: &palyrav1.Identity{Principal: "user:ada", OnBehalfOf: "user:ada", Roles: []string{"owner"}, DeviceId: "01DEVICE000000000000000000", CertificateExpiresAt: ago(-12 * time.Hour)},
	}
	f.Runs = &Runs{f: f}
	for _, serve := range []func(*Gateway){
		serveCalls, serveRuns, serveApprovals, servePolicy, serveStatus, serveMembers, serveDevices, serveReviews, serveSessions,
		serveWorkspaces, serveUpstreams, serveSkills, serveVault, serveNotices, servePairings, serveLogins, servePresence, serveJournal,
	} {
		serve(f)
	}
	return f
}

// Change runs fn under the lock and wakes all waiters.
func (f *Gateway) Change(fn func()) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	fn()
	close(f.changed)
	f.changed = make(chan struct{})
}

// Wait returns once ok returns true.
func (f *Gateway) Wait(ctx context.Context, ok func() bool) error {
	for {
		f.Mu.Lock()
		done, changed := ok(), f.changed
		f.Mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func serveStatus(f *Gateway) {
	serve(f, f.status)
	on(f, func(req *palyrav1.FreezeRequest) (*palyrav1.FreezeResponse, error) {
		f.frozen = &palyrav1.FreezeState{Frozen: true, Reason: req.GetReason(), By: "user:ada", At: now}
		return &palyrav1.FreezeResponse{State: f.frozen, Stopped: 2}, nil
	})
	on(f, func(*palyrav1.ThawRequest) (*palyrav1.ThawResponse, error) {
		f.frozen = &palyrav1.FreezeState{}
		return &palyrav1.ThawResponse{State: f.frozen}, nil
	})
}

func (f *Gateway) status(ctx context.Context, req *palyrav1.GetStatusRequest) (*palyrav1.GetStatusResponse, error) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	out := &palyrav1.GetStatusResponse{
		Version: "v1.2.3", Ready: f.Ready, Degraded: f.Degraded, StartedAt: ago(3 * time.Hour), GatewayId: "gw-test",
		PolicyVersion: "sha256:aa", SnapshotDigest: "sha256:cc", JournalSize: 42, LastCheckpointSize: 40, Freeze: f.frozen,
		PendingApprovals: 1, LiveGrants: 2, CallsInFlight: 1, Caller: f.Caller,
		Workspaces: []*palyrav1.WorkspaceStatus{{Name: "demo", Path: "/srv/demo", ReadOnly: true}},
		Sandbox:    &palyrav1.SandboxStatus{Available: true, Backend: "bubblewrap 0.8.0", LimitsBy: "rlimits", Layers: []string{"mount", "pid"}},
		Notices:    []string{"one user exists: they may answer for their own agents"},
		Models:     []*palyrav1.ModelStatus{{Name: "fast", Provider: "anthropic", Model: "fast-1", Available: true}, {Name: "local", Provider: "openai", Problem: "no key file"}},
		Keys: []*palyrav1.KeyPlace{
			{Key: "root", Place: "tpm", Detail: "/dev/tpmrm0, which it never leaves"},
			{Key: "notary", Place: "tpm", Detail: "/dev/tpmrm0, sealed in ca/notary.pem"},
			{Key: "operator", Place: "file", Detail: "operator/key.pem, mode 0600"},
		},
		ActiveRuns: 1, PolicyDirectory: f.directory(),
		Vault: &palyrav1.VaultStatus{
			Backend: "secret_service", Locked: true, Reason: "VAULT_LOCKED", Summary: "secret service, locked: using the keyring: it is locked",
			Remedy: "Unlock the keyring.", Since: ago(time.Hour),
		},
	}
	if !f.Ready {
		out.Problems = []string{"the journal cannot be written"}
	}
	if f.Journal == nil || !f.ShowsHead {
		return out, nil
	}
	cp, proof, err := f.Journal.Log.Extending(ctx, req.GetKnownJournalSize())
	out.JournalSize, out.LastCheckpointSize, out.Checkpoint = f.Journal.Log.Head().Seq, cp.Size, cp.Note
	out.Consistency = hexes(proof.Hashes)
	return out, err
}
