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

// A verdict is valid for the facts that it is based on, but a call may wait for an approval for
// hours. A last step, under the lock of the call's session, therefore settles verdict and
// answer. It reads the facts again. If a fact that policy reads has changed, it judges the call
// again with the same votes. It then counts the call's effect on the facts. The next call of
// the session is settled only after this step.

const (
	// mostSettled is the number of attempts to settle a call before it is refused. Every
	// attempt but the first follows a change that invalidated the answer.
	mostSettled = 3
	// mostAge is the maximum age of the time that policy evaluated.
	mostAge = time.Second
)

// control switches off protections, in tests that show that they are needed.
type control struct {
	// oldFacts keeps the verdict that was made with old facts.
	oldFacts bool
	// between, unless nil, runs without the lock, after a call was judged by fresh facts and
	// before it is counted.
	between func()
}

// settleFreshly gets the answer that the verdict needs, and settles both. The call is judged
// again if the policies changed while approvers were asked. The votes of an answer must satisfy
// the policies that are in force now: the desk may have judged them under earlier policies.
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
		// A call that policy now allows without an approval does not consume the answer.
		a.Approver.Release(a.answer)
		a.answer = approval.Answer{}
	}
	return reason.Errorf(reason.FactsChanged, "judging the call: the facts of session %s changed during each of %d attempts", a.sessionID(), mostSettled)
}

// hold waits as long as the submission requires, with the answer held. A secret is held
// together with its call.
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

// settleNow judges the call by the current facts if they differ, and counts it if it may run.
// It reports whether verdict and answer agree; otherwise nothing was counted.
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

// callersStand returns the reason why the caller, or a person who edited the call, may not act
// any more. The validity of an edit ends when its device is revoked, as for a vote, and
// not when the editor's login ends.
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

// stale reports whether the verdict must be made again. A denial is never stale.
func (a *authorization) stale(now tool.SessionFacts) bool {
	if !a.answer.Allowed() || a.control.oldFacts {
		return false
	}
	set := a.Evaluator.Current()
	reads := set.ReadsOfPast()
	return set.SnapshotDigest() != a.verdict.SnapshotDigest() || reads.Differ(a.request.SessionFacts, now) ||
		reads.Now && time.Since(a.request.Time) > mostAge
}

// agreed reports whether the answer is the one that the verdict needs. If the votes do not
// satisfy policy any more, they are not an answer, and the call is denied.
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

// letThrough reports whether verdict and answer, which agree, permit the call to run.
func (a *authorization) letThrough() bool {
	return a.verdict.Effect() != policy.Deny && a.answer.Allowed()
}
