package client

import (
	"context"
	"strings"

	"connectrpc.com/connect"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/printer"
	"palyra/internal/rpc/changetable"
)

// change makes a call that may wait for a second person: it has no deadline, says
// after a moment whom it waits for, and by whose word the change was made. The change
// goes on waiting when the call is interrupted.
func (d deadline) change(ctx context.Context, req connect.AnyRequest, next connect.UnaryFunc) (connect.AnyResponse, error) {
	if ctx.Value(noWait{}) != nil {
		req.Header().Set(changetable.WaitHeader, changetable.NoWait)
	}
	told, done := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(told)
		told <- d.waits(ctx, done)
	}()
	res, err := next(ctx, req)
	close(done)
	waits := <-told
	if err != nil {
		if waits != "" && ctx.Err() != nil {
			d.a.Say("the change still waits; `palyra approvals cancel %s` withdraws it", waits)
		}
		return res, err
	}
	if why := res.Header().Get(changetable.AloneHeader); why != "" {
		d.a.Say("by your word alone: %s", printer.VisibleLine(why))
	}
	if id := res.Header().Get(changetable.ApprovalHeader); id != "" && waits != "" {
		d.a.Say("approved: %s", id)
	}
	return res, nil
}

// waits says which question a change waits for, once there is one, and returns its id:
// "" when the change ended before.
func (d deadline) waits(ctx context.Context, done <-chan struct{}) string {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-done:
			cancel()
		case <-ctx.Done():
		}
	}()
	v := changetable.Waiting(ctx, Patience, d.g.Status, d.g.Approvals)
	if v == nil {
		return ""
	}
	who := "another owner or admin"
	if v.GetSubjectType() == palyrav1.ApprovalSubjectType_APPROVAL_SUBJECT_TYPE_TOOL {
		who = "somebody who may approve"
	}
	d.a.Say("waiting for %s, %s left: approval %s, `palyra approve %s`",
		who, strings.TrimPrefix(d.a.Relative(v.GetExpiresAt()), "in "), v.GetApprovalId(), v.GetApprovalId())
	return v.GetApprovalId()
}
