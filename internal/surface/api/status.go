package api

import (
	"context"
	"slices"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	healthv1 "palyra/gen/grpc/health/v1"
	"palyra/gen/grpc/health/v1/healthv1connect"
	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/call/policy"
	"palyra/internal/call/policyadmin"
	"palyra/internal/core/access"
	"palyra/internal/core/config"
	"palyra/internal/core/rpc"
	"palyra/internal/evidence/journal"
	"palyra/internal/exec/sandbox"
	"palyra/internal/identity/ca"
	"palyra/internal/run/model"
	"palyra/internal/surface/api/presenceproof"
	"palyra/internal/surface/api/things"
	"palyra/internal/vault/kek"
)

// Gateway is the daemon as a whole.
type Gateway interface {
	// Problems returns the reasons why the gateway is not ready; none if it is ready.
	Problems(ctx context.Context) []string
	Status(ctx context.Context) (Status, error)
	// Freeze stops dispatch and returns how many calls it stopped.
	Freeze(ctx context.Context, by access.Caller, why string) (FreezeState, int, error)
	Thaw(ctx context.Context, by access.Caller) (FreezeState, error)
}

// Status is the state of the gateway that operators may read.
type Status struct {
	Version            string
	StartedAt          time.Time
	GatewayID          string
	PolicyVersion      string
	SnapshotDigest     string
	PolicyDirectory    policyadmin.Directory
	JournalSize        int64
	LastCheckpointSize int64
	Freeze             FreezeState
	PendingApprovals   int
	LiveGrants         int
	CallsInFlight      int
	ActiveRuns         int
	Workspaces         []config.Workspace
	Sandbox            sandbox.Status
	// Degraded lists the functions that fail while everything else is served. The gateway stays
	// ready, because votes, the journal and other tools work, and a manager must not restart it.
	Degraded []string
	// Prepared is the number of sandboxes that are built in advance.
	Prepared int
	Models   []model.Status
	Notices  []string
	// Keys lists where each key of the gateway is stored.
	Keys []ca.KeyPlace
	// Vault is the state of the vault's key.
	Vault kek.Status
}

// FreezeState reports whether dispatch is stopped, by whom and why.
type FreezeState struct {
	Frozen bool
	Reason string
	By     string
	At     time.Time
}

// Passkeys stores the passkeys of members and returns notices about them.
type Passkeys interface {
	presenceproof.Passkeys
	// Notices returns the notices about passkeys that concern a principal.
	Notices(to access.Principal) []string
}

type status struct {
	gateway  Gateway
	alerts   Alerts
	passkeys Passkeys
	chats    things.Users
	log      *journal.Log
	engine   *policy.Engine
}

// GetStatus returns the state of the gateway and the identity of the caller. For callers that
// may not read workspaces, such as agents, it leaves out the paths of the gateway's host and
// the texts that may contain such paths.
func (s *status) GetStatus(ctx context.Context, req *palyrav1.GetStatusRequest) (*palyrav1.GetStatusResponse, error) {
	st, err := s.gateway.Status(ctx)
	if err != nil {
		return nil, err
	}
	checkpoint, proof, err := s.log.Extending(ctx, req.GetKnownJournalSize())
	if err != nil {
		return nil, err
	}
	problems := s.gateway.Problems(ctx)
	caller := callerOf(ctx)
	roles := make([]string, len(caller.Roles))
	for i, r := range caller.Roles {
		roles[i] = string(r)
	}
	own := slices.Concat(oldKeyAlarms(s.alerts.OldKeys(caller.Principal)), presenceKeyNotices(s.alerts.PresenceKeys(caller.Principal)), s.passkeys.Notices(caller.Principal), waitingAgentNotices(s.alerts.Waiting(caller.Principal)), chatUserNotices(s.chats.Waiting(caller.Principal)))
	res := &palyrav1.GetStatusResponse{
		Version: st.Version, Ready: len(problems) == 0, Problems: problems, Degraded: st.Degraded, StartedAt: timestamppb.New(st.StartedAt),
		GatewayId: st.GatewayID, PolicyVersion: st.PolicyVersion, SnapshotDigest: st.SnapshotDigest,
		JournalSize: st.JournalSize, LastCheckpointSize: st.LastCheckpointSize, Freeze: freezeMessage(st.Freeze),
		PendingApprovals: int32(st.PendingApprovals), LiveGrants: int32(st.LiveGrants), CallsInFlight: int32(st.CallsInFlight),
		Workspaces: workspaceMessages(st.Workspaces), Sandbox: sandboxMessage(st.Sandbox, st.Prepared),
		Notices:    slices.Concat(own, deviceNotices(s.alerts.Added(caller.Principal)), confirmationNotices(s.alerts.Confirmed()), st.Notices),
		ActiveRuns: int32(st.ActiveRuns), Models: modelMessages(st.Models), PolicyDirectory: directoryMessage(st.PolicyDirectory),
		Keys: keyMessages(st.Keys), Vault: vaultMessage(st.Vault), Checkpoint: checkpoint.Note, Consistency: hexHashes(proof.Hashes),
		Caller: &palyrav1.Identity{
			Principal: caller.Principal.String(), OnBehalfOf: caller.OnBehalfOf.String(), Roles: roles, DeviceId: caller.DeviceID,
			CertificateExpiresAt: timeMessage(credentialEnd(ctx)),
		},
	}
	if !may(s.engine, caller, access.PermWorkspaceRead) {
		res = statusWithoutHost(res, own)
	}
	return res, nil
}

// askAnOperator replaces texts about the gateway's host for callers that may not read them.
const askAnOperator = "Ask an operator to run palyra status, which shows the cause."

// statusWithoutHost returns a status for callers that may not read workspaces, with the notices for
// the caller itself. It copies only the fields named here.
func statusWithoutHost(s *palyrav1.GetStatusResponse, own []string) *palyrav1.GetStatusResponse {
	res := &palyrav1.GetStatusResponse{
		Version: s.GetVersion(), Ready: s.GetReady(), StartedAt: s.GetStartedAt(), GatewayId: s.GetGatewayId(),
		PolicyVersion: s.GetPolicyVersion(), SnapshotDigest: s.GetSnapshotDigest(),
		JournalSize: s.GetJournalSize(), LastCheckpointSize: s.GetLastCheckpointSize(), Checkpoint: s.GetCheckpoint(), Consistency: s.GetConsistency(),
		Freeze: s.GetFreeze(), PendingApprovals: s.GetPendingApprovals(), LiveGrants: s.GetLiveGrants(),
		CallsInFlight: s.GetCallsInFlight(), ActiveRuns: s.GetActiveRuns(), Notices: own, Caller: s.GetCaller(),
		Workspaces: withoutPaths(s.GetWorkspaces()),
	}
	if len(s.GetProblems()) > 0 {
		res.Problems = []string{"The gateway is not ready. " + askAnOperator}
	}
	if len(s.GetDegraded()) > 0 {
		res.Degraded = []string{"A part of the gateway does not work. " + askAnOperator}
	}
	if b := s.GetSandbox(); b != nil {
		res.Sandbox = &palyrav1.SandboxStatus{
			Available: b.GetAvailable(), Backend: b.GetBackend(), LimitsBy: b.GetLimitsBy(), Layers: b.GetLayers(),
			Tier: b.GetTier(), Rung: b.GetRung(), MissingLayers: b.GetMissingLayers(), LandlockAbi: b.GetLandlockAbi(),
		}
	}
	for _, m := range s.GetModels() {
		res.Models = append(res.Models, &palyrav1.ModelStatus{Name: m.GetName(), Provider: m.GetProvider(), Model: m.GetModel(), Available: m.GetAvailable()})
	}
	return res
}

// withoutPaths returns the workspaces without their paths on the gateway's host.
func withoutPaths(list []*palyrav1.WorkspaceStatus) []*palyrav1.WorkspaceStatus {
	var all []*palyrav1.WorkspaceStatus
	for _, w := range list {
		all = append(all, &palyrav1.WorkspaceStatus{Name: w.GetName(), ReadOnly: w.GetReadOnly(), Mode: w.GetMode()})
	}
	return all
}

// Freeze stops all dispatch.
func (s *status) Freeze(ctx context.Context, req *palyrav1.FreezeRequest) (*palyrav1.FreezeResponse, error) {
	state, stopped, err := s.gateway.Freeze(ctx, callerOf(ctx), req.GetReason())
	if err != nil {
		return nil, err
	}
	return &palyrav1.FreezeResponse{State: freezeMessage(state), Stopped: int32(stopped)}, nil
}

// Thaw resumes dispatch.
func (s *status) Thaw(ctx context.Context, _ *palyrav1.ThawRequest) (*palyrav1.ThawResponse, error) {
	state, err := s.gateway.Thaw(ctx, callerOf(ctx))
	if err != nil {
		return nil, err
	}
	return &palyrav1.ThawResponse{State: freezeMessage(state)}, nil
}

func freezeMessage(f FreezeState) *palyrav1.FreezeState {
	m := &palyrav1.FreezeState{Frozen: f.Frozen, Reason: f.Reason, By: f.By}
	if !f.At.IsZero() {
		m.At = timestamppb.New(f.At)
	}
	return m
}

func sandboxMessage(s sandbox.Status, prepared int) *palyrav1.SandboxStatus {
	return &palyrav1.SandboxStatus{
		Available: s.Available, Backend: s.Backend, LimitsBy: s.Limits, Layers: s.Layers, Problem: s.Problem, Remedy: s.Remedy,
		Tier: string(s.Tier), Rung: string(s.Rung), MissingLayers: s.Lacking(s.Requested), LandlockAbi: int32(s.LandlockABI),
		Prepared: int32(prepared),
	}
}

func workspaceMessages(declared []config.Workspace) []*palyrav1.WorkspaceStatus {
	var all []*palyrav1.WorkspaceStatus
	for _, w := range declared {
		all = append(all, &palyrav1.WorkspaceStatus{Name: w.Name, Path: w.Path, ReadOnly: w.ReadOnly, Mode: w.WorkspaceMode()})
	}
	return all
}

func vaultMessage(s kek.Status) *palyrav1.VaultStatus {
	return &palyrav1.VaultStatus{
		Backend: s.Backend, KeyId: s.ID, OlderKeys: int32(s.Older), Locked: s.Locked, Reason: string(s.Reason),
		Summary: s.String(), Remedy: s.Remedy, Since: timeMessage(s.Since),
	}
}

func keyMessages(places []ca.KeyPlace) []*palyrav1.KeyPlace {
	all := make([]*palyrav1.KeyPlace, len(places))
	for i, p := range places {
		all[i] = &palyrav1.KeyPlace{Key: p.Key, Place: p.Place, Detail: p.Detail}
	}
	return all
}

func modelMessages(models []model.Status) []*palyrav1.ModelStatus {
	var all []*palyrav1.ModelStatus
	for _, m := range models {
		status := &palyrav1.ModelStatus{Name: m.Name, Provider: m.Provider, Model: m.Model, Available: m.Problem == nil}
		if why := m.Problem; why != nil {
			status.Problem, status.Remedy = why.Message, why.NextStep()
		}
		all = append(all, status)
	}
	return all
}

// newHealthHandler serves the standard health check (grpc.health.v1): SERVING when the gateway is
// ready. It returns no other data, and needs no credential.
func newHealthHandler(gw Gateway, opts ...connect.HandlerOption) *connect.Handler {
	return rpc.NewUnaryHandler(healthv1connect.HealthCheckProcedure,
		func(ctx context.Context, _ *healthv1.HealthCheckRequest) (*healthv1.HealthCheckResponse, error) {
			state := healthv1.HealthCheckResponse_SERVING
			if len(gw.Problems(ctx)) > 0 {
				state = healthv1.HealthCheckResponse_NOT_SERVING
			}
			return &healthv1.HealthCheckResponse{Status: state}, nil
		}, opts...)
}
