package policy

import (
	"slices"
)

// StepKind is where a change is made.
type StepKind string

// The kinds of steps.
const (
	// StepApproval is a person's yes.
	StepApproval StepKind = "approval"
	// StepContext is another call, or another state of the world.
	StepContext StepKind = "context"
	// StepEntity is a role, a list or the definition of the tool.
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

// Flip is a change that turns the verdict. Each one was tried before it is
// given: after Apply, Judge allows the call or Evaluate gives the verdict.
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
func (f Flip) Apply(to Scenario) (Scenario, error) {
	return applied(to, f.changes)
}

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
