//go:build palyrainit

package gateway

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/must"
	"palyra/internal/core/needs"
)

// varying matches the parts of a response that differ between requests.
var varying = regexp.MustCompile(`sha256:[0-9a-f]{64}|01[0-9A-HJKMNP-TV-Z]{24}|20\d\d-\d\d-\d\dT[0-9:.]+Z|(seconds|nanos):\d+|eyJ[A-Za-z0-9._-]+`)

// TestExistenceIsNotRevealed: a caller that may not read files gets the same error for an
// existing file, a missing one, a link and a directory. Control: with reads allowed, the
// responses differ.
func TestExistenceIsNotRevealed(t *testing.T) {
	t.Parallel()
	needs.Sandbox(t)
	const others = ` when { principal != User::"local" }`
	const noReading = `@id("no-reading") @reason("no reading") forbid(principal, action in [Action::"tool.execute/fs.read", Action::"tool.execute/fs.list", Action::"tool.execute/fs.search"], resource)` + others + `;`
	for name, policies := range map[string]string{
		"deny all":    `@id("none") @reason("none") forbid(principal, action in Action::"tool.execute", resource)` + others + `;`,
		"ask all":     `@id("ask") @reason("ask") forbid(principal, action in Action::"tool.execute", resource)` + others + ` unless { context.approval.granted };`,
		"no reading":  noReading,
		"the control": "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := startWithCanary(t, policies)
			g.t = t
			dir := g.cfg.Workspaces[0].Path
			must.Do(t, os.MkdirAll(filepath.Join(dir, "name-2", "objects"), 0o755)) // a git repository
			must.Do(t, os.Mkdir(filepath.Join(dir, "name-2", "refs"), 0o755))
			must.Do(t, os.WriteFile(filepath.Join(dir, "name-2", "HEAD"), []byte("ref: refs/heads/main\n"), 0o644))
			must.Do(t, os.Symlink("plain.txt", filepath.Join(dir, "name-3")))
			must.Do(t, os.WriteFile(filepath.Join(dir, "name-4"), []byte("#!/bin/sh\necho\n"), 0o755))
			must.Do(t, os.WriteFile(filepath.Join(dir, "name-5"), []byte("first\nlast\n"), 0o644))
			differ := 0
			for _, c := range []struct{ tool, input string }{
				{"fs.read", `{"path":"NAME"}`}, {"fs.list", `{"path":"NAME"}`}, {"fs.search", `{"pattern":"x","path":"NAME"}`},
				{"fs.write", `{"path":"NAME","content":"x","mode":"overwrite"}`}, {"fs.write", `{"path":"NAME","content":"x","mode":"create"}`},
				{"fs.patch", `{"patch":"--- a/NAME\n+++ b/NAME\n@@ -1 +1 @@\n-first\n+new\n"}`},
				{"process.run", `{"argv":["cat","NAME"]}`}, {"process.run", `{"argv":["./NAME","x"]}`}, {"process.run", `{"argv":["ls"],"cwd":"NAME"}`}, {"process.run", `{"argv":["git","-C","NAME","status"]}`},
				{"shell.run", `{"command":"cat NAME"}`}, {"shell.run", `{"command":"ls","cwd":"NAME"}`},
			} {
				answers := map[string]string{}
				for i := range 5 { // name-1 does not exist
					file := fmt.Sprint("name-", i+1)
					input := strings.ReplaceAll(c.input, "NAME", file)
					for way, answer := range g.answers(t, c.tool, input) {
						answer = strings.ReplaceAll(varying.ReplaceAllString(answer, "VARIES"), file, "NAME")
						switch before, seen := answers[way]; {
						case strings.Contains(answer, "conflicts with the files"): // the error contains nothing else
						case !seen:
							answers[way] = answer
						case before == answer:
						case policies == "":
							differ++
						default:
							t.Errorf("%s %s: %s is answered\n%s\nwhere there is none\n%s", c.tool, input, way, answer, before)
						}
					}
				}
			}
			if policies == "" && differ == 0 {
				t.Error("the control learned nothing of the files")
			}
		})
	}
}

// answers returns the members' responses about a call, by member and method.
func (g *inspectedGateway) answers(t *testing.T, tool, input string) map[string]string {
	t.Helper()
	out := map[string]string{}
	note := func(way string, m proto.Message, err error) {
		out[way] = fmt.Sprint(m, " ", err)
	}
	for _, who := range []string{"coder", "dev"} {
		by := g.people[who]
		evaluated, err := by.calls.EvaluateTool(t.Context(), &palyrav1.EvaluateToolRequest{Tool: tool, InputJson: []byte(input)})
		note(who+"'s evaluation", evaluated, err)
		ctx, cancel := context.WithTimeout(t.Context(), must.Patience)
		stream := must.Get(by.calls.CallTool(ctx, &palyrav1.CallToolRequest{Tool: tool, InputJson: []byte(input)}))(t)
		for ended := false; !ended && stream.Receive(); {
			if m := stream.Msg().GetApprovalRequested(); m != nil {
				ended = true
				note(who+"'s question", m, nil)
				seen, err := by.approvals.GetApproval(ctx, &palyrav1.GetApprovalRequest{ApprovalId: m.GetApproval().GetApprovalId()})
				note(who+"'s look at the question", seen, err)
				seen, err = g.people["aud"].approvals.GetApproval(ctx, &palyrav1.GetApprovalRequest{ApprovalId: m.GetApproval().GetApprovalId()})
				note("an auditor's look at the question of "+who, seen, err)
				_, _ = by.approvals.CancelApproval(ctx, &palyrav1.CancelApprovalRequest{ApprovalId: m.GetApproval().GetApprovalId()})
			}
			if m := stream.Msg().GetDecision(); m != nil && !m.GetAllowed() {
				ended = true
				note(who+"'s decision", m, nil)
			}
		}
		if err := stream.Err(); err != nil {
			out[who+"'s call"] = err.Error()
		}
		cancel()
		_ = stream.Close()
	}
	explained, err := g.people["dev"].policy.ExplainPolicy(t.Context(), &palyrav1.ExplainPolicyRequest{
		Subject: &palyrav1.ExplainPolicyRequest_Call{Call: &palyrav1.CallDescription{Tool: tool, InputJson: []byte(input)}},
	})
	note("an explanation", explained, err)
	res, err := g.people["ada"].http.Post(g.url()+"/access/v1/evaluation", "application/json", strings.NewReader(
		`{"subject":{"type":"agent","id":"coder"},"action":{"name":"tools/call"},"resource":{"type":"tool","id":"`+tool+`"},"context":{"arguments":`+input+`}}`))
	must.Do(t, err)
	defer res.Body.Close()
	out["an evaluation of another's call"] = string(must.Get(io.ReadAll(res.Body))(t)) + http.StatusText(res.StatusCode)
	return out
}
