package toolcall

import (
	"context"
	"time"

	"palyra/internal/approval"
	"palyra/internal/policy"
	"palyra/internal/reason"
	"palyra/internal/session"
	"palyra/internal/tool"
)

// A verdict is good for the facts that it was made with, and a call may wait
// for people for hours. So verdict and answer are settled in a step of their
// own, under the lock of the call's session: the facts are taken again, the
// call is judged again, with the same votes, when one that policy reads has
// changed, and what the call may do to the facts is counted before the next
// call of the session is settled.

const (
	// mostSettled is how often a call is settled before it is refused: each time
	// but the first, what changed meanwhile took its answer away.
	mostSettled = 3
	// mostAge is how old the time may be that policy read.
	mostAge = time.Second
)

// control is what tests switch off to see that it is needed.
type control struct {
	// oldFacts keeps the verdict that was made with old facts.
	oldFacts bool
	// between, unless nil, is what happens between judging a call by fresh facts
	// and counting it, without the lock.
	between func()
}

// settleFreshly finds the answer that the verdict needs, and settles both. A
// policy that changed while humans were asked is asked again, and the votes of
// an answer always have to satisfy the policy that is in force now: they may
// have been judged by another one, for an identical call or in between two
// reloads.
func (c *call) settleFreshly(ctx context.Context) error {
	for range mostSettled {
		if err := c.resolve(ctx); err != nil {
			return err
		}
		if err := c.planAgain(ctx); err != nil {
			return err
		}
		settled, err := c.settleNow(ctx)
		if settled || err != nil {
			return err
		}
		// What is allowed now without the people who were asked does not use their
		// answer up.
		c.Approver.Release(c.answer)
		c.answer = approval.Answer{}
	}
	return reason.Errorf(reason.FactsChanged, "what policy reads of session %s changed each of the %d times that the call was judged", c.sessionID(), mostSettled)
}

// settleNow judges the call by the facts of now, if they differ, and counts it
// when it is let through. It reports whether verdict and answer agree; when they
// do not, nothing was counted.
func (c *call) settleNow(ctx context.Context) (settled bool, err error) {
	judge := func(now tool.SessionFacts) (*session.Effects, error) {
		if c.stale(now) {
			c.request.SessionFacts, c.request.Time = now, time.Now().UTC()
			if err := c.evaluate(ctx); err != nil {
				return nil, err
			}
		}
		if settled = c.agreed(); !settled || !c.letThrough() || c.request.Commit != nil {
			return nil, nil
		}
		return c.effects(), nil
	}
	if c.control.between != nil {
		effects, err := judge(c.counted.Facts())
		if err != nil || effects == nil {
			return settled, err
		}
		c.control.between()
		judge = func(tool.SessionFacts) (*session.Effects, error) { return effects, nil }
	}
	err = c.counted.Decide(judge)
	return settled, err
}

// stale reports whether the verdict has to be made anew. One that lets nothing
// through need not be.
func (c *call) stale(now tool.SessionFacts) bool {
	if !c.answer.Allowed() || c.control.oldFacts {
		return false
	}
	set := c.Evaluator.Current()
	reads := set.ReadsOfPast()
	return set.SnapshotDigest() != c.verdict.SnapshotDigest() || reads.Differ(c.request.SessionFacts, now) ||
		reads.Now && time.Since(c.request.Time) > mostAge
}

// agreed reports whether the answer is the one that the verdict needs. Votes
// that are not enough any more are no answer, and the call is denied.
func (c *call) agreed() bool {
	switch {
	case !c.answer.Allowed() || c.verdict.Effect() == policy.Deny:
		return true
	case c.verdict.Effect() == policy.Allow && c.verdict.GrantID() == "":
		return c.answer.Kind() == approval.NotAsked
	case c.verdict.Effect() == policy.Allow:
		return c.answer.GrantID() == c.verdict.GrantID()
	case c.answer.Kind() == approval.NotAsked:
		return false
	case c.enough(c.request):
		return true
	}
	c.answer = approval.Answer{}
	return true
}

// letThrough reports whether verdict and answer, which agree, let the call run.
func (c *call) letThrough() bool { return c.verdict.Effect() != policy.Deny && c.answer.Allowed() }
