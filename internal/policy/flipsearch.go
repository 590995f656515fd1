package policy

import (
	"cmp"
	"slices"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/tool"
)

// Bounds of a search, so that an explanation takes milliseconds.
const (
	maxTrials    = 250  // evaluations of a changed call
	maxTries     = 4000 // evaluations of one expression with another value
	maxFlips     = 5
	maxFlipSteps = 6
)

// search looks for the changes that turn a verdict. It goes from the call as
// it is to calls with ever more changes, the cheapest first. Each is evaluated
// whole; what then still stands in the way says what to change next. What it
// returns has therefore been tried.
type search struct {
	set  *Set
	from Scenario
	// verdict is that of the call as it is.
	verdict Verdict
	// goal is Ask when a deny shall become anything else, or Allow.
	goal Effect
	// trials, tries and crowds count what was tried.
	trials, tries, crowds int
	seen                  map[string]bool
	// sets are the variants of the set by keyOf.
	sets map[string]*Set
	// before is the call as it came.
	before original
	// schema checks changed arguments; made when first needed.
	schema *tool.Schema
}

// flips finds what turns a verdict on a call.
func (s *Set) flips(r Request, a Approval, v Verdict) []Flip {
	f := &search{
		set: s, from: Scenario{Config: s.config, Request: r, Approval: a}, verdict: v, goal: Ask,
		seen: map[string]bool{}, sets: map[string]*Set{},
	}
	if _, known := s.vocab.args[r.Tool]; !known {
		return f.otherTool()
	}
	f.before = s.originalOf(r)
	var found []Flip
	if v.effect == Ask {
		f.goal = Allow
		found = f.yeses(v.severity)
	}
	found = append(found, f.run()...)
	if len(found) == 0 {
		found = f.straight()
	}
	slices.SortStableFunc(found, func(a, b Flip) int { return cmp.Compare(costOf(a.changes), costOf(b.changes)) })
	if len(found) == 0 {
		found = f.permitAdded()
	}
	return found[:min(len(found), maxFlips)]
}

// run is the search itself.
func (f *search) run() []Flip {
	var found []Flip
	queue := [][]change{nil}
	for len(queue) > 0 && len(found) < maxFlips && f.trials < maxTrials && f.tries < maxTries {
		changes := queue[0]
		queue = queue[1:]
		if slices.ContainsFunc(found, func(done Flip) bool { return changesAll(changes, done.changes) }) {
			continue // more steps than would do
		}
		t, ok := f.try(changes)
		switch {
		case !ok:
		case t.stands.reaches(f.goal):
			if flip, ok := f.flip(f.leastOf(changes)); ok {
				found = append(found, flip)
			}
		case len(changes) < maxFlipSteps:
			queue = f.enqueue(queue, f.repairs(t))
		}
	}
	return found
}

// straight takes the cheapest change at each step and never looks back. It
// finds a way where there are too many to look at, in the end by taking away
// every policy that stands in it.
func (f *search) straight() []Flip {
	f.tries = min(f.tries, maxTries*3/4)
	f.seen = map[string]bool{}
	var changes []change
	for range 3 * maxFlipSteps {
		t, ok := f.try(changes)
		if !ok {
			return nil
		}
		if t.stands.reaches(f.goal) {
			if flip, ok := f.flip(f.leastOf(changes)); ok {
				return []Flip{flip}
			}
			return nil
		}
		next := f.enqueue(nil, f.repairs(t))
		if len(next) == 0 {
			return nil
		}
		changes = next[0]
	}
	return nil
}

// enqueue adds lists of changes that are new, and keeps the cheapest first;
// among equals the first found.
func (f *search) enqueue(queue, more [][]change) [][]change {
	for _, list := range more {
		if key := keyOf(list); !f.seen[key] {
			f.seen[key] = true
			queue = append(queue, list)
		}
	}
	slices.SortStableFunc(queue, func(a, b []change) int { return cmp.Compare(costOf(a), costOf(b)) })
	return queue
}

// leastOf leaves out every change without which the goal is reached as well.
func (f *search) leastOf(changes []change) []change {
	for i := 0; i < len(changes) && len(changes) > 1; {
		fewer := slices.Delete(slices.Clone(changes), i, i+1)
		if t, ok := f.try(fewer); ok && t.stands.reaches(f.goal) {
			changes = fewer
			continue
		}
		i++
	}
	return changes
}

// flip evaluates changes as any call is evaluated, and describes them if they
// lead to the goal.
func (f *search) flip(changes []change) (Flip, bool) {
	to, err := applied(f.from, changes)
	if err != nil {
		return Flip{}, false
	}
	v, _ := f.setFor(changes, to.Config).verdictWith(to.Request, to.Approval, nil)
	if v.effect == Deny || f.goal == Allow && v.effect != Allow {
		return Flip{}, false
	}
	return flipOf(changes, v.effect, f.about(changes, v)), true
}

// about is the policy that a flip is about: the one that it changes, else the
// first that stood in the way, else the first that decides after it.
func (f *search) about(changes []change, after Verdict) string {
	for _, c := range changes {
		if c.step.Kind == StepPolicy {
			return c.step.Path
		}
	}
	if f.goal == Ask && len(f.verdict.determining) > 0 {
		return f.verdict.determining[0].ID
	}
	if len(after.determining) > 0 {
		return after.determining[0].ID
	}
	return ""
}

// trial is a call after some changes, evaluated.
type trial struct {
	set     *Set
	changes []change
	request Request
	stands  standing
}

func (f *search) try(changes []change) (*trial, bool) {
	f.trials++
	to, err := applied(f.from, changes)
	if err != nil {
		return nil, false
	}
	t := &trial{set: f.setFor(changes, to.Config), changes: changes, request: to.Request}
	t.stands = t.set.standingOf(to, f.goal)
	return t, true
}

// setFor returns the set under changes.
func (f *search) setFor(changes []change, cfg Config) *Set {
	var drop, add []*compiled
	var other []change
	for _, c := range changes {
		if !c.rehydrates() {
			continue
		}
		other = append(other, c)
		if c.drop != nil {
			drop = append(drop, c.drop)
		}
		if c.add != nil {
			add = append(add, c.add)
		}
	}
	if other == nil {
		return f.set
	}
	key := keyOf(other)
	if f.sets[key] == nil {
		f.sets[key] = f.set.variant(cfg, drop, add)
	}
	return f.sets[key]
}

// standing is how a call stands, and what keeps it from a goal.
type standing struct {
	effect Effect
	// call is for the file that stands in the way, file its place in
	// Facts.Paths; call is nil when the request cannot be put into Cedar's
	// terms.
	call *call
	file int
	// facts is the approval that would have to do, and out what came of it.
	facts types.Record
	out   outcome
}

func (s *standing) reaches(goal Effect) bool {
	return s.effect == Allow || s.effect == goal
}

// standingOf evaluates a scenario without what a verdict says to people. The
// strictest file counts.
func (s *Set) standingOf(sc Scenario, goal Effect) standing {
	worst := standing{effect: Allow}
	for i, one := range sc.Request.perPath() {
		st := s.standingOne(one, sc.Approval, goal)
		st.file = i
		if st.effect == Deny {
			return st
		}
		if st.effect == Ask && worst.effect == Allow {
			worst = st
		}
	}
	return worst
}

func (s *Set) standingOne(r Request, a Approval, goal Effect) standing {
	c, refused := s.prepare(r)
	if refused != nil {
		return standing{}
	}
	facts := s.noApproval
	if len(a.Votes) > 0 {
		facts = s.tally.facts(s.ballots(a, c.requester), a.Standing)
	}
	bare := c.under(facts)
	st := standing{call: c, facts: facts, out: bare}
	switch {
	case len(bare.errors) > 0:
		return st
	case bare.allowed:
		st.effect = Allow
		return st
	case goal == Allow:
		st.effect = Ask
		return st
	}
	p := s.prospect(c, bare)
	st.facts, st.out = p.voters.facts, p.best
	if p.best.allowed {
		st.effect = Ask
	}
	return st
}
