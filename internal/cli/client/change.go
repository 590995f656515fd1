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
// after a moment whom it waits for, and by whose word the change was made. Whoever
// interrupts it withdraws the question.
func (d deadline) change(ctx context.Context, req connect.AnyRequest, next connect.UnaryFunc) (connect.AnyResponse, error) {
	told, done := make(chan bool, 1), make(chan struct{})
	go func() {
		defer close(told)
		told <- d.waits(ctx, done)
	}()
	res, err := next(ctx, req)
	close(done)
	waited := <-told
	if err != nil {
		return res, err
	}
	if why := res.Header().Get(changetable.AloneHeader); why != "" {
		d.a.Say("by your word alone: %s", printer.VisibleLine(why))
	}
	if id := res.Header().Get(changetable.ApprovalHeader); id != "" && waited {
		d.a.Say("approved: %s", id)
	}
	return res, nil
}

// waits says which question a change waits for, once there is one. It is false when
// the change ended before.
func (d deadline) waits(ctx context.Context, done <-chan struct{}) bool {
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
		return false
	}
	who := "another owner or admin"
	if v.GetSubjectType() == palyrav1.ApprovalSubjectType_APPROVAL_SUBJECT_TYPE_TOOL {
		who = "somebody who may approve"
	}
	d.a.Say("waiting for %s, %s left: approval %s, `palyra approve %s`",
		who, strings.TrimPrefix(d.a.Relative(v.GetExpiresAt()), "in "), v.GetApprovalId(), v.GetApprovalId())
	return true
}
