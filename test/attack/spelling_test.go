//go:build linux

package attack

import (
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// spellingRows are attacks by arguments with a key in two spellings: policy reads one of them,
// and the program that runs the call reads the other. In the control, the second key has a
// different name.
func spellingRows() []factRow {
	const free = freeHere + freeElsewhere
	var rows []factRow
	for _, way := range []string{"the API", "MCP", "a hook", "AuthZEN"} {
		for _, c := range [][3]string{{"key that folds to a declared property", "path", "PATH"}, {"two keys that fold alike", "other", "OTHER"}} {
			rows = append(rows, factRow{"GW2-14", c[0] + ", by " + way, free, free, func(g *gateway, late bool) string {
				e := g.entrances()
				e.upstream()
				second := c[2]
				if !late {
					second = "another"
				}
				input := `{"` + c[1] + `":"plain","` + second + `":"` + evil + `"}`
				switch way {
				case "the API":
					return e.call("library/echo", input)
				case "MCP":
					return e.mcp("library_echo", nil, input)
				case "AuthZEN":
					return allowed(e.authzen("library/echo", input), `"decision":true`)
				}
				return allowed(e.hook("PreToolUse", "t1", "Bash", strings.Replace(input, "{", `{"command":"make",`, 1)), "allow")
			}})
		}
	}
	return rows
}

// metaRows are attacks by the _meta of an MCP caller, which an upstream server would receive
// without a decision. In the control, the value is an argument that the server declares.
func metaRows() []factRow {
	const (
		key     = "com.example/tenant"
		given   = `{"_meta":{"` + key + `":"` + evil + `"}}`
		forbids = freeHere + `
@id("no-meta") @reason("no tenants") forbid(principal, action == Action::"tool.execute/library/echo", resource) when { context.args has _meta };`
	)
	// sent calls the tool with a _meta from the caller, or with the argument.
	sent := func(e *entrances, asMeta bool) string {
		if asMeta {
			return e.mcp("library_echo", mcp.Meta{key: evil, "callId": evil}, `{}`)
		}
		return e.mcp("library_echo", nil, given)
	}
	return []factRow{
		{"GW2-17", "_meta of a caller", freeHere, freeHere, func(g *gateway, late bool) string {
			e := g.entrances()
			if late {
				e.upstream()
			} else {
				e.upstream("--meta", key)
			}
			return sent(e, late)
		}},
		{"GW2-17", "declared key in the _meta of a caller", freeHere, freeHere, func(g *gateway, late bool) string {
			e := g.entrances()
			e.upstream("--meta", key)
			return sent(e, late)
		}},
		{"GW2-17", "declared key that policy forbids", forbids, freeHere, func(g *gateway, _ bool) string {
			e := g.entrances()
			e.upstream("--meta", key)
			return sent(e, false)
		}},
	}
}
