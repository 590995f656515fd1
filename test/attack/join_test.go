//go:build linux

package attack

import (
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// joinRows are attacks that use, for another call, the answer to a tool use that a hook
// announced. In the control, the announced call itself arrives.
func joinRows() []factRow {
	const (
		announced = `{"argv":["python3","script.py"]}`
		evil      = "open('made', 'w').write('" + canary + "')\n"
	)
	comes := func(e *entrances, id, input string) {
		e.denying(func() string { return e.mcp("process_run", mcp.Meta{"claudecode/toolUseId": id}, input) })
	}
	// joined announces a use of the tool and has it allowed.
	joined := func(g *gateway, script string) *entrances {
		e := g.entrances()
		e.file("script.py", script)
		e.answering(func() string { return e.hook("PreToolUse", "t1", "mcp__palyra__process_run", announced) }, "--allow", "once")
		return e
	}
	return []factRow{
		{"GW2-15", "second call with the same id", "", "", func(g *gateway, late bool) string {
			e := joined(g, "import os\nopen('made', 'w').write(os.path.exists('first') and '"+canary+"' or '')\n")
			if late {
				comes(e, "t1", announced)
			}
			e.file("first", "")
			comes(e, "t1", announced)
			return e.Read("made")
		}},
		{"GW2-15", "call with other arguments", "", "", func(g *gateway, late bool) string {
			e := joined(g, evil)
			input := announced
			if late {
				input = `{"argv":["python3","script.py","more"]}`
			}
			comes(e, "t1", input)
			return e.Read("made")
		}},
		{"GW2-15", "file that changed after the announcement", "", "", func(g *gateway, late bool) string {
			script := evil
			if late {
				script = "pass\n"
			}
			e := joined(g, script)
			e.file("script.py", evil)
			comes(e, "t1", announced)
			return e.Read("made")
		}},
		{"GW2-15", "call with another id", "", "", func(g *gateway, late bool) string {
			e := joined(g, evil)
			id := "t1"
			if late {
				id = "t2"
			}
			comes(e, id, announced)
			return e.Read("made")
		}},
	}
}
