package mcp

import "time"

// Known are the default call timeouts of clients, by the name that they declare. Other timeouts are
// declared with LimitHeader, or configured in mcp.call_limits. The gateway answers 5 s earlier.
var Known = map[string]time.Duration{
	// tool_timeout_sec of Codex.
	"codex-mcp-client": time.Minute,
	// MCP_TOOL_TIMEOUT of Claude Code is more than a day, but over HTTP its calls end after five to
	// six minutes.
	"claude-code": 5 * time.Minute,
}

// unknownLimit is the timeout of unknown clients: the default of the official SDKs for
// TypeScript and Python.
const unknownLimit = time.Minute

// limitOf returns the client's timeout for a call; 0 means none. The configured timeouts override
// Known.
func limitOf(v *httpRequest, client string, configured map[string]time.Duration) time.Duration {
	if v.limit != nil {
		return *v.limit
	}
	if limit, ok := configured[client]; ok {
		return limit
	}
	if limit, ok := Known[client]; ok {
		return limit
	}
	return unknownLimit
}
