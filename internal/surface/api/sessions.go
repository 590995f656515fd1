package api

import (
	"context"
	"slices"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/call"
	"palyra/internal/call/policy"
	"palyra/internal/call/session"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
)

// sessions lists and ends the sessions by which limits count calls. Agents have no access: they
// must not inspect or reset their own limits.
type sessions struct {
	pipeline *call.Pipeline
	engine   *policy.Engine
	// perSession is max_calls_per_session.
	perSession int
}

// person refuses callers that are not users.
func person(c access.Caller) error {
	if c.Principal.Kind == access.KindUser {
		return nil
	}
	return reason.Errorf(reason.PermissionDenied, "%s is not a user: only users may list and end sessions", c.Principal).
		WithRemedy("Ask a user to run `palyra sessions list`.")
}

// ListSessions returns one page, newest first.
func (s *sessions) ListSessions(ctx context.Context, req *palyrav1.ListSessionsRequest) (*palyrav1.ListSessionsResponse, error) {
	caller := callerOf(ctx)
	if err := person(caller); err != nil {
		return nil, err
	}
	principal, err := principalOf(req.GetPrincipal())
	if err != nil {
		return nil, err
	}
	f := session.Filter{Principal: principal, Open: !req.GetAll(), PageSize: int(req.GetPageSize()), PageToken: req.GetPageToken()}
	if !may(s.engine, caller, access.PermJournalRead) {
		f.Of = caller.Principal
	}
	list, next, err := s.pipeline.Sessions(ctx, f)
	if err != nil {
		return nil, err
	}
	res := &palyrav1.ListSessionsResponse{NextPageToken: next}
	for _, one := range list {
		res.Sessions = append(res.Sessions, s.message(one))
	}
	return res, nil
}

// find returns a session of the caller, or any session if the caller has the permission others.
// A session that the caller may not see yields the same error as an unknown session.
func (s *sessions) find(ctx context.Context, id string, others access.Permission) (session.Past, error) {
	caller := callerOf(ctx)
	if err := person(caller); err != nil {
		return session.Past{}, err
	}
	past, err := s.pipeline.Session(ctx, id)
	if err == nil && past.OnBehalfOf != caller.Principal && !may(s.engine, caller, others) {
		return session.Past{}, call.NoSession(id)
	}
	return past, err
}

// GetSession returns one session with its facts.
func (s *sessions) GetSession(ctx context.Context, req *palyrav1.GetSessionRequest) (*palyrav1.GetSessionResponse, error) {
	past, err := s.find(ctx, req.GetSessionId(), access.PermJournalRead)
	if err != nil {
		return nil, err
	}
	f := past.Facts
	return &palyrav1.GetSessionResponse{Session: s.message(past), Facts: &palyrav1.SessionFacts{
		InFlight: int64(f.InFlight), ToolsUsed: slices.Clone(f.ToolsUsed), SecretsRead: slices.Clone(f.SecretsRead), Tainted: f.Tainted, BytesOut: f.BytesOut,
	}}, nil
}

// EndSession ends a session.
func (s *sessions) EndSession(ctx context.Context, req *palyrav1.SessionServiceEndSessionRequest) (*palyrav1.SessionServiceEndSessionResponse, error) {
	past, err := s.find(ctx, req.GetSessionId(), access.PermGatewayFreeze)
	if err != nil {
		return nil, err
	}
	by := callerOf(ctx).Principal
	if err := s.pipeline.EndSession(ctx, session.Ending{ID: past.ID, Key: past.Key, By: by, Reason: req.GetReason()}); err != nil {
		return nil, err
	}
	ended, err := s.pipeline.Session(ctx, past.ID)
	if err != nil {
		return nil, err
	}
	m := s.message(ended)
	if past.OnBehalfOf != by && !may(s.engine, callerOf(ctx), access.PermJournalRead) {
		// Permission to end a session does not include permission to read its details.
		m = &palyrav1.Session{SessionId: m.GetSessionId(), State: m.GetState(), EndedAt: m.GetEndedAt(), EndedBy: m.GetEndedBy()}
	}
	return &palyrav1.SessionServiceEndSessionResponse{Session: m}, nil
}

func (s *sessions) message(p session.Past) *palyrav1.Session {
	state := palyrav1.SessionState_SESSION_STATE_IDLE
	switch {
	case !p.EndedAt.IsZero():
		state = palyrav1.SessionState_SESSION_STATE_ENDED
	case s.pipeline.SessionGoesOn(p):
		state = palyrav1.SessionState_SESSION_STATE_OPEN
	}
	return &palyrav1.Session{
		SessionId: p.ID, Principal: p.Principal.String(), OnBehalfOf: p.OnBehalfOf.String(), DeviceId: p.Device, Client: string(p.Client),
		State: state, StartedAt: timeMessage(p.StartedAt), LastAt: timeMessage(p.LastAt), EndedAt: timeMessage(p.EndedAt),
		EndedBy: p.EndedBy.String(), EndReason: p.EndReason, Calls: int64(p.Facts.CallsInRun), RunCalls: int64(p.RunCalls),
		Limit: int64(max(s.perSession, p.Limit)),
	}
}
