package tui

import (
	"context"

	tea "charm.land/bubbletea/v2"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/client"
	"palyra/internal/core/reason"
)

// The responses of the gateway.
type (
	listedMsg struct {
		// filter is the requested filter; the response to an older one is dropped.
		filter string
		rows   []*row
		more   bool
		err    error
	}
	shownMsg struct {
		id       string
		approval *palyrav1.Approval
		lines    []string
		width    int
		err      error
	}
	foldedMsg struct {
		digest string
		width  int
		lines  []string
	}
	votedMsg struct {
		id       string
		vote     *palyrav1.DecideApprovalRequest
		approval *palyrav1.Approval
		err      error
	}
	grantsMsg struct {
		grants []*palyrav1.Grant
		err    error
	}
	revokedMsg struct {
		grant *palyrav1.Grant
		err   error
	}
	// saidMsg is a message for the last line of the screen.
	saidMsg struct{ text string }
)

const (
	// mostRows is the maximum number of listed rows; a filter finds the others.
	mostRows = 5000
	// pageRows is the size of a page, whose approvals include their arguments.
	pageRows = 100
)

// queries creates commands that query the gateway.
type queries struct {
	app *client.App
	g   *client.Gateway
	// do creates a command for a query.
	do func(func(context.Context) tea.Msg) tea.Cmd
}

// list requests the approvals that match the filter.
func (q queries) list(f filter) tea.Cmd {
	g := q.g
	return q.do(func(ctx context.Context) tea.Msg {
		out := listedMsg{filter: f.text}
		for token, size := "", int32(pageRows); ; {
			reply, err := g.Approvals.ListApprovals(ctx, f.page(size, token))
			if err != nil && size > 1 && tooLarge(err) {
				size = max(1, size/4) // a page of large calls
				continue
			}
			if err != nil {
				out.err = err
				return out
			}
			for _, v := range reply.GetApprovals() {
				out.rows = append(out.rows, rowOf(v))
			}
			token = reply.GetNextPageToken()
			if out.more = token != ""; !out.more || len(out.rows) >= mostRows {
				return out
			}
		}
	})
}

// tooLarge reports whether a page did not fit into one message.
func tooLarge(err error) bool { return client.Explain(nil, err).Code == reason.RateLimited }

// show reads one approval and lays it out.
func (q queries) show(id string, width int) tea.Cmd {
	a, g := q.app, q.g
	return q.do(func(ctx context.Context) tea.Msg {
		reply, err := g.Approvals.GetApproval(ctx, &palyrav1.GetApprovalRequest{ApprovalId: id})
		if err != nil {
			return shownMsg{id: id, err: err}
		}
		v := reply.GetApproval()
		return shownMsg{id: id, approval: v, lines: pageOf(a, v, width), width: width}
	})
}

// refold lays an approval out for another width.
func (q queries) refold(v *palyrav1.Approval, width int) tea.Cmd {
	a := q.app
	return q.do(func(context.Context) tea.Msg {
		return foldedMsg{digest: v.GetCallDigest(), width: width, lines: pageOf(a, v, width)}
	})
}

// cast sends a vote; with a passphrase, together with a proof of presence.
func (q queries) cast(vote *palyrav1.DecideApprovalRequest, passphrase *string) tea.Cmd {
	a, g := q.app, q.g
	return q.do(func(ctx context.Context) tea.Msg {
		out := votedMsg{id: vote.GetApprovalId(), vote: vote}
		if passphrase != nil {
			prover, err := a.Prover(g)
			if err == nil {
				prover.Ask = func(context.Context, string) (string, error) { return *passphrase, nil }
				err = prover.Vote(ctx, vote)
			}
			if err != nil {
				out.err = err
				return out
			}
		}
		reply, err := g.Approvals.DecideApproval(ctx, vote)
		out.approval, out.err = reply.GetApproval(), err
		return out
	})
}

// listGrants requests the live grants.
func (q queries) listGrants() tea.Cmd {
	g := q.g
	return q.do(func(ctx context.Context) tea.Msg {
		req := &palyrav1.ListGrantsRequest{}
		list, _, err := client.Collect(mostRows, func(size int32) ([]*palyrav1.Grant, bool, error) {
			req.PageSize = size
			reply, err := g.Approvals.ListGrants(ctx, req)
			req.PageToken = reply.GetNextPageToken()
			return reply.GetGrants(), req.PageToken != "", err
		})
		return grantsMsg{list, err}
	})
}

func (q queries) revoke(id, why string) tea.Cmd {
	g := q.g
	return q.do(func(ctx context.Context) tea.Msg {
		reply, err := g.Approvals.RevokeGrant(ctx, &palyrav1.RevokeGrantRequest{GrantId: id, Reason: why})
		return revokedMsg{reply.GetGrant(), err}
	})
}
