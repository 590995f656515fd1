package tool

import "context"

// Runnable is what an executor offers for one tool.
type Runnable interface {
	Descriptor() Descriptor
	// Plan works out what the call would do, without effect. Its errors are
	// refusals with a reason.
	Plan(ctx context.Context, p Proposal) (Plan, error)
	// Prepare plans the call for the last time and holds open what it looked at:
	// what Run then uses is what the plan says. It has no effect either.
	Prepare(ctx context.Context, p Proposal) (Prepared, error)
}

// Pure is a Runnable that cannot have an effect: it computes its report from the call
// alone. internal/archtest lets only the tools of internal/exec/builtin/pure be one, and
// forbids that package all imports by which code could have an effect.
type Pure interface {
	Runnable
	Pure()
}
