package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"connectrpc.com/connect"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/call"
	"palyra/internal/call/approval"
	"palyra/internal/call/policy"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/identity/passkey"
	"palyra/internal/surface/api/export"
	"palyra/internal/surface/api/people"
	"palyra/internal/surface/api/presenceproof"
)

type approvals struct {
	prompts
	engine   *policy.Engine
	presence *presenceproof.Service
	// views are the open views of streams.
	views people.Views
}

// ListApprovals returns one page, newest first.
func (a *approvals) ListApprovals(ctx context.Context, req *palyrav1.ListApprovalsRequest) (*palyrav1.ListApprovalsResponse, error) {
	f, err := approvalFilter(req)
	if err != nil {
		return nil, err
	}
	var some bool
	if f.SubjectTypes, some = a.visibleTypes(ctx, f.SubjectTypes); !some {
		return &palyrav1.ListApprovalsResponse{}, nil
	}
	records, next, err := a.desk.Records.List(ctx, f)
	if err != nil {
		return nil, err
	}
	res := &palyrav1.ListApprovalsResponse{NextPageToken: next}
	for _, r := range records {
		m := a.message(ctx, callerOf(ctx), r)
		m.You = a.standing(ctx, r)
		res.Approvals = append(res.Approvals, m)
	}
	if req.GetWithCounts() {
		counted, err := a.desk.Records.Tally(ctx, f)
		if err != nil {
			return nil, err
		}
		res.Counts = countsMessage(counted)
	}
	return res, nil
}

func approvalFilter(req *palyrav1.ListApprovalsRequest) (f approval.Filter, err error) {
	f = approval.Filter{
		Traits: approval.Traits{
			States: wordsOf[approval.State](statePrefix, req.GetStates()), SubjectTypes: wordsOf[approval.SubjectType](subjectPrefix, req.GetSubjectTypes()),
			Tools: req.GetTools(), Severities: req.GetSeverities(),
		},
		Except: approval.Traits{
			States: wordsOf[approval.State](statePrefix, req.GetExceptStates()), SubjectTypes: wordsOf[approval.SubjectType](subjectPrefix, req.GetExceptSubjectTypes()),
			Tools: req.GetExceptTools(), Severities: req.GetExceptSeverities(),
		},
		Since: timeOf(req.GetSince()), Until: timeOf(req.GetUntil()),
		PageSize: int(req.GetPageSize()), PageToken: req.GetPageToken(), Ascending: req.GetAscending(),
	}
	if f.Principals, err = principalsOf(req.GetPrincipals()); err == nil {
		f.Except.Principals, err = principalsOf(req.GetExceptPrincipals())
	}
	return f, err
}

func principalsOf(texts []string) (list []access.Principal, err error) {
	for _, text := range texts {
		p, err := principalOf(text)
		if err != nil {
			return nil, err
		}
		if !p.IsZero() {
			list = append(list, p)
		}
	}
	return list, nil
}

// standing returns the effect that a plain approval by the caller would have.
func (a *approvals) standing(ctx context.Context, r approval.Record) *palyrav1.ApprovalStanding {
	caller := callerOf(ctx)
	s := &palyrav1.ApprovalStanding{Own: r.Own(a.engine.Current().Access().Requester(caller)), Voted: r.HasVoted(caller.Principal)}
	err := a.desk.Votes.MayVote(ctx, caller, r)
	if s.MayDecide = err == nil; err == nil {
		return s
	}
	known := &reason.Error{Code: reason.Of(err)}
	errors.As(err, &known)
	s.Reason, s.Message, s.Remedy, s.Permission = string(known.Code), known.Message, known.NextStep(), known.Fields["permission"]
	s.WithPresence = known.Code == reason.PresenceNotProven
	return s
}

// visibleTypes returns the requested subject types that the caller may see; an empty list means
// all. some is false if none is visible. A caller that may not read approvals sees only changes
// of the gateway, because policy does not hide these from their approvers.
func (a *approvals) visibleTypes(ctx context.Context, wanted []approval.SubjectType) (types []approval.SubjectType, some bool) {
	if may(a.engine, callerOf(ctx), access.PermApprovalRead) {
		return wanted, true
	}
	only := approval.SubjectGatewayChange
	return []approval.SubjectType{only}, len(wanted) == 0 || slices.Contains(wanted, only)
}

// shows reports whether the caller may see a record.
func (a *approvals) shows(ctx context.Context, r approval.Record) bool {
	types, _ := a.visibleTypes(ctx, nil)
	return len(types) == 0 || slices.Contains(types, r.SubjectType)
}

// current returns an approval as listed, or nil if the caller may not see it.
func (a *approvals) current(ctx context.Context, id string) (*palyrav1.Approval, error) {
	r, err := a.desk.Records.Get(ctx, id)
	if err != nil || !a.shows(ctx, r) {
		return nil, err
	}
	m := a.message(ctx, callerOf(ctx), r)
	m.You = a.standing(ctx, r)
	return m, nil
}

// GetApproval returns one approval.
func (a *approvals) GetApproval(ctx context.Context, req *palyrav1.GetApprovalRequest) (*palyrav1.GetApprovalResponse, error) {
	r, err := a.desk.Records.Get(ctx, req.GetApprovalId())
	if err == nil && !a.shows(ctx, r) {
		err = a.engine.Current().Access().Permit(policy.AccessRequest{Caller: callerOf(ctx), Permission: access.PermApprovalRead})
	}
	if err != nil {
		return nil, err
	}
	m := a.message(ctx, callerOf(ctx), r)
	m.You, m.Prompt.Files = a.standing(ctx, r), fileMessages(m.GetPrompt().GetDiff())
	return &palyrav1.GetApprovalResponse{Approval: m}, nil
}

// WatchApprovals streams changes. Without a cursor it starts with the open approvals; a cursor
// is the revision of the record in the same message.
func (a *approvals) WatchApprovals(ctx context.Context, req *palyrav1.WatchApprovalsRequest, stream *connect.ServerStream[palyrav1.WatchApprovalsResponse]) error {
	var after int64
	if cursor := req.GetCursor(); cursor != "" {
		var err error
		if after, err = strconv.ParseInt(cursor, 10, 64); err != nil || after < 1 {
			return reason.Errorf(reason.InvalidInput, "cursor %q is not valid", cursor)
		}
	}
	// Both the desk and the heartbeats send; a stream accepts one message at a time.
	var sending sync.Mutex
	send := func(m *palyrav1.WatchApprovalsResponse) error {
		sending.Lock()
		defer sending.Unlock()
		return stream.Send(m)
	}
	var beating sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	defer beating.Wait()
	defer cancel()
	// An empty message opens the stream, so that a watcher detects the connection while there are
	// no approvals.
	opened := func() error {
		if err := send(&palyrav1.WatchApprovalsResponse{Cursor: req.GetCursor()}); err != nil {
			return err
		}
		beating.Go(func() { beat(ctx, func() error { return send(&palyrav1.WatchApprovalsResponse{}) }) })
		return nil
	}
	return a.desk.Records.Watch(ctx, after, opened, func(r approval.Record) error {
		m, err := a.views.Of(a.engine.Current(), callerOf(ctx), r.Revision, func() (*palyrav1.Approval, error) {
			if !a.shows(ctx, r) {
				return nil, nil
			}
			return a.message(ctx, callerOf(ctx), r), nil
		})
		if err != nil || m == nil {
			return err
		}
		return send(&palyrav1.WatchApprovalsResponse{Approval: m, Cursor: strconv.FormatInt(r.Revision, 10)})
	})
}

// beatEvery is the interval of a stream's heartbeats, by which a watcher detects stale data.
const beatEvery = 2 * time.Second

// beat sends heartbeats until ctx ends or sending fails.
func beat(ctx context.Context, send func() error) {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if send() != nil {
				return
			}
		}
	}
}

// DecideApproval casts the caller's vote.
func (a *approvals) DecideApproval(ctx context.Context, req *palyrav1.DecideApprovalRequest) (*palyrav1.DecideApprovalResponse, error) {
	r, err := vote(ctx, a.desk, a.presence, presenceproof.Voting(callerOf(ctx), req), req)
	if err != nil {
		return nil, err
	}
	return &palyrav1.DecideApprovalResponse{Approval: a.message(ctx, callerOf(ctx), r)}, nil
}

// vote casts a vote on the caller's surface. All votes pass through it: requests, and messages on
// the stream of a run.
func vote(ctx context.Context, desk *approval.Desk, proofs *presenceproof.Service, caller access.Caller, req *palyrav1.DecideApprovalRequest) (approval.Record, error) {
	if req.GetShownDigest() == "" {
		return approval.Record{}, reason.Errorf(reason.InvalidInput, "shown_digest is required: it identifies the call that the voter reviewed").
			WithRemedy("Send the call_digest of the approval, which GetApproval and the stream of a run return.")
	}
	if !req.GetAllow() && req.GetReason() == "" {
		return approval.Record{}, reason.Errorf(reason.InvalidInput, "reason is required for a denial")
	}
	caller, proof, err := proofs.Prove(ctx, caller, req)
	if err != nil {
		return approval.Record{}, err
	}
	r, err := desk.Votes.Decide(ctx, caller, req.GetApprovalId(), ballotOf(req, proof))
	return r, proofs.Wanted(caller, err)
}

// EditApproval changes the call that an approval is for.
func (a *approvals) EditApproval(ctx context.Context, req *palyrav1.EditApprovalRequest) (*palyrav1.EditApprovalResponse, error) {
	caller := callerOf(ctx)
	if s := req.GetSurface(); s != "" && caller.Surface == access.SurfaceGRPC { // as for a vote
		caller.Surface = access.Surface(s)
	}
	if req.GetShownDigest() == "" {
		return nil, reason.Errorf(reason.InvalidInput, "shown_digest is required: it identifies the call that the editor reviewed").
			WithRemedy("Send the call_digest and the version of the approval, which GetApproval returns.")
	}
	r, err := a.pipeline.Edit(ctx, caller, call.Change{
		ApprovalID: req.GetApprovalId(), Version: req.GetVersion(), ShownDigest: req.GetShownDigest(), Input: req.GetInputJson(), Reason: req.GetReason(),
	})
	if err != nil {
		return nil, err
	}
	m := a.message(ctx, callerOf(ctx), r)
	m.You, m.Prompt.Files = a.standing(ctx, r), fileMessages(m.GetPrompt().GetDiff())
	return &palyrav1.EditApprovalResponse{Approval: m}, nil
}

func ballotOf(req *palyrav1.DecideApprovalRequest, proof *passkey.Assertion) approval.Ballot {
	return approval.Ballot{
		Allow: req.GetAllow(), Scope: scopeOf(req.GetScope()), TTL: req.GetTtl().AsDuration(), Match: matchOf(req.GetMatch()), Uses: req.GetUses(),
		Reason: req.GetReason(), ShownDigest: req.GetShownDigest(), Passkey: proof,
	}
}

// Version returns the version of an approval that the caller may see.
func (a *approvals) Version(ctx context.Context, id string) (int64, error) {
	res, err := a.GetApproval(ctx, &palyrav1.GetApprovalRequest{ApprovalId: id})
	return res.GetApproval().GetVersion(), err
}

// Said returns the statement that a passkey of the caller signs for the caller's vote.
func (a *approvals) Said(caller access.Caller, gateway string, req *palyrav1.DecideApprovalRequest, proof *passkey.Assertion) (passkey.Vote, error) {
	return a.desk.Votes.Said(caller, gateway, req.GetApprovalId(), ballotOf(req, proof))
}

// MayRead returns an error unless the caller may see other members.
func (a *approvals) MayRead(caller access.Caller) error {
	return a.engine.Current().Access().Permit(policy.AccessRequest{Caller: caller, Permission: access.PermAccessRead})
}

// CancelApproval withdraws a pending approval, or revokes an approval that was allowed and not
// used. The response omits why policy requires approval if the caller may not read policy.
func (a *approvals) CancelApproval(ctx context.Context, req *palyrav1.CancelApprovalRequest) (*palyrav1.CancelApprovalResponse, error) {
	caller := callerOf(ctx)
	r, err := a.takeBack(ctx, caller, req.GetApprovalId(), req.GetReason())
	if err != nil {
		return nil, err
	}
	m := a.message(ctx, caller, r)
	if !mayExplain(a.engine, caller) {
		m.Prompt.Why = nil
	}
	return &palyrav1.CancelApprovalResponse{Approval: m}, nil
}

// takeBack cancels an approval, or revokes it if it was allowed in the meantime.
func (a *approvals) takeBack(ctx context.Context, caller access.Caller, id, why string) (approval.Record, error) {
	r, err := a.desk.Records.Cancel(ctx, caller, id, why)
	if reason.Of(err) != reason.ApprovalConflict {
		return r, err
	}
	if now, readErr := a.desk.Records.Get(ctx, id); readErr != nil || now.State != approval.Allowed {
		return r, err
	}
	return a.desk.Records.Revoke(ctx, caller, id, why)
}

// ExportApprovals streams all matching approvals that the caller may see, followed by a trailer.
func (a *approvals) ExportApprovals(ctx context.Context, req *palyrav1.ExportApprovalsRequest, stream *connect.ServerStream[palyrav1.ExportApprovalsResponse]) error {
	out := export.Approvals(parts(func(data []byte) error {
		return stream.Send(&palyrav1.ExportApprovalsResponse{Data: data})
	}), exportForm(req.GetFormat()))
	caller := callerOf(ctx)
	trailer, err := a.desk.Records.Export(ctx, approval.Filter{
		Traits: approval.Traits{States: wordsOf[approval.State](statePrefix, req.GetStates())}, Since: timeOf(req.GetSince()), Until: timeOf(req.GetUntil()),
	}, func(r approval.Record) approval.Record { return a.view(ctx, caller, r) }, out.Record)
	if err != nil {
		return err
	}
	text, err := json.Marshal(trailer)
	if err != nil {
		return fmt.Errorf("encoding the trailer: %w", err)
	}
	return out.Trailer(text)
}

// exportForm returns the requested export format; NDJSON by default.
func exportForm(f palyrav1.ExportFormat) export.Form {
	switch f {
	case palyrav1.ExportFormat_EXPORT_FORMAT_JSON:
		return export.JSON
	case palyrav1.ExportFormat_EXPORT_FORMAT_CSV:
		return export.CSV
	}
	return export.NDJSON
}

// parts sends written bytes in parts that fit into a message.
type parts func([]byte) error

// Write implements io.Writer.
func (send parts) Write(p []byte) (int, error) {
	sent := 0
	for part := range slices.Chunk(p, resultPart) {
		if err := send(part); err != nil {
			return sent, err
		}
		sent += len(part)
	}
	return sent, nil
}

// ListGrants returns one page, newest first.
func (a *approvals) ListGrants(ctx context.Context, req *palyrav1.ListGrantsRequest) (*palyrav1.ListGrantsResponse, error) {
	principal, err := principalOf(req.GetPrincipal())
	if err != nil {
		return nil, err
	}
	grants, next, err := a.desk.Grants.List(ctx, approval.GrantFilter{
		Principal: principal, Open: !req.GetIncludeEnded(), PageSize: int(req.GetPageSize()), PageToken: req.GetPageToken(),
	})
	if err != nil {
		return nil, err
	}
	res := &palyrav1.ListGrantsResponse{NextPageToken: next}
	for _, g := range grants {
		res.Grants = append(res.Grants, grantMessage(g))
	}
	return res, nil
}

// RevokeGrant ends a grant at once.
func (a *approvals) RevokeGrant(ctx context.Context, req *palyrav1.RevokeGrantRequest) (*palyrav1.RevokeGrantResponse, error) {
	g, err := a.desk.Grants.Revoke(ctx, callerOf(ctx), req.GetGrantId(), req.GetReason())
	if err != nil {
		return nil, err
	}
	return &palyrav1.RevokeGrantResponse{Grant: grantMessage(g)}, nil
}

func principalOf(text string) (access.Principal, error) {
	if text == "" {
		return access.Principal{}, nil
	}
	p, err := access.ParsePrincipal(text)
	if err != nil {
		return p, reason.Errorf(reason.InvalidInput, "%w", err)
	}
	return p, nil
}
