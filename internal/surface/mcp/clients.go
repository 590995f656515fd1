package mcp

import "time"

// Known are the times that clients give a call by default, by the name that they call
// themselves. A client that was configured otherwise says so by LimitHeader, or the
// gateway is told by mcp.call_limits. The gateway answers 5 s before.
var Known = map[string]time.Duration{
	// tool_timeout_sec of Codex.
	"codex-mcp-client": time.Minute,
	// MCP_TOOL_TIMEOUT of Claude Code is a day and more, but over HTTP its calls end
	// after five to six minutes all the same.
	"claude-code": 5 * time.Minute,
}

// unknownLimit is for clients of which nothing is known: the default of the official
// SDKs for TypeScript and Python.
const unknownLimit = time.Minute

// limitOf is how long the client of a call waits for it; 0 is for as long as it takes.
func (f *Face) limitOf(v *visit, client string) time.Duration {
	if v.limit != nil {
		return *v.limit
	}
	if limit, ok := f.Limits[client]; ok {
		return limit
	}
	if limit, ok := Known[client]; ok {
		return limit
	}
	return unknownLimit
}
