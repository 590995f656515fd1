// Package hook lets agents ask the gateway about calls that they run themselves.
//
// An agent's hook sends its own JSON before a tool runs, and after. The first becomes
// a call like any other, of a tool whose executor is tool.External: it is proposed,
// judged, asked about and decided by the one pipeline. Running such a tool is to answer
// the hook that the call may go on, and to wait for what the agent says of it. What an
// agent says is its claim: it may tighten what follows, and never loosens anything.
package hook

import "time"

const (
	// DefaultLimit is how long an agent waits for its hook where the request does not
	// say; margin is how long before that it gets its answer.
	DefaultLimit = 60 * time.Second
	margin       = 5 * time.Second
	// MaxBody is the longest hook JSON in bytes.
	MaxBody = 8 << 20
	// longestID bounds what agents name sessions and calls by, in bytes.
	longestID = 200
)
