// Package hook lets agents request permission for calls that they run themselves.
//
// An agent's hook sends its own JSON before and after a tool runs. The first message becomes a call
// like any other, of a tool whose executor is tool.External: the same pipeline proposes, decides
// and, if required, requests approval. Running such a tool means to answer the hook that the call
// may proceed, and to wait for the agent's report. An agent's report is a claim: it may tighten
// later decisions, and never loosens any.
//
// A project may call any server palyra, so a call of a server with that name is a call of an
// unknown server to the hook, and people are asked. When it arrives at the gateway's own MCP
// server, policy judges the real tool with their votes (Arrive). The call was planned before people
// answered, so a changed file makes it another call.
//
// The gateway's own socket accepts hooks without a token: a process with the uid of the state
// directory's owner could be the local operator on the other socket, and a token in a repository's
// file would be more power. Agents of other users connect to the socket listen.hooks and present a
// token. Another program could take a port while palyrad does not run, but not a name in palyrad's
// directory.
package hook

import "time"

const (
	// DefaultLimit is how long an agent waits for its hook if the request does not specify it;
	// margin is how long before that the request is answered.
	DefaultLimit = 60 * time.Second
	margin       = 5 * time.Second
	// MaxBody is the longest hook JSON in bytes.
	MaxBody = 8 << 20
	// longestID bounds the agents' ids of sessions and calls, in bytes.
	longestID = 200
)
