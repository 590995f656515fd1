package client

import (
	"context"
	"strings"
	"time"

	"connectrpc.com/connect"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/printer"
	"palyra/internal/surface/api/changetable"
)

// change makes a call that may wait for a second approver. The call has no deadline. After a
// short wait, change prints who must approve; at the end, it prints why one person was
// sufficient.
func (d deadline) change(ctx context.Context, req connect.AnyRequest, next connect.UnaryFunc) (connect.AnyResponse, error) {
	if ctx.Value(waiting{}) == changetable.NoWait {
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
			d.interrupted(ctx, waits)
		}
		return res, err
	}
	if why := res.Header().Get(changetable.AloneHeader); why != "" {
		d.out.Say("applied without a second approver: %s", printer.VisibleLine(why))
	}
	if id := res.Header().Get(changetable.ApprovalHeader); id != "" && waits != "" {
		d.out.Say("approved: %s", id)
	}
	return res, nil
}

// withdrawTimeout bounds the request that withdraws a change.
const withdrawTimeout = 5 * time.Second

// interrupted handles an interrupt while a change is pending. A command that can be repeated
// (Waits) leaves the change pending. Every other command withdraws the change, because it needs
// the result, for example for a key that it holds in memory.
func (d deadline) interrupted(ctx context.Context, id string) {
	if ctx.Value(waiting{}) != nil {
		d.out.Say("the change is still pending; withdraw it with `palyra approvals cancel %s`", id)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawTimeout)
	defer cancel()
	if _, err := d.g.Approvals.CancelApproval(ctx, &palyrav1.CancelApprovalRequest{ApprovalId: id}); err != nil {
		d.out.Say("the change may still be pending; withdraw it with `palyra approvals cancel %s`", id)
		return
	}
	d.out.Say("withdrawn: %s", id)
}

// waits prints the pending approval of a change, once it exists, and returns its id; "" if the
// change ended before.
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
		who = "a user who may approve"
	}
	d.out.Say("waiting for %s, %s left: approval %s, `palyra approve %s`",
		who, strings.TrimPrefix(d.out.Relative(v.GetExpiresAt()), "in "), v.GetApprovalId(), v.GetApprovalId())
	return v.GetApprovalId()
}
