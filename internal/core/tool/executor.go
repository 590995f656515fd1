package tool

import "context"

// Runnable is an executor's implementation of one tool.
type Runnable interface {
	Descriptor() Descriptor
	// Plan computes the effects of the call without performing them. Its errors are refusals with a
	// reason.
	Plan(ctx context.Context, p Proposal) (Plan, error)
	// Prepare plans the call for the last time and keeps the inspected objects open: Run then uses
	// exactly the objects of the plan. It has no effects either.
	Prepare(ctx context.Context, p Proposal) (Prepared, error)
}

// Pure is a Runnable that cannot have an effect: it computes its report only from the call.
// internal/archtest permits it only in internal/exec/builtin/pure, and forbids that package all
// imports that could have an effect.
type Pure interface {
	Runnable
	Pure()
}
