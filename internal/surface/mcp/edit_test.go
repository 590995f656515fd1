package mcp_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/call"
	"palyra/internal/call/approval"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/gateway/gatewaytest"
)

// TestEditedCallIsReportedFirst: the result of an edited call starts with the statement that
// another call ran, whether it succeeded or failed. The result of an unedited call has no such
// statement.
func TestEditedCallIsReportedFirst(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, revision string) {
		for name, c := range map[string]struct {
			edits, fails bool
		}{"edited": {true, false}, "edited, and it fails": {true, true}, "as proposed": {false, false}} {
			w := newWorld(t, func(w *world) {
				w.options.Members = append(w.options.Members, access.Member{Principal: access.User("carol"), Roles: []access.Role{access.RoleOperator}, CreatedAt: policytest.Now})
			})
			if c.fails {
				w.run.Change(func(p *gatewaytest.Probe) {
					p.Work = func(context.Context, tool.Call) tool.Report {
						r := gatewaytest.Succeeded(`{"exit_code":2}`)
						r.Outcome, r.Reason, r.Message = tool.Failed, string(reason.ToolFailed), "it failed"
						return r
					}
				})
			}
			client := w.connect(clientConfig{revision: revision})
			done := client.begin(t.Context(), "process_run", make1, nil)
			a := w.pending(1)[0]
			if c.edits {
				a = must.Get(w.Pipeline.Edit(t.Context(), gatewaytest.Person(access.User("carol"), access.RoleOperator), call.Change{
					ApprovalID: a.ID, Version: a.Version, ShownDigest: a.CallDigest, Input: []byte(`{"argv":["make","-n"]}`), Reason: "only look",
				}))(t)
			}
			must.Get(w.Desk.Votes.Decide(t.Context(), bob, a.ID, approval.Ballot{Allow: true, ShownDigest: a.CallDigest}))(t)
			m := <-done
			if m.err != nil || m.IsError != c.fails {
				t.Fatalf("%s: %s %v", name, m.text(), m.err)
			}
			first := m.Content[0].(*mcp.TextContent).Text
			var told struct {
				Edited *tool.Edited `json:"executed_as_edited"`
			}
			must.Do(t, json.Unmarshal(must.Get(json.Marshal(m.Meta["palyra.dev/call"]))(t), &told))
			if !c.edits {
				if told.Edited != nil || strings.Contains(m.text(), "executed_as_edited") {
					t.Errorf("%s: %s, %+v", name, m.text(), told.Edited)
				}
				continue
			}
			want := `executed_as_edited: user:carol changed this call before it was approved; it ran as changed, not as proposed. /argv was ["make"] and is ["make","-n"]. They say: only look`
			if first != want || told.Edited == nil || told.Edited.ApprovalID != a.ID {
				t.Errorf("%s: first stands %q, the record is %+v", name, first, told.Edited)
			}
		}
	})
}
