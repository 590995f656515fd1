//go:build linux

package fault

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/must"
)

// deaf is a gateway that cannot record votes: fs.patch ends at once, and fs.write requests
// approval and waits.
type deaf struct {
	palyrav1connect.UnimplementedGatewayServiceHandler
	palyrav1connect.UnimplementedApprovalsServiceHandler
	votes atomic.Int64
}

func (d *deaf) CallTool(ctx context.Context, r *palyrav1.CallToolRequest, s *connect.ServerStream[palyrav1.CallToolResponse]) error {
	if r.GetTool() == "fs.patch" {
		return s.Send(&palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_Result{Result: &palyrav1.ToolResult{Outcome: "succeeded"}}})
	}
	err := s.Send(&palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_ApprovalRequested{
		ApprovalRequested: &palyrav1.ApprovalRequested{Approval: &palyrav1.Approval{ApprovalId: "a", CallDigest: "d"}},
	}})
	<-ctx.Done()
	return err
}

func (d *deaf) DecideApproval(context.Context, *palyrav1.DecideApprovalRequest) (*palyrav1.DecideApprovalResponse, error) {
	d.votes.Add(1)
	failed := connect.NewError(connect.CodeUnavailable, nil)
	detail, err := connect.NewErrorDetail(&errdetails.ErrorInfo{Reason: "JOURNAL_UNAVAILABLE"})
	if err == nil {
		failed.AddDetail(detail)
	}
	return nil, failed
}

// clients returns clients of a deaf gateway.
func (d *deaf) clients(t *testing.T, n int) []*client {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle(palyrav1connect.NewGatewayServiceHandler(d))
	mux.Handle(palyrav1connect.NewApprovalsServiceHandler(d))
	s := httptest.NewUnstartedServer(mux)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	var list []*client
	for range n {
		list = append(list, &client{
			gateway:   palyrav1connect.NewGatewayServiceClient(s.Client(), s.URL),
			approvals: palyrav1connect.NewApprovalsServiceClient(s.Client(), s.URL),
			transport: &http.Transport{},
			patience:  time.Hour,
		})
	}
	return list
}

// TestLoadContinuesWithoutVotes: calls continue while every vote fails. The control is a load whose
// clients all request approvals: none of its calls ends.
func TestLoadContinuesWithoutVotes(t *testing.T) {
	t.Parallel()
	var d deaf
	l := beginWith(t, d.clients(t, 4), "load")
	l.ran(t, 60)
	l.stop()

	var control deaf
	ended := make(chan reply, 4)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, c := range control.clients(t, 4) {
		go func() { ended <- c.write(ctx, "f", true) }()
	}
	must.Eventually(t, "200 votes are in vain", func() (bool, string) { return control.votes.Load() > 200, "" })
	if len(ended) > 0 {
		t.Errorf("a call that nobody could allow ended: %+v", <-ended)
	}
	cancel()
	for range 4 {
		<-ended
	}
}

// TestFailedVoteIsAbandoned: a client that could not vote does not keep waiting for the call.
func TestFailedVoteIsAbandoned(t *testing.T) {
	t.Parallel()
	var d deaf
	c := d.clients(t, 1)[0]
	c.patience = 30 * time.Millisecond
	if r := c.write(t.Context(), "f", true); len(codes([]reply{r})) != 1 || codes([]reply{r})[0] != "JOURNAL_UNAVAILABLE without a next step" || d.votes.Load() == 0 {
		t.Errorf("after %d votes the call ended with %+v", d.votes.Load(), r)
	}
	if votePatience*2 > callPatience || callPatience*2 > must.Patience {
		t.Error("a client's patience is not well below that of the test which waits for it")
	}
}
