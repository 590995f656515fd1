package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"palyra/internal/call/policy"
	"palyra/internal/call/policy/internal/expr"
	"palyra/internal/core/text"
)

// StepKind is the kind of a change.
type StepKind string

// The kinds of steps.
const (
	// StepApproval is an approval.
	StepApproval StepKind = "approval"
	// StepContext is a different call: another argument, or a later time.
	StepContext StepKind = "context"
	// StepEntity is a role, a member or a list of the configuration.
	StepEntity StepKind = "entity"
	// StepPolicy is a policy that is removed, changed or added.
	StepPolicy StepKind = "policy"
)

// Step is one change.
type Step struct {
	Kind StepKind
	// Path names the changed item: a place in the context, the approvers, an entity, or the id
	// of a policy.
	Path string
	// Was and Becomes are the values in Cedar syntax; ValueAbsent if missing.
	Was, Becomes string
	// File and Line locate a policy that changes.
	File string
	Line int
}

// Flip is a change that alters the verdict and that a person can make. Each flip has been
// tried: after it, Judge allows the call or Evaluate returns the verdict.
type Flip struct {
	// Verdict is the verdict after all steps.
	Verdict policy.Effect
	// Summary describes the change in one sentence.
	Summary string
	Steps   []Step
	// PolicyID is the policy that changes, else the first blocking policy, else the first that
	// decides afterwards.
	PolicyID string

	changes []change
	// advice is Summary for use inside another sentence.
	advice string
}

// scenario has all inputs of a verdict except the text of policies.
type scenario struct {
	Config   policy.Config
	Request  policy.Request
	Approval policy.Approval
}

// applied returns a scenario with the changes; the given scenario is not modified. A step in
// the context makes it a different call, so the votes cast for the original call are dropped.
func applied(to scenario, changes []change) (scenario, error) {
	to.Approval.Votes = slices.Clone(to.Approval.Votes)
	for _, c := range changes {
		if c.step.Kind == StepContext {
			to.Approval.Votes = nil
		}
		if c.edit == nil {
			continue
		}
		if err := c.edit(&to); err != nil {
			return scenario{}, err
		}
	}
	return to, nil
}

// change is one step of a flip.
type change struct {
	step Step
	// say is the instruction for the change, as an infinitive: "add fs.read to allowed_tools".
	say    string
	effort effort
	// edit applies the change, unless it changes policies. It copies the data that it modifies.
	edit func(*scenario) error
	// drop and add are the policies that are removed and added.
	drop, add *expr.Policy
}

// Bounds of a search, so that an explanation takes milliseconds.
const (
	maxTrials = 2000 // changed calls that are evaluated
	maxFlips  = 5
	maxDrops  = 20 // policies that one flip changes
)

// search finds changes that alter a verdict: one at a time, each tried by evaluating the
// changed call.
type search struct {
	set  *policy.Set
	view policy.View
	from scenario
	// verdict is the verdict on the original call.
	verdict policy.Verdict
	// goal is Ask if any change of a denial suffices, otherwise Allow.
	goal   policy.Effect
	trials int
	found  []Flip
	// seen is the call in the form that policy evaluates, nil if it has no Cedar form.
	seen *sight
	args arguments
}

// now returns the result for the original call.
func (f *search) now() policy.Tried {
	return policy.Tried{Effect: f.verdict.Effect(), Determining: f.verdict.Determining(), Errors: f.verdict.Errors()}
}

// flips finds changes that alter the verdict on a call, the easiest first.
func flips(s *policy.Set, r policy.Request, a policy.Approval, v policy.Verdict, seen *sight) []Flip {
	view := s.View()
	f := &search{set: s, view: view, from: scenario{Config: view.Config(), Request: r, Approval: a}, verdict: v, goal: policy.Ask, seen: seen, args: arguments{view: view, tool: r.Tool}}
	if v.Effect() == policy.Ask {
		f.goal = policy.Allow
	}
	switch {
	case seen == nil:
		f.offer(f.otherTool())
	default:
		f.offer(f.vote())
		f.places()
		for _, c := range f.memberships() {
			f.try(c)
		}
		f.morePeople()
		for _, c := range f.dropsOf(f.now()) {
			f.try(c)
		}
		f.offer(f.addPermit())
		if len(f.found) == 0 {
			f.together()
		}
	}
	slices.SortStableFunc(f.found, func(a, b Flip) int {
		return cmp.Or(cmp.Compare(len(a.changes), len(b.changes)), cmp.Compare(a.changes[0].effort, b.changes[0].effort))
	})
	return f.found[:min(len(f.found), maxFlips)]
}

// offer keeps a change if it alters the verdict.
func (f *search) offer(c change, ok bool) {
	if ok {
		f.try(c)
	}
}

// try evaluates the call after some changes, and keeps them as a flip if they reach the goal.
func (f *search) try(changes ...change) bool {
	v, err := f.after(changes)
	if err != nil || !f.reached(v) {
		return false
	}
	f.found = append(f.found, flipOf(changes, v.Effect, f.about(changes, v)))
	return true
}

func (f *search) reached(v policy.Tried) bool {
	return v.Effect == policy.Allow || v.Effect == f.goal
}

// after returns the result after some changes.
func (f *search) after(changes []change) (policy.Tried, error) {
	f.trials++
	to, err := applied(f.from, changes)
	if err != nil {
		return policy.Tried{}, err
	}
	var other *policy.Change
	for _, c := range changes {
		if c.step.Kind != StepEntity && c.step.Kind != StepPolicy {
			continue
		}
		if other == nil {
			other = &policy.Change{Config: to.Config}
		}
		if c.drop != nil {
			other.Drop = append(other.Drop, c.drop)
		}
		if c.add != nil {
			other.Add = append(other.Add, c.add)
		}
	}
	return f.view.Try(other, to.Request, to.Approval), nil
}

// blockers returns the policies that prevent the goal: satisfied forbids, and failing policies.
func (f *search) blockers(v policy.Tried) []*expr.Policy {
	return slices.DeleteFunc(f.view.Policies(), func(p *expr.Policy) bool {
		forbids := !p.Permits() && slices.ContainsFunc(v.Determining, func(d policy.Determining) bool { return d.ID == p.ID })
		fails := slices.ContainsFunc(v.Errors, func(e string) bool { return strings.HasPrefix(e, p.ID+": ") })
		return !forbids && !fails
	})
}

// together handles a call with several blockers: it combines all changes that an operator must
// make, down to the policies.
func (f *search) together() {
	changes := f.memberships()
	for range maxDrops {
		v, err := f.after(changes)
		if err != nil {
			return
		}
		if f.reached(v) {
			f.try(f.leastOf(changes)...)
			return
		}
		more := f.dropsOf(v)
		if more == nil {
			c, ok := f.addPermit()
			if !ok || slices.ContainsFunc(changes, func(other change) bool { return other.add != nil }) {
				return
			}
			more = []change{c}
		}
		changes = append(changes, more...)
	}
}

// dropsOf removes every blocking policy of an operator.
func (f *search) dropsOf(v policy.Tried) []change {
	var out []change
	for _, p := range f.blockers(v) {
		if c, ok := dropPolicy(p); ok {
			out = append(out, c)
		}
	}
	return out
}

// leastOf removes every change that is not needed to reach the goal.
func (f *search) leastOf(changes []change) []change {
	for i := 0; i < len(changes); {
		fewer := slices.Delete(slices.Clone(changes), i, i+1)
		if v, err := f.after(fewer); err == nil && f.reached(v) {
			changes = fewer
			continue
		}
		i++
	}
	return changes
}

// about returns the policy of a flip: the one that it changes, else the first blocking policy,
// else the first that decides after it.
func (f *search) about(changes []change, after policy.Tried) string {
	for _, c := range changes {
		if c.step.Kind == StepPolicy {
			return c.step.Path
		}
	}
	if f.goal == policy.Ask && len(f.verdict.Determining()) > 0 {
		return f.verdict.Determining()[0].ID
	}
	if len(after.Determining) > 0 {
		return after.Determining[0].ID
	}
	return ""
}

// flipOf describes changes that lead to a verdict.
func flipOf(changes []change, verdict policy.Effect, policyID string) Flip {
	f := Flip{Verdict: verdict, PolicyID: policyID, changes: changes}
	clauses := make([]string, len(changes))
	for i, c := range changes {
		f.Steps = append(f.Steps, c.step)
		clauses[i] = c.say
	}
	then := "the call is allowed"
	if verdict == policy.Ask {
		then = "a person is asked"
	}
	f.advice = fmt.Sprintf("%s, and %s.", strings.Join(clauses, ", "), then)
	f.Summary = strings.ToUpper(f.advice[:1]) + f.advice[1:]
	return f
}

// otherTool proposes the tool with the nearest name for one that is not pinned.
func (f *search) otherTool() (change, bool) {
	var names []string
	for _, d := range f.view.Config().Tools {
		names = append(names, d.Name)
	}
	slices.Sort(names)
	was, name := f.from.Request.Tool, text.Nearest(f.from.Request.Tool, names)
	if slices.Contains(names, was) || name == "" {
		return change{}, false
	}
	other := descriptor(f.view, name)
	schema, err := other.CompileInput()
	return change{
		effort: effortCaller, say: fmt.Sprintf("call %s (no tool is named %s)", name, expr.ClipText(was)),
		step: Step{Kind: StepContext, Path: "tool", Was: expr.ClipText(was), Becomes: name},
		edit: func(to *scenario) error {
			args, err := schema.Check(to.Request.Args)
			to.Request.Tool, to.Request.SkillID, to.Request.Args = name, other.Skill, args
			return err
		},
	}, err == nil
}
