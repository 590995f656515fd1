package call

import (
	"context"
	"time"

	"palyra/internal/call/approval"
	"palyra/internal/call/decision"
	"palyra/internal/call/policy"
	"palyra/internal/call/record"
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

// answered is a question whose verdict and answer agree.
type answered struct {
	evaluated
	budget decision.Budget
	answer approval.Answer
	// secrets are the answers about the secrets for the program.
	secrets []approval.Answer
}

// settlement is the state of the stage settle.
type settlement struct {
	// evaluated is the newest version of the question, with its verdict.
	evaluated
	budget decision.Budget
	answer approval.Answer
	// waited is true if an approval was requested.
	waited bool
	// joined is true after the attempt to use the answer of an announced call.
	joined bool
	// secrets are the settlements, decided so far, of the secrets for the program.
	secrets []*settlement
}

// settle determines the verdict and, where required, the answer. Both are valid for the facts
// and the policy at the time when settle returns. If settle fails, the value has
// the verdict and the answer of that moment.
func (q *question) settle(ctx context.Context, budget decision.Budget) (*answered, error) {
	s := &settlement{evaluated: evaluated{question: q}, budget: budget}
	err := s.run(ctx)
	a := &answered{evaluated: s.evaluated, budget: s.budget, answer: s.answer}
	for _, one := range s.secrets {
		a.secrets = append(a.secrets, one.answer)
	}
	return a, err
}

func (s *settlement) run(ctx context.Context) error {
	if err := s.evaluate(ctx, s.question); err != nil {
		return err
	}
	if err := s.conflictError(); err != nil {
		return err
	}
	if s.sub.PriorAnswer == nil { // its answer may replace an approval request
		if err := s.reasonGiven(); err != nil {
			return err
		}
	}
	if err := s.askToGoOn(ctx); err != nil {
		return err
	}
	for range mostSettled {
		settled, err := s.try(ctx)
		if settled || err != nil {
			return err
		}
		// A call that policy now allows without an approval does not consume the answer.
		s.release()
	}
	return reason.Errorf(reason.FactsChanged, "judging the call: the facts of session %s changed during each of %d attempts", s.sessionID(), mostSettled)
}

// evaluate replaces the question by a newer version and gets its verdict.
func (s *settlement) evaluate(ctx context.Context, q *question) error {
	s.question = q
	e, err := q.evaluate(ctx)
	if err == nil {
		s.evaluated = e
	}
	return err
}

// try gets the answer that the verdict needs, and settles both. The call is judged again if the
// policies changed while approvers were asked. The votes of an answer must satisfy the policies
// that are in force now: the desk may have judged them under earlier policies.
func (s *settlement) try(ctx context.Context) (settled bool, err error) {
	if err := s.resolve(ctx); err != nil {
		return false, err
	}
	if err := s.settleSecrets(ctx); err != nil {
		return false, err
	}
	if err := s.hold(ctx); err != nil {
		return false, err
	}
	if err := s.planAgain(ctx); err != nil {
		return false, err
	}
	return s.settleNow(ctx)
}

// release returns the answer, which the call will not use.
func (s *settlement) release() {
	s.Approver.Release(s.answer)
	s.answer = approval.Answer{}
}

// hold waits as long as the submission requires. A secret is held together with its call.
func (s *settlement) hold(ctx context.Context) error {
	if s.sub.Hold == nil || s.counted == nil || s.request.Injection != nil || !letThrough(&s.verdict, &s.answer) {
		return nil
	}
	err := s.sub.Hold(ctx)
	if err != nil {
		s.releaseSecrets()
		s.release()
	}
	return err
}

// settleNow judges the call by the current facts if they differ, and counts it if it may run.
// It reports whether verdict and answer agree; otherwise nothing was counted.
func (s *settlement) settleNow(ctx context.Context) (settled bool, err error) {
	if err := s.callersStand(); err != nil {
		return false, err
	}
	judge := func(now tool.SessionFacts) (*session.Effects, error) {
		if s.stale(now) {
			q := *s.question
			q.request.SessionFacts, q.request.Time = now, time.Now().UTC()
			if err := s.evaluate(ctx, &q); err != nil {
				return nil, err
			}
		}
		if settled = s.agreed(); !settled || !letThrough(&s.verdict, &s.answer) || s.ofCall != nil {
			return nil, nil
		}
		e := record.EffectsOf(s.proposal.Tool.Name, s.proposal.Tool.OpenWorld, s.plan.Facts, s.plan.MaySend)
		return &e, nil
	}
	if s.control.between != nil {
		effects, err := judge(s.counted.Facts())
		if err != nil || effects == nil {
			return settled, err
		}
		s.control.between()
		judge = func(tool.SessionFacts) (*session.Effects, error) { return effects, nil }
	}
	err = s.counted.Decide(judge)
	return settled, err
}

// stale reports whether the verdict must be made again. A denial is never stale.
func (s *settlement) stale(now tool.SessionFacts) bool {
	if !s.answer.Allowed() || s.control.oldFacts {
		return false
	}
	set := s.Evaluator.Current()
	reads := set.ReadsOfPast()
	return set.SnapshotDigest() != s.verdict.SnapshotDigest() || reads.Differ(s.request.SessionFacts, now) ||
		reads.Now && time.Since(s.request.Time) > mostAge
}

// agreed reports whether the answer is the one that the verdict needs. If the votes do not
// satisfy policy any more, they are not an answer, and the call is denied.
func (s *settlement) agreed() bool {
	switch {
	case !s.answer.Allowed() || s.verdict.Effect() == policy.Deny:
		return true
	case s.verdict.Effect() == policy.Allow && s.verdict.GrantID() == "":
		return s.answer.Kind() == approval.NotAsked
	case s.verdict.Effect() == policy.Allow:
		return s.answer.GrantID() == s.verdict.GrantID()
	case s.answer.Kind() == approval.NotAsked:
		return false
	case s.enough(s.request, s.answer):
		return true
	}
	s.answer = approval.Answer{}
	return true
}

// letThrough reports whether verdict and answer, which agree, permit the call to run.
func letThrough(v *policy.Verdict, a *approval.Answer) bool {
	return v.Effect() != policy.Deny && a.Allowed()
}

// callersStand returns the reason why the caller, or a person who edited the call, may not act
// any more. The validity of an edit ends when its device is revoked, as for a vote, and
// not when the editor's login ends.
func (q *question) callersStand() error {
	if err := q.Standing(q.request.Caller); err != nil {
		return err
	}
	for _, editor := range q.request.Editors {
		if !q.LiveDevice(editor.DeviceID) {
			return reason.Errorf(reason.Unauthenticated, "the device with which %s edited the call was revoked", editor.Principal)
		}
	}
	return nil
}
