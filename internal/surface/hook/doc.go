// Package hook lets agents request permission for calls that they run themselves.
//
// An agent's hook sends its own JSON before and after a tool runs. The first message becomes a
// call like any other, of a tool whose executor is tool.External: the same pipeline proposes,
// decides and, if required, requests approval. To run such a tool, the gateway answers the hook
// that the call may proceed, and waits for the agent's report. The report is not verified: it
// can tighten later decisions, and never loosens one.
//
// Any project can name a server palyra. To the hook, a call of a server with that name is
// therefore a call of an unknown server, and requires approval. When the call arrives at the
// gateway's own MCP server, policy decides about the real tool, with the approvers' votes
// (Arrive). The call was planned before the approvers answered, so a changed file makes it a
// different call.
//
// The gateway's own socket accepts hooks without a token. A process with the uid of the state
// directory's owner could act as the local operator on the other socket. A token in a
// repository's file would only add power. Agents of other users connect to the socket
// listen.hooks and present a token. While palyrad does not run, another program could take a
// port, but not a name in palyrad's directory.
package hook

import "time"

const (
	// DefaultLimit is the agent's timeout for its hook if the request does not specify one. margin
	// is the reserve between the answer and that timeout.
	DefaultLimit = 60 * time.Second
	margin       = 5 * time.Second
	// MaxBody is the longest hook JSON in bytes.
	MaxBody = 8 << 20
	// longestID bounds the agents' ids of sessions and calls, in bytes.
	longestID = 200
)
