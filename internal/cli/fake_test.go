package cli

import (
	"context"
	"fmt"
	"net/http"
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
	"palyra/internal/canonical"
	"palyra/internal/reason"
)

// fakeGateway behaves like a gateway with the tools and approvals it is given:
// a call that asks waits until somebody decides.
type fakeGateway struct {
	palyrav1connect.UnimplementedPolicyServiceHandler
	palyrav1connect.UnimplementedAccessServiceHandler

	mu        sync.Mutex
	changed   chan struct{}
	approvals map[string]*palyrav1.Approval
	grants    map[string]*palyrav1.Grant
	devices   []*palyrav1.Device
	tools     []*palyrav1.Tool
	caller    *palyrav1.Identity
	ready     bool
	frozen    *palyrav1.FreezeState
	calls     []*palyrav1.CallToolRequest
	votes     []*palyrav1.DecideApprovalRequest
	findings  []*palyrav1.PolicyFinding
	// policyAsked are the requests of the policy tools.
	policyAsked []proto.Message
	// fail, when set, is the answer to every method.
	fail error
	// changeSets are those of workspaces, and undone what was asked to undo.
	changeSets []*palyrav1.ChangeSet
	undone     []*palyrav1.UndoChangeSetRequest
	// several adds a second user; votesRefused refuses every vote.
	several, votesRefused bool
	// play is what a call does; nil succeeds.
	play func(ctx context.Context, req *palyrav1.CallToolRequest, send func(*palyrav1.CallToolResponse) error) error

	runs *fakeRuns
	// life ends with the test; hangUp breaks every connection.
	life   context.Context
	hangUp func()

	root     *authority
	renewals int
	journal  *fakeJournal
	// endedSessions are the requests to end one.
	endedSessions []*palyrav1.SessionServiceEndSessionRequest
}

func newFakeGateway() *fakeGateway {
	f := &fakeGateway{
		changed: make(chan struct{}), approvals: map[string]*palyrav1.Approval{}, grants: map[string]*palyrav1.Grant{},
		ready:  true,
		caller: &palyrav1.Identity{Principal: "user:ada", OnBehalfOf: "user:ada", Roles: []string{"owner"}, DeviceId: "01DEVICE000000000000000000", CertificateExpiresAt: timestamppb.New(testNow.Add(12 * time.Hour))},
	}
	f.runs = &fakeRuns{f: f}
	return f
}

func (f *fakeGateway) handler() http.Handler {
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
	mux.Handle(palyrav1connect.NewJournalServiceHandler(fakeJournalService{f}, refuse))
	mux.Handle(palyrav1connect.NewAttestationServiceHandler(fakeAttestations{f}, refuse))
	return mux
}

// refusing answers with the gateway's failure when there is one.
type refusing struct{ f *fakeGateway }

func (r refusing) failure() error {
	r.f.mu.Lock()
	defer r.f.mu.Unlock()
	return r.f.fail
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

// gatewayError is an error as the gateway sends it.
func gatewayError(code connect.Code, why reason.Code, message string, metadata map[string]string) error {
	e := connect.NewError(code, fmt.Errorf("%s", message))
	detail, err := connect.NewErrorDetail(&errdetails.ErrorInfo{Reason: string(why), Domain: "palyra.dev", Metadata: metadata})
	if err != nil {
		panic(err)
	}
	e.AddDetail(detail)
	return e
}

// change runs fn under the lock and wakes whoever waits for a change.
func (f *fakeGateway) change(fn func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fn()
	close(f.changed)
	f.changed = make(chan struct{})
}

// wait returns once ok holds.
func (f *fakeGateway) wait(ctx context.Context, ok func() bool) error {
	for {
		f.mu.Lock()
		done, changed := ok(), f.changed
		f.mu.Unlock()
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

type fakeCalls struct{ f *fakeGateway }

func (s fakeCalls) CallTool(ctx context.Context, req *palyrav1.CallToolRequest, stream *connect.ServerStream[palyrav1.CallToolResponse]) error {
	s.f.change(func() { s.f.calls = append(s.f.calls, req) })
	seq := int64(0)
	send := func(m *palyrav1.CallToolResponse) error {
		seq++
		m.Sequence = seq
		return stream.Send(m)
	}
	if err := send(proposed(req)); err != nil {
		return err
	}
	if s.f.play != nil {
		return s.f.play(ctx, req, send)
	}
	return play(send, allowed(), finished("succeeded", "", `{"text":"hello"}`), attested())
}

func play(send func(*palyrav1.CallToolResponse) error, list ...*palyrav1.CallToolResponse) error {
	for _, m := range list {
		if err := send(m); err != nil {
			return err
		}
	}
	return nil
}

// asks is a play that waits for an approval and then runs.
func (f *fakeGateway) asks(v *palyrav1.Approval, after ...*palyrav1.CallToolResponse) {
	f.play = func(ctx context.Context, _ *palyrav1.CallToolRequest, send func(*palyrav1.CallToolResponse) error) error {
		f.change(func() { f.approvals[v.GetApprovalId()] = v })
		shown := proto.Clone(v).(*palyrav1.Approval)
		err := send(&palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_ApprovalRequested{ApprovalRequested: &palyrav1.ApprovalRequested{Approval: shown}}})
		if err != nil {
			return err
		}
		pending := func() bool {
			return f.approvals[v.GetApprovalId()].GetState() != palyrav1.ApprovalState_APPROVAL_STATE_PENDING
		}
		if err := f.wait(ctx, pending); err != nil {
			return err
		}
		f.mu.Lock()
		state := f.approvals[v.GetApprovalId()].GetState()
		f.mu.Unlock()
		err = send(&palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_ApprovalResolved{ApprovalResolved: &palyrav1.ApprovalResolved{ApprovalId: v.GetApprovalId(), State: state}}})
		if err != nil {
			return err
		}
		switch state {
		case palyrav1.ApprovalState_APPROVAL_STATE_DENIED:
			return send(deniedFor(reason.ApprovalDenied, "ada denied the call"))
		case palyrav1.ApprovalState_APPROVAL_STATE_CANCELLED:
			return send(deniedFor(reason.ApprovalCancelled, "the approval was withdrawn"))
		case palyrav1.ApprovalState_APPROVAL_STATE_EXPIRED:
			return send(deniedFor(reason.ApprovalExpired, "nobody answered in time"))
		}
		return play(send, append([]*palyrav1.CallToolResponse{allowed()}, after...)...)
	}
}

func proposed(req *palyrav1.CallToolRequest) *palyrav1.CallToolResponse {
	return &palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_Proposed{Proposed: &palyrav1.ToolProposed{
		ProposalId: "01PROPOSAL0000000000000000", Session: "default", Run: "r1", Tool: req.GetTool(), InputDigest: canonical.Digest(req.GetInputJson()),
	}}}
}

func allowed() *palyrav1.CallToolResponse {
	return &palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_Decision{Decision: &palyrav1.ToolDecision{DecisionId: "01DECISION0000000000000000", Allowed: true}}}
}

func deniedFor(why reason.Code, message string) *palyrav1.CallToolResponse {
	return &palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_Decision{Decision: &palyrav1.ToolDecision{
		DecisionId: "01DECISION0000000000000000", Reason: string(why), Message: message, Remedy: "Ask somebody.",
		Determining: []*palyrav1.Determining{{PolicyId: "exec.none", File: "20-exec.cedar", Line: 7, Effect: "forbid", Reason: "no programs"}},
	}}}
}

func finished(outcome string, why reason.Code, body string) *palyrav1.CallToolResponse {
	return &palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_Result{Result: &palyrav1.ToolResult{
		Outcome: outcome, Reason: string(why), ResultJson: []byte(body), ExecutionDigest: canonical.Digest([]byte(body)), Duration: durationpb.New(1500 * time.Millisecond),
	}}}
}

func output(stream, data string) *palyrav1.CallToolResponse {
	return &palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_Output{Output: &palyrav1.ToolOutputChunk{Stream: stream, Data: []byte(data)}}}
}

func attested() *palyrav1.CallToolResponse {
	return &palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_Attestation{Attestation: &palyrav1.ToolAttestation{
		AttestationId: "01ATTESTATION0000000000000", EnvelopeJson: []byte(`{"payload":""}`), JournalSeq: 42,
	}}}
}

func (s fakeCalls) ListTools(context.Context, *palyrav1.ListToolsRequest) (*palyrav1.ListToolsResponse, error) {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	return &palyrav1.ListToolsResponse{Tools: s.f.tools}, nil
}

func (s fakeCalls) EvaluateTool(_ context.Context, req *palyrav1.EvaluateToolRequest) (*palyrav1.EvaluateToolResponse, error) {
	out := &palyrav1.EvaluateToolResponse{
		Verdict: "ask", Reason: "APPROVAL_REQUIRED", Message: "a human has to approve", Remedy: "Ask ada.", SkillGateDecision: "not_a_skill",
		ProposalApprovalRequired: true, ApprovalSubjectId: req.GetTool() + ":demo", CallDigest: canonical.Digest(req.GetInputJson()),
		Determining: []*palyrav1.Determining{{PolicyId: "sensitive.ask", File: "defaults/10.cedar", Line: 3, Effect: "permit"}},
	}
	if req.GetTool() == "never" {
		out.Verdict, out.Reason, out.Message = "deny", "POLICY_DENIED", "no policy allows it"
	}
	return out, nil
}

func (s fakeCalls) EndSession(context.Context, *palyrav1.EndSessionRequest) (*palyrav1.EndSessionResponse, error) {
	return &palyrav1.EndSessionResponse{}, nil
}

type fakeApprovals struct{ f *fakeGateway }

func (s fakeApprovals) ListApprovals(_ context.Context, req *palyrav1.ListApprovalsRequest) (*palyrav1.ListApprovalsResponse, error) {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	var list []*palyrav1.Approval
	for _, v := range s.f.approvals {
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
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	v, ok := s.f.approvals[req.GetApprovalId()]
	if !ok {
		return nil, gatewayError(connect.CodeNotFound, reason.NotFound, "there is no approval "+req.GetApprovalId(), nil)
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

// CancelApproval withdraws what is pending.
func (s fakeApprovals) CancelApproval(_ context.Context, req *palyrav1.CancelApprovalRequest) (*palyrav1.CancelApprovalResponse, error) {
	var v *palyrav1.Approval
	var err error
	s.f.change(func() {
		v = s.f.approvals[req.GetApprovalId()]
		switch {
		case v == nil:
			err = gatewayError(connect.CodeNotFound, reason.NotFound, "there is no approval "+req.GetApprovalId(), nil)
		case v.GetState() != palyrav1.ApprovalState_APPROVAL_STATE_PENDING:
			err = gatewayError(connect.CodeAborted, reason.ApprovalConflict, "bob denied it before", map[string]string{"changed_by": "user:bob"})
		default:
			v = proto.Clone(v).(*palyrav1.Approval)
			v.State = palyrav1.ApprovalState_APPROVAL_STATE_CANCELLED
			s.f.approvals[req.GetApprovalId()] = v
		}
	})
	return &palyrav1.CancelApprovalResponse{Approval: v}, err
}

// DecideApproval follows the rules: one answer, a reason for a no, and the
// digest of the call that waits.
func (s fakeApprovals) DecideApproval(_ context.Context, req *palyrav1.DecideApprovalRequest) (*palyrav1.DecideApprovalResponse, error) {
	var v *palyrav1.Approval
	var err error
	s.f.change(func() {
		s.f.votes = append(s.f.votes, req)
		v = s.f.approvals[req.GetApprovalId()]
		switch {
		case s.f.votesRefused:
			err = gatewayError(connect.CodePermissionDenied, reason.PermissionDenied, "nobody answers for their own call", nil)
		case v == nil:
			err = gatewayError(connect.CodeNotFound, reason.NotFound, "there is no approval "+req.GetApprovalId(), nil)
		case v.GetState() != palyrav1.ApprovalState_APPROVAL_STATE_PENDING:
			err = gatewayError(connect.CodeAborted, reason.ApprovalConflict, "bob denied it before", map[string]string{"changed_by": "user:bob"})
		case req.GetShownDigest() != v.GetCallDigest():
			err = gatewayError(connect.CodeFailedPrecondition, reason.DigestMismatch, "the digest is of another call", nil)
		case req.GetAllow():
			v = proto.Clone(v).(*palyrav1.Approval)
			v.State = palyrav1.ApprovalState_APPROVAL_STATE_ALLOWED
		default:
			v = proto.Clone(v).(*palyrav1.Approval)
			v.State = palyrav1.ApprovalState_APPROVAL_STATE_DENIED
		}
		if err == nil {
			s.f.approvals[req.GetApprovalId()] = v
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
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	out := &palyrav1.ListGrantsResponse{}
	for _, g := range s.f.grants {
		if g.GetRevokedAt() == nil || req.GetIncludeEnded() {
			out.Grants = append(out.Grants, g)
		}
	}
	return out, nil
}

func (s fakeApprovals) RevokeGrant(_ context.Context, req *palyrav1.RevokeGrantRequest) (*palyrav1.RevokeGrantResponse, error) {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	g, ok := s.f.grants[req.GetGrantId()]
	if !ok {
		return nil, gatewayError(connect.CodeNotFound, reason.NotFound, "there is no grant "+req.GetGrantId(), nil)
	}
	g.RevokedAt, g.RevokedBy, g.RevokeReason = timestamppb.New(testNow), "user:ada", req.GetReason()
	return &palyrav1.RevokeGrantResponse{Grant: g}, nil
}

type fakePolicy struct {
	f *fakeGateway
}

func (s fakePolicy) ValidatePolicy(context.Context, *palyrav1.ValidatePolicyRequest) (*palyrav1.ValidatePolicyResponse, error) {
	return &palyrav1.ValidatePolicyResponse{Findings: s.f.findings}, nil
}

func (s fakePolicy) GetPolicy(_ context.Context, req *palyrav1.GetPolicyRequest) (*palyrav1.GetPolicyResponse, error) {
	if req.GetVersion() != "" {
		return oldPolicy(req.GetVersion()), nil
	}
	return &palyrav1.GetPolicyResponse{
		Version: "sha256:aa", SchemaDigest: "sha256:bb", SnapshotDigest: "sha256:cc", LoadedAt: timestamppb.New(testNow.Add(-time.Hour)),
		Schema:  "namespace Palyra;",
		Sources: []*palyrav1.PolicySource{{Name: "defaults/10.cedar", Text: "permit(principal, action, resource);\n"}},
	}, nil
}

func (s fakePolicy) ReloadPolicy(context.Context, *palyrav1.ReloadPolicyRequest) (*palyrav1.ReloadPolicyResponse, error) {
	return nil, gatewayError(connect.CodeFailedPrecondition, reason.PolicyInvalid, "the policy set does not load", nil)
}

func (s fakePolicy) GetSnapshot(_ context.Context, req *palyrav1.GetSnapshotRequest) (*palyrav1.GetSnapshotResponse, error) {
	return &palyrav1.GetSnapshotResponse{SnapshotJson: []byte(`{"settings":{"max_calls_per_run":200}}`)}, nil
}

type fakeStatus struct{ f *fakeGateway }

func (s fakeStatus) GetStatus(context.Context, *palyrav1.GetStatusRequest) (*palyrav1.GetStatusResponse, error) {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	out := &palyrav1.GetStatusResponse{
		Version: "v1.2.3", Ready: s.f.ready, StartedAt: timestamppb.New(testNow.Add(-3 * time.Hour)), GatewayId: "gw-test",
		PolicyVersion: "sha256:aa", SnapshotDigest: "sha256:cc", JournalSize: 42, LastCheckpointSize: 40, Freeze: s.f.frozen,
		PendingApprovals: 1, LiveGrants: 2, CallsInFlight: 1, Caller: s.f.caller,
		Workspaces: []*palyrav1.WorkspaceStatus{{Name: "demo", Path: "/srv/demo", ReadOnly: true}},
		Sandbox:    &palyrav1.SandboxStatus{Available: true, Backend: "bubblewrap 0.8.0", LimitsBy: "rlimits", Layers: []string{"mount", "pid"}},
		Notices:    []string{"one user exists: they may answer for their own agents"},
		Models:     []*palyrav1.ModelStatus{{Name: "fast", Provider: "anthropic", Model: "fast-1", Available: true}, {Name: "local", Provider: "openai", Problem: "no key file"}},
		ActiveRuns: 1,
	}
	if !s.f.ready {
		out.Problems = []string{"the journal cannot be written"}
	}
	return out, nil
}

func (s fakeStatus) Freeze(_ context.Context, req *palyrav1.FreezeRequest) (*palyrav1.FreezeResponse, error) {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	s.f.frozen = &palyrav1.FreezeState{Frozen: true, Reason: req.GetReason(), By: "user:ada", At: timestamppb.New(testNow)}
	return &palyrav1.FreezeResponse{State: s.f.frozen, Stopped: 2}, nil
}

func (s fakeStatus) Thaw(context.Context, *palyrav1.ThawRequest) (*palyrav1.ThawResponse, error) {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	s.f.frozen = &palyrav1.FreezeState{}
	return &palyrav1.ThawResponse{State: s.f.frozen}, nil
}

type fakeAccess struct {
	palyrav1connect.UnimplementedAccessServiceHandler
	f *fakeGateway
}

func (s fakeAccess) ListMembers(context.Context, *palyrav1.ListMembersRequest) (*palyrav1.ListMembersResponse, error) {
	members := []*palyrav1.Member{
		{Principal: "agent:claude", Owner: "user:ada", Roles: []string{"agent"}, CreatedAt: timestamppb.New(testNow)},
		{Principal: "user:ada", Roles: []string{"owner", "security"}, CreatedAt: timestamppb.New(testNow)},
	}
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	if s.f.several {
		members = append(members, &palyrav1.Member{Principal: "user:bob", Roles: []string{"operator"}, CreatedAt: timestamppb.New(testNow)})
	}
	return &palyrav1.ListMembersResponse{Members: members}, nil
}
