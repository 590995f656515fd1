package cli

import (
	"context"
	"errors"
	"io"

	"connectrpc.com/connect"

	palyrav1 "palyra/gen/palyra/v1"
)

// question is an approval that is put to the person at the terminal while the
// call waits for whoever answers first.
type question struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// ask puts the question in the background; closeQuestion ends it.
func (c *callRun) ask(ctx context.Context, v *palyrav1.Approval) *question {
	ctx, cancel := context.WithCancel(ctx)
	q := &question{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(q.done)
		c.answer(ctx, v)
	}()
	return q
}

// answer asks until a vote was taken, or the person leaves the approval
// pending for others.
func (c *callRun) answer(ctx context.Context, v *palyrav1.Approval) {
	for ctx.Err() == nil {
		vote, err := c.a.askVote(ctx, v)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, io.EOF), err == nil && vote.leave:
			c.a.say("left pending")
			c.sayHowToAnswer(v)
			return
		case err != nil:
			c.a.say("%v", err)
			return
		}
		after, err := c.g.approvals.DecideApproval(ctx, vote.request(v.GetApprovalId(), v.GetCallDigest()))
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			if missing := after.GetApproval().GetMissing(); after.GetApproval().GetState() == palyrav1.ApprovalState_APPROVAL_STATE_PENDING {
				c.a.say("your vote counts; still missing: %s", missing)
			}
			return
		}
		c.a.printError(explain(nil, err))
		switch connect.CodeOf(err) {
		case connect.CodeInvalidArgument: // another answer may be taken
		case connect.CodePermissionDenied:
			c.sayHowToAnswer(v) // any answer of this person would be refused
			return
		default:
			return
		}
	}
}

func (c *callRun) closeQuestion() {
	if c.question == nil {
		return
	}
	c.question.cancel()
	<-c.question.done
	c.question = nil
}
