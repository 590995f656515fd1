package call

import (
	"context"
	"time"

	"palyra/internal/call/approval"
	"palyra/internal/call/policy"
	"palyra/internal/call/session"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// A verdict is good for the facts that it was made with, but a call may wait for
// people for hours. So a last step, under the lock of the call's session, settles
// verdict and answer: it takes the facts again, judges the call again with the same
// votes if one has changed that policy reads, and counts how the call will change
// the facts. Only then is the next call of the session settled.

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

// settleFreshly gets the answer that the verdict needs, and settles both. The call
// is judged again when the policies changed while people were asked. The votes of
// an answer always have to satisfy the policies that are in force now, although the
// desk has judged them: it may have done so under earlier ones.
func (a *authorization) settleFreshly(ctx context.Context) error {
	for range mostSettled {
		if err := a.resolve(ctx); err != nil {
			return err
		}
		if err := a.settleInjections(ctx); err != nil {
			return err
		}
		if err := a.hold(ctx); err != nil {
			return err
		}
		if err := a.planAgain(ctx); err != nil {
			return err
		}
		settled, err := a.settleNow(ctx)
		if settled || err != nil {
			return err
		}
		// What is allowed now without the people who were asked does not use their
		// answer up.
		a.Approver.Release(a.answer)
		a.answer = approval.Answer{}
	}
	return reason.Errorf(reason.FactsChanged, "what policy reads of session %s changed each of the %d times that the call was judged", a.sessionID(), mostSettled)
}

// hold waits as long as the submission wants, with the answer at hand. A secret is held
// with its call.
func (a *authorization) hold(ctx context.Context) error {
	if a.sub.Hold == nil || a.counted == nil || a.request.Injection != nil || !a.letThrough() {
		return nil
	}
	err := a.sub.Hold(ctx)
	if err != nil {
		a.releaseInjections()
		a.Approver.Release(a.answer)
		a.answer = approval.Answer{}
	}
	return err
}

// settleNow judges the call by the facts of now, if they differ, and counts it
// when it is let through. It reports whether verdict and answer agree; when they
// do not, nothing was counted.
func (a *authorization) settleNow(ctx context.Context) (settled bool, err error) {
	if err := a.callersStand(); err != nil {
		return false, err
	}
	judge := func(now tool.SessionFacts) (*session.Effects, error) {
		if a.stale(now) {
			a.request.SessionFacts, a.request.Time = now, time.Now().UTC()
			if err := a.evaluate(ctx); err != nil {
				return nil, err
			}
		}
		if settled = a.agreed(); !settled || !a.letThrough() || a.ran != nil {
			return nil, nil
		}
		return a.effects(), nil
	}
	if a.control.between != nil {
		effects, err := judge(a.counted.Facts())
		if err != nil || effects == nil {
			return settled, err
		}
		a.control.between()
		judge = func(tool.SessionFacts) (*session.Effects, error) { return effects, nil }
	}
	err = a.counted.Decide(judge)
	return settled, err
}

// callersStand says why the call may not go on in the names of its caller and of those
// who edited it. An edit stands like a vote: it ends with the device, and not with a login.
func (a *authorization) callersStand() error {
	if err := a.Standing(a.request.Caller); err != nil {
		return err
	}
	for _, editor := range a.request.Editors {
		if !a.LiveDevice(editor.DeviceID) {
			return reason.Errorf(reason.Unauthenticated, "the device with which %s edited the call was revoked", editor.Principal)
		}
	}
	return nil
}

// stale reports whether the verdict has to be made anew. One that lets nothing
// through need not be.
func (a *authorization) stale(now tool.SessionFacts) bool {
	if !a.answer.Allowed() || a.control.oldFacts {
		return false
	}
	set := a.Evaluator.Current()
	reads := set.ReadsOfPast()
	return set.SnapshotDigest() != a.verdict.SnapshotDigest() || reads.Differ(a.request.SessionFacts, now) ||
		reads.Now && time.Since(a.request.Time) > mostAge
}

// agreed reports whether the answer is the one that the verdict needs. Votes
// that are not enough any more are no answer, and the call is denied.
func (a *authorization) agreed() bool {
	switch {
	case !a.answer.Allowed() || a.verdict.Effect() == policy.Deny:
		return true
	case a.verdict.Effect() == policy.Allow && a.verdict.GrantID() == "":
		return a.answer.Kind() == approval.NotAsked
	case a.verdict.Effect() == policy.Allow:
		return a.answer.GrantID() == a.verdict.GrantID()
	case a.answer.Kind() == approval.NotAsked:
		return false
	case a.enough(a.request):
		return true
	}
	a.answer = approval.Answer{}
	return true
}

// letThrough reports whether verdict and answer, which agree, let the call run.
func (a *authorization) letThrough() bool {
	return a.verdict.Effect() != policy.Deny && a.answer.Allowed()
}
