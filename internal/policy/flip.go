package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"palyra/internal/tool"
)

// StepKind is where a change is made.
type StepKind string

// The kinds of steps.
const (
	// StepApproval is a person's yes.
	StepApproval StepKind = "approval"
	// StepContext is another call: another argument, or a later time.
	StepContext StepKind = "context"
	// StepEntity is a role, a member or a list of the configuration.
	StepEntity StepKind = "entity"
	// StepPolicy is a policy that is removed, changed or added.
	StepPolicy StepKind = "policy"
)

// FlipStep is one change.
type FlipStep struct {
	Kind StepKind
	// Path is what changes: a place in the context, who approves, an entity,
	// or the id of a policy.
	Path string
	// Was and Becomes are the values as Cedar writes them; ValueAbsent for
	// none.
	Was, Becomes string
	// File and Line are of a policy that changes.
	File string
	Line int
}

// Flip is a change that turns the verdict, and that a person can make. Each one
// was tried before it is given: after Apply, Judge allows the call or Evaluate
// gives the verdict.
type Flip struct {
	// Verdict is what the call gets after all steps.
	Verdict Effect
	// Summary says what to do, in one sentence.
	Summary string
	Steps   []FlipStep
	// PolicyID is the policy that changes, else the first that stood in the
	// way, else the first that decides afterwards.
	PolicyID string

	changes []change
	// advice is Summary inside of another sentence.
	advice string
}

// Scenario is everything that a verdict depends on.
type Scenario struct {
	Config   Config
	Request  Request
	Approval Approval
}

// Apply makes the steps of the flip and returns what comes of them. What it is
// given stays as it is. A step in the context makes another call, so the votes
// cast for the first one are dropped.
func (f Flip) Apply(to Scenario) (Scenario, error) { return applied(to, f.changes) }

func applied(to Scenario, changes []change) (Scenario, error) {
	to.Approval.Votes = slices.Clone(to.Approval.Votes)
	for _, c := range changes {
		if c.step.Kind == StepContext {
			to.Approval.Votes = nil
		}
		if err := c.edit(&to); err != nil {
			return Scenario{}, err
		}
	}
	return to, nil
}

// change is one step of a flip.
type change struct {
	step FlipStep
	// say tells somebody to make it, as an infinitive: "add fs.read to
	// allowed_tools".
	say    string
	effort effort
	// edit makes the change. It copies what it writes to.
	edit func(*Scenario) error
	// drop and add are the policies that a change of policies is about.
	drop, add *compiled
}

// Bounds of a search, so that an explanation takes milliseconds.
const (
	maxTrials = 2000 // changed calls that are evaluated
	maxFlips  = 5
	maxDrops  = 20 // policies that one flip changes
)

// search looks for what a person could change that turns a verdict: one thing
// at a time, each tried by evaluating the changed call.
type search struct {
	set  *Set
	from Scenario
	// verdict is that of the call as it is.
	verdict Verdict
	// goal is Ask when a deny shall become anything else, or Allow.
	goal   Effect
	trials int
	found  []Flip
	// seen is the call as policy sees it, nil when it has no Cedar form.
	seen *sight
	// schema checks changed arguments; made when first needed.
	schema *tool.Schema
}

// flips finds what turns a verdict on a call, the easiest first.
func (s *Set) flips(r Request, a Approval, v Verdict, seen *sight) []Flip {
	f := &search{set: s, from: Scenario{Config: s.config, Request: r, Approval: a}, verdict: v, goal: Ask, seen: seen}
	if v.effect == Ask {
		f.goal = Allow
	}
	switch {
	case seen == nil:
		f.offer(f.otherTool())
	default:
		f.offer(f.vote())
		f.places()
		for _, c := range f.memberships() {
			f.offer(c, true)
		}
		f.morePeople()
		for _, p := range f.blockers() {
			f.offer(dropPolicy(p))
		}
		f.offer(f.set.addPermit(r, f.goal))
		if len(f.found) == 0 {
			f.together()
		}
	}
	slices.SortStableFunc(f.found, func(a, b Flip) int {
		return cmp.Or(cmp.Compare(len(a.changes), len(b.changes)), cmp.Compare(a.changes[0].effort, b.changes[0].effort))
	})
	return f.found[:min(len(f.found), maxFlips)]
}

// offer keeps a change if it turns the verdict.
func (f *search) offer(c change, ok bool) bool {
	if !ok {
		return false
	}
	return f.try(c)
}

// try evaluates the call after some changes, and keeps them as a flip if they
// lead to the goal.
func (f *search) try(changes ...change) bool {
	v, err := f.after(changes)
	if err != nil || v.effect == Deny || f.goal == Allow && v.effect != Allow {
		return false
	}
	f.found = append(f.found, flipOf(changes, v.effect, f.about(changes, v)))
	return true
}

// after is the verdict after some changes.
func (f *search) after(changes []change) (Verdict, error) {
	f.trials++
	to, err := applied(f.from, changes)
	if err != nil {
		return Verdict{}, err
	}
	v, _ := f.set.variant(to.Config, changes).verdictWith(to.Request, to.Approval, nil)
	return v, nil
}

// blockers are the policies that stand in the way: forbids that hold, and what
// fails.
func (f *search) blockers() []*compiled {
	var out []*compiled
	for _, p := range f.seen.inScope() {
		rests := slices.ContainsFunc(f.verdict.determining, func(d Determining) bool { return d.ID == p.id })
		if rests && !p.permits() || len(f.verdict.errors) > 0 && f.seen.policy(p).Outcome == OutcomeError {
			out = append(out, p)
		}
	}
	return out
}

// together is for a call in whose way stands more than one thing: everything
// that an operator has to change, down to the policies.
func (f *search) together() {
	changes := f.memberships()
	for range maxDrops {
		v, err := f.after(changes)
		if err != nil {
			return
		}
		if v.effect != Deny && (f.goal == Ask || v.effect == Allow) {
			f.try(f.leastOf(changes)...)
			return
		}
		more := f.dropsOf(v)
		if more == nil {
			c, ok := f.set.addPermit(f.from.Request, f.goal)
			if !ok || slices.ContainsFunc(changes, func(other change) bool { return other.add != nil }) {
				return
			}
			more = []change{c}
		}
		changes = append(changes, more...)
	}
}

// dropsOf removes every policy of an operator on which a verdict rests.
func (f *search) dropsOf(v Verdict) []change {
	var out []change
	for _, p := range f.set.policies {
		wrong := slices.ContainsFunc(v.determining, func(d Determining) bool { return d.ID == p.id }) && !p.permits() ||
			slices.ContainsFunc(v.errors, func(e string) bool { return strings.HasPrefix(e, p.id+": ") })
		if c, ok := dropPolicy(p); ok && wrong {
			out = append(out, c)
		}
	}
	return out
}

// leastOf leaves out every change without which the goal is reached as well.
func (f *search) leastOf(changes []change) []change {
	for i := 0; i < len(changes); {
		fewer := slices.Delete(slices.Clone(changes), i, i+1)
		if v, err := f.after(fewer); err == nil && v.effect != Deny && (f.goal == Ask || v.effect == Allow) {
			changes = fewer
			continue
		}
		i++
	}
	return changes
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

// flipOf describes changes that lead to a verdict.
func flipOf(changes []change, verdict Effect, policyID string) Flip {
	f := Flip{Verdict: verdict, PolicyID: policyID, changes: changes}
	says := make([]string, len(changes))
	for i, c := range changes {
		f.Steps = append(f.Steps, c.step)
		says[i] = c.say
	}
	then := "the call is allowed"
	if verdict == Ask {
		then = "a person is asked"
	}
	f.advice = fmt.Sprintf("%s, and %s.", strings.Join(says, ", "), then)
	f.Summary = strings.ToUpper(f.advice[:1]) + f.advice[1:]
	return f
}

// otherTool proposes the tool of the nearest name for one that nobody pinned.
func (f *search) otherTool() (change, bool) {
	var names []string
	for name := range f.set.vocab.args {
		if name != unknownTool {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	was, name := f.from.Request.Tool, tool.Nearest(f.from.Request.Tool, names)
	if slices.Contains(names, was) || name == "" {
		return change{}, false
	}
	schema, err := tool.CompileSchema(f.set.descriptor(name).InputSchema)
	return change{
		effort: effortCaller, say: fmt.Sprintf("call %s (no tool is named %s)", name, clipText(was)),
		step: FlipStep{Kind: StepContext, Path: "tool", Was: clipText(was), Becomes: name},
		edit: func(to *Scenario) error {
			args, err := schema.Check(to.Request.Args)
			to.Request.Tool, to.Request.Args = name, args
			return err
		},
	}, err == nil
}
