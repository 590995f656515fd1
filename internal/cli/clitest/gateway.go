package clitest

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/identity"
	"palyra/internal/identity/ca/catest"
	"palyra/internal/identity/passkey"
	"palyra/internal/surface/api/people"
	"palyra/internal/surface/api/presenceproof"
)

// Gateway is a fake gateway with configurable tools and approvals. A call that requires
// approval waits until the test decides.
type Gateway struct {
	palyrav1connect.UnimplementedPolicyServiceHandler
	palyrav1connect.UnimplementedAccessServiceHandler

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
	// PolicyAsked are the requests to the policy methods.
	PolicyAsked []proto.Message
	// Fail, if set, is the error of every method.
	Fail error
	// ReloadFails is the error of ReloadPolicy.
	ReloadFails error
	// Workspaces are the declared workspaces, WorkspacesFail the error of listing them, and
	// WorkspacesAsked the number of list requests.
	Workspaces      []*palyrav1.WorkspaceStatus
	WorkspacesFail  error
	WorkspacesAsked int
	// changeSets are the change sets of workspaces, and Undone the undo requests.
	changeSets []*palyrav1.ChangeSet
	Undone     []*palyrav1.UndoChangeSetRequest
	// Several adds a second user; VotesRefused makes every vote fail.
	Several, VotesRefused bool
	// Play is the behaviour of a call; nil succeeds.
	Play func(ctx context.Context, req *palyrav1.CallToolRequest, send func(*palyrav1.CallToolResponse) error) error

	Runs *Runs
	// life ends with the test; hangUp breaks every connection.
	life   context.Context
	hangUp func()

	root     *catest.Authority
	Renewals int
	Journal  *Journal
	// ShowsHead includes the head of Journal in the status.
	ShowsHead bool
	// MoreSessions are listed in addition to the usual session.
	MoreSessions []*palyrav1.Session
	// EndedSessions are the requests to end a session.
	EndedSessions []*palyrav1.SessionServiceEndSessionRequest
	// CreatedTokens are the requests to create tokens, and RevokedTokens the revoked ids.
	CreatedTokens []*palyrav1.CreateTokenRequest
	RevokedTokens []string
	// MappedUsers are the requests to map a user of a chat.
	MappedUsers []*palyrav1.MapChatUserRequest
	// ChatConsents are the requests to give or withdraw consent.
	ChatConsents []*palyrav1.ConsentToChatUserRequest
	// RevokedConsoles are the revoked console sessions.
	RevokedConsoles []string
	// Skills are the requests to SkillService.
	Skills Skills
	// AddedUpstreams and ApprovedUpstreams are the requests to McpService.
	AddedUpstreams    []*palyrav1.UpstreamServer
	ApprovedUpstreams []*palyrav1.ApproveUpstreamRequest
	// PutSecrets are the requests to store secrets, and RemovedSecrets the removed references.
	PutSecrets     []*palyrav1.PutSecretRequest
	RemovedSecrets []string
	// VaultLocked makes the vault require its passphrase.
	VaultLocked bool
	// PairingCodes are the requests for codes, and steps serves the machines that pair.
	PairingCodes []*palyrav1.CreatePairingCodeRequest
	steps        *people.PairingService
	// PresenceKeys are the keys of devices, and presence serves them.
	PresenceKeys map[string]identity.PresenceKey
	// Passkeys are the passkeys of the caller.
	Passkeys []passkey.Passkey
	presence *presenceproof.Service
	Logins   Logins
	// logins serves logins.
	logins fakeLogins
}

func newFakeGateway() *Gateway {
	f := &Gateway{
		changed: make(chan struct{}), Approvals: map[string]*palyrav1.Approval{}, Grants: map[string]*palyrav1.Grant{},
		Ready: true, PolicyDir: "/srv/gateway/policies", Workspaces: someWorkspaces(),
		Caller: &palyrav1.Identity{Principal: "user:ada", OnBehalfOf: "user:ada", Roles: []string{"owner"}, DeviceId: "01DEVICE000000000000000000", CertificateExpiresAt: timestamppb.New(Now.Add(12 * time.Hour))},
	}
	f.Runs = &Runs{f: f}
	return f
}

func (f *Gateway) handler() http.Handler {
	mux := http.NewServeMux()
	refuse := connect.WithInterceptors(refusing{f})
	mux.Handle(palyrav1connect.NewGatewayServiceHandler(fakeCalls{f}, refuse))
	mux.Handle(palyrav1connect.NewApprovalsServiceHandler(fakeApprovals{f}, refuse))
	mux.Handle(palyrav1connect.NewPolicyServiceHandler(fakePolicy{f: f}, refuse))
	mux.Handle(palyrav1connect.NewStatusServiceHandler(fakeStatus{f}, refuse))
	mux.Handle(palyrav1connect.NewAccessServiceHandler(fakeAccess{f: f}, refuse))
	mux.Handle(palyrav1connect.NewIdentityServiceHandler(fakeIdentity{f}, refuse))
	mux.Handle(palyrav1connect.NewWorkspaceServiceHandler(fakeWorkspaces{f}, refuse))
	mux.Handle(palyrav1connect.NewSessionServiceHandler(fakeSessions{f}, refuse))
	mux.Handle(palyrav1connect.NewTokenServiceHandler(fakeTokens{f}, refuse))
	mux.Handle(palyrav1connect.NewConsoleServiceHandler(fakeConsole{f: f}, refuse))
	mux.Handle(palyrav1connect.NewMcpServiceHandler(fakeUpstreams{f}, refuse))
	mux.Handle(palyrav1connect.NewSkillServiceHandler(fakeSkills{f}, refuse))
	mux.Handle(palyrav1connect.NewVaultServiceHandler(fakeVault{f}, refuse))
	mux.Handle(palyrav1connect.NewNotifyServiceHandler(fakeNotices{f}, refuse))
	mux.Handle(palyrav1connect.NewPairingServiceHandler(fakePairings{f}, refuse))
	mux.Handle(palyrav1connect.NewLoginServiceHandler(f.logins, refuse))
	mux.Handle(palyrav1connect.NewAccessReviewServiceHandler(fakeReviews{}, refuse))
	mux.Handle(palyrav1connect.NewDeviceServiceHandler(fakeDevices{f}, refuse))
	mux.Handle(palyrav1connect.NewPresenceServiceHandler(f.presence, refuse, connect.WithInterceptors(roomErrors)))
	mux.Handle(palyrav1connect.NewJournalServiceHandler(fakeJournalService{f}, refuse))
	mux.Handle(palyrav1connect.NewAttestationServiceHandler(fakeAttestations{f}, refuse))
	return mux
}

// refusing returns the failure of the gateway, if one is set.
type refusing struct{ f *Gateway }

func (r refusing) failure() error {
	r.f.Mu.Lock()
	defer r.f.Mu.Unlock()
	return r.f.Fail
}

func (r refusing) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		if err := r.failure(); err != nil {
			return nil, err
		}
		return next(ctx, req)
	}
}

func (r refusing) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

func (r refusing) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		if err := r.failure(); err != nil {
			return err
		}
		return next(ctx, conn)
	}
}

// GatewayError returns an error in the form that the gateway sends.
func GatewayError(code connect.Code, why reason.Code, message string, metadata map[string]string) error {
	e := connect.NewError(code, fmt.Errorf("%s", message))
	detail, err := connect.NewErrorDetail(&errdetails.ErrorInfo{Reason: string(why), Domain: "palyra.dev", Metadata: metadata})
	if err != nil {
		panic(err)
	}
	e.AddDetail(detail)
	return e
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

type fakeCalls struct{ f *Gateway }

func (s fakeCalls) CallTool(ctx context.Context, req *palyrav1.CallToolRequest, stream *connect.ServerStream[palyrav1.CallToolResponse]) error {
	s.f.Change(func() { s.f.Calls = append(s.f.Calls, req) })
	seq := int64(0)
	send := func(m *palyrav1.CallToolResponse) error {
		seq++
		m.Sequence = seq
		return stream.Send(m)
	}
	if err := send(Proposed(req)); err != nil {
		return err
	}
	if s.f.Play != nil {
		return s.f.Play(ctx, req, send)
	}
	return Play(send, Allowed(), Finished("succeeded", "", `{"text":"hello"}`), Attested())
}

// Play sends the events of a call.
func Play(send func(*palyrav1.CallToolResponse) error, list ...*palyrav1.CallToolResponse) error {
	for _, m := range list {
		if err := send(m); err != nil {
			return err
		}
	}
	return nil
}

// Asks makes a call wait for an approval and then run.
func (f *Gateway) Asks(v *palyrav1.Approval, after ...*palyrav1.CallToolResponse) {
	f.Play = func(ctx context.Context, _ *palyrav1.CallToolRequest, send func(*palyrav1.CallToolResponse) error) error {
		f.Change(func() { f.Approvals[v.GetApprovalId()] = v })
		shown := proto.CloneOf(v)
		err := send(&palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_ApprovalRequested{ApprovalRequested: &palyrav1.ApprovalRequested{Approval: shown}}})
		if err != nil {
			return err
		}
		pending := func() bool {
			return f.Approvals[v.GetApprovalId()].GetState() != palyrav1.ApprovalState_APPROVAL_STATE_PENDING
		}
		if err := f.Wait(ctx, pending); err != nil {
			return err
		}
		f.Mu.Lock()
		state := f.Approvals[v.GetApprovalId()].GetState()
		f.Mu.Unlock()
		err = send(&palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_ApprovalResolved{ApprovalResolved: &palyrav1.ApprovalResolved{ApprovalId: v.GetApprovalId(), State: state}}})
		if err != nil {
			return err
		}
		switch state {
		case palyrav1.ApprovalState_APPROVAL_STATE_DENIED:
			return send(DeniedFor(reason.ApprovalDenied, "ada denied the call"))
		case palyrav1.ApprovalState_APPROVAL_STATE_CANCELLED:
			return send(DeniedFor(reason.ApprovalCancelled, "the approval was withdrawn"))
		case palyrav1.ApprovalState_APPROVAL_STATE_EXPIRED:
			return send(DeniedFor(reason.ApprovalExpired, "not answered in time"))
		}
		return Play(send, append([]*palyrav1.CallToolResponse{Allowed()}, after...)...)
	}
}

// Proposed returns the event that opens a call.
func Proposed(req *palyrav1.CallToolRequest) *palyrav1.CallToolResponse {
	return &palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_Proposed{Proposed: &palyrav1.ToolProposed{
		ProposalId: "01PROPOSAL0000000000000000", Session: "default", Run: "r1", Tool: req.GetTool(), InputDigest: canonical.Digest(req.GetInputJson()),
	}}}
}

// Allowed returns a decision that allows a call.
func Allowed() *palyrav1.CallToolResponse {
	return &palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_Decision{Decision: &palyrav1.ToolDecision{DecisionId: "01DECISION0000000000000000", Allowed: true}}}
}

// DeniedFor returns a decision that denies a call.
func DeniedFor(why reason.Code, message string) *palyrav1.CallToolResponse {
	return &palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_Decision{Decision: &palyrav1.ToolDecision{
		DecisionId: "01DECISION0000000000000000", Reason: string(why), Message: message, Remedy: "Ask somebody.",
		Determining: []*palyrav1.Determining{{PolicyId: "exec.none", File: "20-exec.cedar", Line: 7, Effect: "forbid", Reason: "no programs"}},
	}}}
}

// Finished returns the result of a call.
func Finished(outcome string, why reason.Code, body string) *palyrav1.CallToolResponse {
	return &palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_Result{Result: &palyrav1.ToolResult{
		Outcome: outcome, Reason: string(why), ResultJson: []byte(body), ExecutionDigest: canonical.Digest([]byte(body)), Duration: durationpb.New(1500 * time.Millisecond),
	}}}
}

// Output returns a part of the output of a call.
func Output(stream, data string) *palyrav1.CallToolResponse {
	return &palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_Output{Output: &palyrav1.ToolOutputChunk{Stream: stream, Data: []byte(data)}}}
}

// Attested returns the attestation of a call.
func Attested() *palyrav1.CallToolResponse {
	return &palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_Attestation{Attestation: &palyrav1.ToolAttestation{
		AttestationId: "01ATTESTATION0000000000000", EnvelopeJson: []byte(`{"payload":""}`), JournalSeq: 42,
		Posture: &palyrav1.ExecutionPosture{
			Executor: "sandbox_tier_c_linux_bubblewrap", Tier: "c", Backend: "bubblewrap 0.8.0", Enforcement: "strict",
			Egress: "strict", EgressAllowed: []string{"example.com:443"}, ExecutionDigest: canonical.Digest([]byte("result")),
		},
	}}}
}

func (s fakeCalls) ListTools(context.Context, *palyrav1.ListToolsRequest) (*palyrav1.ListToolsResponse, error) {
	s.f.Mu.Lock()
	defer s.f.Mu.Unlock()
	return &palyrav1.ListToolsResponse{Tools: s.f.Tools, Hidden: s.f.Hidden}, nil
}

func (s fakeCalls) EvaluateTool(_ context.Context, req *palyrav1.EvaluateToolRequest) (*palyrav1.EvaluateToolResponse, error) {
	out := &palyrav1.EvaluateToolResponse{
		Verdict: "ask", Reason: "APPROVAL_REQUIRED", Message: "a human has to approve", Remedy: "Ask ada.",
		ProposalApprovalRequired: true, ApprovalSubjectId: req.GetTool() + ":demo", CallDigest: canonical.Digest(req.GetInputJson()),
		Determining: []*palyrav1.Determining{{PolicyId: "sensitive.ask", File: "defaults/10.cedar", Line: 3, Effect: "permit"}},
	}
	if req.GetTool() == "lent" {
		out.Secrets = []*palyrav1.SecretEvaluation{
			{Ref: "global/aws", Version: 2, Env: "AWS_KEY", Verdict: "ask", Reason: "APPROVAL_REQUIRED", Message: "a human has to approve", Determining: out.GetDetermining()},
			{Ref: "user:ada/deploy", Version: 1, Env: "DEPLOY_KEY", File: "/home/tool/.secrets/deploy", Verdict: "allow"},
		}
	}
	if req.GetTool() == "never" {
		out.Verdict, out.Reason, out.Message = "deny", "POLICY_DENIED", "no policy allows it"
	}
	return out, nil
}

func (s fakeCalls) EndSession(context.Context, *palyrav1.EndSessionRequest) (*palyrav1.EndSessionResponse, error) {
	return &palyrav1.EndSessionResponse{}, nil
}

type fakeApprovals struct{ f *Gateway }

func (s fakeApprovals) ListApprovals(_ context.Context, req *palyrav1.ListApprovalsRequest) (*palyrav1.ListApprovalsResponse, error) {
	s.f.Mu.Lock()
	defer s.f.Mu.Unlock()
	var list []*palyrav1.Approval
	for _, v := range s.f.Approvals {
		if len(req.GetStates()) == 0 || slices.Contains(req.GetStates(), v.GetState()) {
			list = append(list, v)
		}
	}
	slices.SortFunc(list, func(a, b *palyrav1.Approval) int {
		if a.GetApprovalId() > b.GetApprovalId() {
			return -1
		}
		return 1
	})
	if req.GetPageToken() == "" && len(list) > 1 {
		return &palyrav1.ListApprovalsResponse{Approvals: list[:1], NextPageToken: "rest"}, nil
	}
	if req.GetPageToken() == "rest" {
		list = list[1:]
	}
	return &palyrav1.ListApprovalsResponse{Approvals: list}, nil
}

func (s fakeApprovals) GetApproval(_ context.Context, req *palyrav1.GetApprovalRequest) (*palyrav1.GetApprovalResponse, error) {
	s.f.Mu.Lock()
	defer s.f.Mu.Unlock()
	v, ok := s.f.Approvals[req.GetApprovalId()]
	if !ok {
		return nil, GatewayError(connect.CodeNotFound, reason.NotFound, "approval "+req.GetApprovalId()+" not found", nil)
	}
	return &palyrav1.GetApprovalResponse{Approval: v}, nil
}

func (s fakeApprovals) WatchApprovals(ctx context.Context, req *palyrav1.WatchApprovalsRequest, stream *connect.ServerStream[palyrav1.WatchApprovalsResponse]) error {
	list, err := s.ListApprovals(ctx, &palyrav1.ListApprovalsRequest{PageToken: "all"})
	if err != nil {
		return err
	}
	for i, v := range list.GetApprovals() {
		if err := stream.Send(&palyrav1.WatchApprovalsResponse{Approval: v, Cursor: fmt.Sprint(i)}); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

// CancelApproval withdraws a pending approval.
func (s fakeApprovals) CancelApproval(_ context.Context, req *palyrav1.CancelApprovalRequest) (*palyrav1.CancelApprovalResponse, error) {
	var v *palyrav1.Approval
	var err error
	s.f.Change(func() {
		v = s.f.Approvals[req.GetApprovalId()]
		switch {
		case v == nil:
			err = GatewayError(connect.CodeNotFound, reason.NotFound, "approval "+req.GetApprovalId()+" not found", nil)
		case v.GetState() != palyrav1.ApprovalState_APPROVAL_STATE_PENDING:
			err = GatewayError(connect.CodeAborted, reason.ApprovalConflict, "bob denied it before", map[string]string{"changed_by": "user:bob"})
		default:
			v = proto.CloneOf(v)
			v.State = palyrav1.ApprovalState_APPROVAL_STATE_CANCELLED
			s.f.Approvals[req.GetApprovalId()] = v
		}
	})
	return &palyrav1.CancelApprovalResponse{Approval: v}, err
}

// EditApproval replaces the arguments of the call, and its digest.
func (s fakeApprovals) EditApproval(_ context.Context, req *palyrav1.EditApprovalRequest) (*palyrav1.EditApprovalResponse, error) {
	var v *palyrav1.Approval
	var err error
	s.f.Change(func() {
		v = s.f.Approvals[req.GetApprovalId()]
		switch {
		case v == nil:
			err = GatewayError(connect.CodeNotFound, reason.NotFound, "approval "+req.GetApprovalId()+" not found", nil)
		case v.GetState() != palyrav1.ApprovalState_APPROVAL_STATE_PENDING, v.GetVersion() != req.GetVersion():
			err = GatewayError(connect.CodeAborted, reason.ApprovalConflict, "bob denied it before", map[string]string{"changed_by": "user:bob"})
		case req.GetShownDigest() != v.GetCallDigest():
			err = GatewayError(connect.CodeFailedPrecondition, reason.DigestMismatch, "the digest is of another call", nil)
		default:
			v = proto.CloneOf(v)
			was := v.GetCallDigest()
			v.Version, v.Votes, v.CallDigest, v.Prompt.ArgumentsJson = v.GetVersion()+1, nil, canonical.Digest(req.GetInputJson()), req.GetInputJson()
			v.Edits = append(v.Edits, &palyrav1.ApprovalEdit{User: "user:ada", Surface: req.GetSurface(), Reason: req.GetReason(), WasDigest: was, IsDigest: v.GetCallDigest()})
			s.f.Approvals[req.GetApprovalId()] = v
		}
	})
	return &palyrav1.EditApprovalResponse{Approval: v}, err
}

// DecideApproval enforces the rules: one answer, a reason for a denial, and the digest of the
// pending call.
func (s fakeApprovals) DecideApproval(ctx context.Context, req *palyrav1.DecideApprovalRequest) (*palyrav1.DecideApprovalResponse, error) {
	var v *palyrav1.Approval
	var err error
	proven, unproven := s.f.proven(ctx, req)
	s.f.Change(func() {
		s.f.Votes = append(s.f.Votes, req)
		v = s.f.Approvals[req.GetApprovalId()]
		switch {
		case s.f.VotesRefused:
			err = GatewayError(connect.CodePermissionDenied, reason.PermissionDenied, "nobody answers for their own call", nil)
		case v == nil:
			err = GatewayError(connect.CodeNotFound, reason.NotFound, "approval "+req.GetApprovalId()+" not found", nil)
		case v.GetState() != palyrav1.ApprovalState_APPROVAL_STATE_PENDING:
			err = GatewayError(connect.CodeAborted, reason.ApprovalConflict, "bob denied it before", map[string]string{"changed_by": "user:bob"})
		case req.GetShownDigest() != v.GetCallDigest():
			err = GatewayError(connect.CodeFailedPrecondition, reason.DigestMismatch, "the digest is of another call", nil)
		case unproven != nil:
			err = unproven
		case req.GetAllow() && v.GetPresenceWanted() && !proven:
			v = proto.CloneOf(v)
			v.Missing = "the approval of 1 person, with presence proven"
		case req.GetAllow():
			v = proto.CloneOf(v)
			v.PresenceWanted = false
			v.State = palyrav1.ApprovalState_APPROVAL_STATE_ALLOWED
		default:
			v = proto.CloneOf(v)
			v.State = palyrav1.ApprovalState_APPROVAL_STATE_DENIED
		}
		if err == nil {
			s.f.Approvals[req.GetApprovalId()] = v
		}
	})
	if err != nil {
		return nil, err
	}
	return &palyrav1.DecideApprovalResponse{Approval: v}, nil
}

func (s fakeApprovals) ExportApprovals(_ context.Context, req *palyrav1.ExportApprovalsRequest, stream *connect.ServerStream[palyrav1.ExportApprovalsResponse]) error {
	for _, part := range []string{`{"kind":"approval"}` + "\n", `{"kind":"trailer","format":"` + req.GetFormat().String() + `"}` + "\n"} {
		if err := stream.Send(&palyrav1.ExportApprovalsResponse{Data: []byte(part)}); err != nil {
			return err
		}
	}
	return nil
}

func (s fakeApprovals) ListGrants(_ context.Context, req *palyrav1.ListGrantsRequest) (*palyrav1.ListGrantsResponse, error) {
	s.f.Mu.Lock()
	defer s.f.Mu.Unlock()
	out := &palyrav1.ListGrantsResponse{}
	for _, g := range s.f.Grants {
		if g.GetRevokedAt() == nil || req.GetIncludeEnded() {
			out.Grants = append(out.Grants, g)
		}
	}
	return out, nil
}

func (s fakeApprovals) RevokeGrant(_ context.Context, req *palyrav1.RevokeGrantRequest) (*palyrav1.RevokeGrantResponse, error) {
	s.f.Mu.Lock()
	defer s.f.Mu.Unlock()
	g, ok := s.f.Grants[req.GetGrantId()]
	if !ok {
		return nil, GatewayError(connect.CodeNotFound, reason.NotFound, "grant "+req.GetGrantId()+" not found", nil)
	}
	g.RevokedAt, g.RevokedBy, g.RevokeReason = timestamppb.New(Now), "user:ada", req.GetReason()
	return &palyrav1.RevokeGrantResponse{Grant: g}, nil
}

type fakePolicy struct {
	f *Gateway
}

func (s fakePolicy) ValidatePolicy(context.Context, *palyrav1.ValidatePolicyRequest) (*palyrav1.ValidatePolicyResponse, error) {
	return &palyrav1.ValidatePolicyResponse{Findings: s.f.findings}, nil
}

func (s fakePolicy) GetPolicy(_ context.Context, req *palyrav1.GetPolicyRequest) (*palyrav1.GetPolicyResponse, error) {
	if req.GetVersion() != "" {
		return oldPolicy(req.GetVersion()), nil
	}
	return &palyrav1.GetPolicyResponse{
		Version: "sha256:aa", SchemaDigest: "sha256:bb", SnapshotDigest: "sha256:cc", LoadedAt: timestamppb.New(Now.Add(-time.Hour)),
		Schema:    "namespace Palyra;",
		Sources:   append([]*palyrav1.PolicySource{{Name: "defaults/10.cedar", Text: "permit(principal, action, resource);\n"}}, s.f.Own...),
		Directory: s.f.directory(), Activated: s.f.Activated,
	}, nil
}

// directory returns the policy directory in the form of the API.
func (f *Gateway) directory() *palyrav1.PolicyDirectory {
	d := &palyrav1.PolicyDirectory{Path: f.PolicyDir, Present: len(f.Own) > 0, Files: int32(len(f.Own)), Policies: int32(len(f.Own)), InForce: len(f.Own) > 0 && !f.Activated}
	switch {
	case f.Activated:
		d.Problem = "an activated version is in force instead; run `palyra policy reload` to return to the directory"
	case !d.InForce:
		d.Problem = "it is not there; `palyra policy init --profile laptop` makes it"
	}
	return d
}

// ReloadPolicy reads the policy directory, if the gateway has one.
func (s fakePolicy) ReloadPolicy(context.Context, *palyrav1.ReloadPolicyRequest) (*palyrav1.ReloadPolicyResponse, error) {
	if s.f.ReloadFails != nil {
		return nil, s.f.ReloadFails
	}
	if found, _ := filepath.Glob(filepath.Join(s.f.PolicyDir, "*.cedar")); len(found) > 0 {
		s.f.Own = nil
		for _, path := range found {
			text, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			s.f.Own = append(s.f.Own, &palyrav1.PolicySource{Name: filepath.Base(path), Text: string(text)})
		}
		s.f.Activated = false
		return &palyrav1.ReloadPolicyResponse{Version: "sha256:dd", SnapshotDigest: "sha256:ee", Changed: true, Directory: s.f.directory()}, nil
	}
	return nil, GatewayError(connect.CodeFailedPrecondition, reason.PolicyInvalid, "the policy set does not load", nil)
}

func (s fakePolicy) GetSnapshot(_ context.Context, req *palyrav1.GetSnapshotRequest) (*palyrav1.GetSnapshotResponse, error) {
	return &palyrav1.GetSnapshotResponse{SnapshotJson: []byte(`{"settings":{"max_calls_per_run":200}}`)}, nil
}

type fakeStatus struct{ f *Gateway }

func (s fakeStatus) GetStatus(ctx context.Context, req *palyrav1.GetStatusRequest) (*palyrav1.GetStatusResponse, error) {
	s.f.Mu.Lock()
	defer s.f.Mu.Unlock()
	out := &palyrav1.GetStatusResponse{
		Version: "v1.2.3", Ready: s.f.Ready, Degraded: s.f.Degraded, StartedAt: timestamppb.New(Now.Add(-3 * time.Hour)), GatewayId: "gw-test",
		PolicyVersion: "sha256:aa", SnapshotDigest: "sha256:cc", JournalSize: 42, LastCheckpointSize: 40, Freeze: s.f.frozen,
		PendingApprovals: 1, LiveGrants: 2, CallsInFlight: 1, Caller: s.f.Caller,
		Workspaces: []*palyrav1.WorkspaceStatus{{Name: "demo", Path: "/srv/demo", ReadOnly: true}},
		Sandbox:    &palyrav1.SandboxStatus{Available: true, Backend: "bubblewrap 0.8.0", LimitsBy: "rlimits", Layers: []string{"mount", "pid"}},
		Notices:    []string{"one user exists: they may answer for their own agents"},
		Models:     []*palyrav1.ModelStatus{{Name: "fast", Provider: "anthropic", Model: "fast-1", Available: true}, {Name: "local", Provider: "openai", Problem: "no key file"}},
		Keys: []*palyrav1.KeyPlace{
			{Key: "root", Place: "tpm", Detail: "/dev/tpmrm0, which it never leaves"},
			{Key: "notary", Place: "tpm", Detail: "/dev/tpmrm0, sealed in ca/notary.pem"},
			{Key: "operator", Place: "file", Detail: "operator/key.pem, mode 0600"},
		},
		ActiveRuns: 1, PolicyDirectory: s.f.directory(),
		Vault: &palyrav1.VaultStatus{
			Backend: "secret_service", Locked: true, Reason: "VAULT_LOCKED", Summary: "secret service, locked: using the keyring: it is locked",
			Remedy: "Unlock the keyring.", Since: timestamppb.New(Now.Add(-time.Hour)),
		},
	}
	if !s.f.Ready {
		out.Problems = []string{"the journal cannot be written"}
	}
	if s.f.Journal == nil || !s.f.ShowsHead {
		return out, nil
	}
	cp, proof, err := s.f.Journal.Log.Extending(ctx, req.GetKnownJournalSize())
	out.JournalSize, out.LastCheckpointSize, out.Checkpoint = s.f.Journal.Log.Head().Seq, cp.Size, cp.Note
	for _, h := range proof.Hashes {
		out.Consistency = append(out.Consistency, hex.EncodeToString(h[:]))
	}
	return out, err
}

func (s fakeStatus) Freeze(_ context.Context, req *palyrav1.FreezeRequest) (*palyrav1.FreezeResponse, error) {
	s.f.Mu.Lock()
	defer s.f.Mu.Unlock()
	s.f.frozen = &palyrav1.FreezeState{Frozen: true, Reason: req.GetReason(), By: "user:ada", At: timestamppb.New(Now)}
	return &palyrav1.FreezeResponse{State: s.f.frozen, Stopped: 2}, nil
}

func (s fakeStatus) Thaw(context.Context, *palyrav1.ThawRequest) (*palyrav1.ThawResponse, error) {
	s.f.Mu.Lock()
	defer s.f.Mu.Unlock()
	s.f.frozen = &palyrav1.FreezeState{}
	return &palyrav1.ThawResponse{State: s.f.frozen}, nil
}

type fakeAccess struct {
	palyrav1connect.UnimplementedAccessServiceHandler
	f *Gateway
}

func (s fakeAccess) ListMembers(_ context.Context, req *palyrav1.ListMembersRequest) (*palyrav1.ListMembersResponse, error) {
	s.f.Mu.Lock()
	defer s.f.Mu.Unlock()
	res := &palyrav1.ListMembersResponse{}
	for _, m := range s.f.members() {
		if m.GetRemovedAt() == nil || req.GetRemoved() {
			res.Members = append(res.Members, m)
		}
	}
	return res, nil
}
