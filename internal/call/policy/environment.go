package policy

import "palyra/internal/core/tool"

// environmentFacts are the facts of the table about the machine.
var environmentFacts = factsOfKind(environment)

// EnvironmentChanged reports whether facts about the machine differ, so that the call must be
// judged again.
func EnvironmentChanged(was, is *tool.Plan) bool {
	return len(changed(environmentFacts, was, is)) > 0
}
