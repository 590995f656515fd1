//go:build unix

package agents

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/event"
	"palyra/internal/core/must"
)

// TestJoined has both agents call a tool of Palyra's own MCP server. The call reaches both the
// hook and the server. The person is asked once, and no alarm reports a missing call.
func TestJoined(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	p.up()
	for _, a := range all {
		t.Run(a.name, func(t *testing.T) {
			p, served := p.in(t), p.in(t) // only the agent's environment has the token
			served.serves(a)
			asked := p.count(event.Asked)
			p.model.wants(call{a.ownTool("fs_write"), map[string]any{"path": "joined" + a.name, "content": "by one yes", "workspace": "project"}})
			c := a.start(served, true)
			q := p.waiting(c)
			p.palyra("approve", q.ID, "--digest", q.Digest).Want(t, 0)
			r := c.Wait(t)
			wrote, err := os.ReadFile(filepath.Join(p.workspace, "joined"+a.name))
			if string(wrote) != "by one yes" || p.count(event.Asked) != asked+1 || p.count(event.Unjoined) != 0 {
				t.Errorf("wrote %q, %v, %d asks, %d alarms\n%s%s\n%s", wrote, err, p.count(event.Asked)-asked, p.count(event.Unjoined), r.Out, r.Err, p.model.results())
			}
		})
	}
}

// serves gives an agent Palyra's tools, over `palyra mcp serve`.
func (p *person) serves(a *agent) {
	p.t.Helper()
	r := p.palyra("tokens", "create", a.name, "--for", "agent:"+a.name, "-o", "json")
	r.Want(p.t, 0)
	var made struct {
		Text string `json:"text"`
	}
	must.Do(p.t, json.Unmarshal([]byte(r.Out), &made))
	p.more = append(p.more, "PALYRA_TOKEN="+made.Text)
	config := p.palyra("mcp", "config", a.name, "--stdio")
	config.Want(p.t, 0)
	at := filepath.Join(p.home, a.servers)
	old, err := os.ReadFile(at)
	if err == nil && strings.HasSuffix(a.servers, ".toml") {
		config.Out = string(old) + "\n" + config.Out
	}
	p.write(a.servers, config.Out)
}

// count returns the number of events of a code in the journal.
func (p *person) count(code event.Code) int {
	p.t.Helper()
	r := p.palyra("journal", "list", "--code", string(code), "-o", "ndjson")
	r.Want(p.t, 0)
	return strings.Count(r.Out, "\n")
}
