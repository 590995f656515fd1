package api

import (
	"context"

	"connectrpc.com/connect"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/run"
)

// steers reports whether the caller may steer a run: its principal, or the user that the principal
// acts for.
func steers(c access.Caller, r run.Record) bool {
	return c.Principal == r.Principal || c.Principal == r.OnBehalfOf
}

// findRun returns a run that the caller may see. For a run of another caller the error is the
// same as for an unknown run, so that ids cannot be probed.
func (g *gateway) findRun(ctx context.Context, caller access.Caller, id string) (run.Record, error) {
	r, err := g.runs.Get(ctx, id)
	switch {
	case reason.Of(err) == reason.NotFound, err == nil && !g.sees(caller, r):
		return run.Record{}, noRun(id)
	default:
		return r, err
	}
}

// sees reports whether the caller may read a run.
func (g *gateway) sees(c access.Caller, r run.Record) bool {
	return steers(c, r) || may(g.engine, c, access.PermJournalRead)
}

// mayTalk refuses messages of a caller that may only read the run.
func mayTalk(c access.Caller, r run.Record) error {
	if steers(c, r) {
		return nil
	}
	return reason.Errorf(reason.PermissionDenied, "sending a message to the run: %s may only read run %s", c.Principal, r.ID).
		WithRemedy("Ask %s to send it.", r.Principal)
}

func noRun(id string) error {
	return reason.Errorf(reason.NotFound, "run %s does not exist", id).WithRemedy("List your runs with `palyra runs list`.")
}

// StartRun starts a run without a stream. An interactive run waits for messages as if its client
// had disconnected.
func (g *gateway) StartRun(ctx context.Context, req *palyrav1.StartRunRequest) (*palyrav1.StartRunResponse, error) {
	r, inbox, err := g.runs.Start(ctx, callerOf(ctx), runStartOf(req))
	if err != nil {
		return nil, err
	}
	if req.GetInteractive() {
		inbox.Leave()
	} else {
		inbox.Close()
	}
	return &palyrav1.StartRunResponse{Run: runMessage(r)}, nil
}

// GetRun returns one run and the length of its tape.
func (g *gateway) GetRun(ctx context.Context, req *palyrav1.GetRunRequest) (*palyrav1.GetRunResponse, error) {
	r, err := g.findRun(ctx, callerOf(ctx), req.GetRunId())
	if err != nil {
		return nil, err
	}
	last, err := g.runs.LastSequence(ctx, r)
	if err != nil {
		return nil, err
	}
	return &palyrav1.GetRunResponse{Run: runMessage(r), LastSequence: last}, nil
}

// ListRuns returns one page, newest first: the caller's own, or all for
// callers that may read the journal.
func (g *gateway) ListRuns(ctx context.Context, req *palyrav1.ListRunsRequest) (*palyrav1.ListRunsResponse, error) {
	principal, err := principalOf(req.GetPrincipal())
	if err != nil {
		return nil, err
	}
	filter := run.Filter{
		States: wordsOf[run.State](runStatePrefix, req.GetStates()), Principal: principal, Session: req.GetSession(),
		Since: timeOf(req.GetSince()), Until: timeOf(req.GetUntil()), PageSize: int(req.GetPageSize()), PageToken: req.GetPageToken(),
	}
	if caller := callerOf(ctx); !may(g.engine, caller, access.PermJournalRead) {
		filter.Of = caller.Principal
	}
	list, next, err := g.runs.List(ctx, filter)
	if err != nil {
		return nil, err
	}
	res := &palyrav1.ListRunsResponse{NextPageToken: next}
	for _, r := range list {
		res.Runs = append(res.Runs, runMessage(r))
	}
	return res, nil
}

// WatchRun streams the tape of a run. An empty message opens the stream.
func (g *gateway) WatchRun(ctx context.Context, req *palyrav1.WatchRunRequest, stream *connect.ServerStream[palyrav1.WatchRunResponse]) error {
	caller := callerOf(ctx)
	r, err := g.findRun(ctx, caller, req.GetRunId())
	if err != nil {
		return err
	}
	if err := stream.Send(&palyrav1.WatchRunResponse{}); err != nil {
		return err
	}
	tape := &tapeReader{
		reader: g.readerOf(ctx, caller), seen: req.GetAfter(),
		send: func(e *palyrav1.RunEvent) error {
			hold(ctx, true)
			return stream.Send(&palyrav1.WatchRunResponse{Event: e})
		},
	}
	return g.runs.Watch(ctx, r.ID, tape.begin(), tape.observe, func() { release(ctx) })
}

// SendRunMessage sends a message to an active run.
func (g *gateway) SendRunMessage(ctx context.Context, req *palyrav1.SendRunMessageRequest) (*palyrav1.SendRunMessageResponse, error) {
	caller := callerOf(ctx)
	r, err := g.findRun(ctx, caller, req.GetRunId())
	if err != nil {
		return nil, err
	}
	if err := mayTalk(caller, r); err != nil {
		return nil, err
	}
	r, err = g.runs.Say(ctx, caller, r.ID, run.Post{Text: req.GetText(), Last: req.GetLast(), Key: req.GetIdempotencyKey()})
	if err != nil {
		return nil, err
	}
	return &palyrav1.SendRunMessageResponse{Run: runMessage(r)}, nil
}

// CancelRun stops a run.
func (g *gateway) CancelRun(ctx context.Context, req *palyrav1.CancelRunRequest) (*palyrav1.CancelRunResponse, error) {
	r, err := g.cancelRun(ctx, callerOf(ctx), req.GetRunId(), req.GetReason())
	if err != nil {
		return nil, err
	}
	return &palyrav1.CancelRunResponse{Run: runMessage(r)}, nil
}

// cancelRun stops a run for callers who may steer it or may freeze the gateway. For other
// callers, the error is the same as for an unknown run.
func (g *gateway) cancelRun(ctx context.Context, caller access.Caller, id, why string) (run.Record, error) {
	r, err := g.runs.Get(ctx, id)
	switch {
	case reason.Of(err) == reason.NotFound, err == nil && !steers(caller, r) && !may(g.engine, caller, access.PermGatewayFreeze):
		return run.Record{}, noRun(id)
	case err != nil:
		return run.Record{}, err
	}
	ended, err := g.runs.Cancel(ctx, caller, id, why)
	if !g.sees(caller, r) {
		// Permission to stop a run does not include permission to read it.
		ended = run.Record{ID: ended.ID, State: ended.State, EndedAt: ended.EndedAt, CancelledBy: ended.CancelledBy}
	}
	return ended, err
}
