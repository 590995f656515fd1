package api_test

import (
	"strings"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/must"
	"palyra/internal/core/tool"
	"palyra/internal/gateway/gatewaytest"
)

// noReading forbids agents, developers and auditors to read files.
const noReading = `@id("no-reading") forbid(principal, action == Action::"tool.execute/fs.read", resource)
when { principal in Role::"agent" || principal in Role::"developer" || principal in Role::"auditor" };`

const (
	contentBefore = "password = canary"
	promptDiff    = "diff --git a/.env b/.env\n--- a/.env\n+++ b/.env\n@@ -1 +1 @@\n-" + contentBefore + "\n+new\n"
	foundSummary  = "Replace 17 bytes of .env."
)

// contentOf returns the names of a prompt's parts that contain content of files.
func contentOf(m *palyrav1.Approval) string {
	p := m.GetPrompt()
	var parts []string
	add := func(name string, there bool) {
		if there {
			parts = append(parts, name)
		}
	}
	add("diff", strings.Contains(p.GetDiff(), contentBefore))
	add("files", len(p.GetFiles()) > 0)
	add("operands", len(p.GetOperands()) > 0)
	add("summary", strings.Contains(p.GetSummary(), "17 bytes"))
	add("digest", m.GetCallDigest() != "")
	add("notes", strings.Contains(strings.Join(p.GetNotes(), " "), "a note of the plan"))
	return strings.Join(parts, " ")
}

// TestPromptViews: the approval request of a call whose plan read a file shows its content only
// to permitted readers. Control: under policies that permit reads, the same readers see all of
// it.
func TestPromptViews(t *testing.T) {
	t.Parallel()
	const list, whole = "diff operands summary digest notes", "diff files operands summary digest notes"
	for name, c := range map[string]struct {
		policies, requester, auditor, auditorInList string
	}{
		"files that policy forbids": {noReading, "", "", ""},
		"files that all may read":   {"", list, whole, list},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(w *world) { w.policies = c.policies })
			w.run.Change(func(p *gatewaytest.Probe) {
				p.Found.Preview.Diff, p.Found.Preview.Summary, p.Found.Preview.Notes = promptDiff, foundSummary, []string{"a note of the plan"}
			})
			stream := must.Get(w.coder.gateway().CallTool(t.Context(), running()))(t)
			defer stream.Close()
			var asked *palyrav1.Approval
			for asked == nil && stream.Receive() {
				asked = stream.Msg().GetApprovalRequested().GetApproval()
			}
			if got := contentOf(asked); got != c.requester {
				t.Errorf("the requester sees %q, want %q", got, c.requester)
			}
			if p := asked.GetPrompt(); string(p.GetArgumentsJson()) != `{"argv":["make"]}` || p.GetTitle() == "" || asked.GetMissing() == "" || len(p.GetNotes()) == 0 {
				t.Errorf("the requester does not see its own call: %v", asked)
			}
			req := &palyrav1.GetApprovalRequest{ApprovalId: asked.GetApprovalId()}
			if got := contentOf(must.Get(w.bob.approvals().GetApproval(t.Context(), req))(t).GetApproval()); got != whole {
				t.Errorf("who may decide sees %q, want %q", got, whole)
			}
			if got := contentOf(must.Get(w.eve.approvals().GetApproval(t.Context(), req))(t).GetApproval()); got != c.auditor {
				t.Errorf("the auditor sees %q, want %q", got, c.auditor)
			}
			listed := must.Get(w.eve.approvals().ListApprovals(t.Context(), &palyrav1.ListApprovalsRequest{}))(t).GetApprovals()
			if got := contentOf(listed[0]); got != c.auditorInList {
				t.Errorf("the auditor sees %q in the list, want %q", got, c.auditorInList)
			}
			watch := must.Get(w.eve.approvals().WatchApprovals(t.Context(), &palyrav1.WatchApprovalsRequest{}))(t)
			defer watch.Close()
			for watch.Receive() {
				if m := watch.Msg().GetApproval(); m != nil {
					if got := contentOf(m); got != c.auditorInList {
						t.Errorf("the auditor sees %q in the stream, want %q", got, c.auditorInList)
					}
					break
				}
			}
			var export []byte
			for _, part := range must.Get(collect(w.eve.approvals().ExportApprovals(t.Context(), &palyrav1.ExportApprovalsRequest{})))(t) {
				export = append(export, part.GetData()...)
			}
			line, _, _ := strings.Cut(string(export), "\n")
			if shown := c.auditor != ""; strings.Contains(line, contentBefore) != shown || strings.Contains(line, "17 bytes") != shown || !strings.Contains(line, asked.GetApprovalId()) ||
				strings.Contains(line, gatewaytest.Digest("2")) != shown {
				t.Errorf("the auditor exports %s", line)
			}
			withdrawn := must.Get(w.coder.approvals().CancelApproval(t.Context(), &palyrav1.CancelApprovalRequest{ApprovalId: asked.GetApprovalId(), Reason: "done"}))(t)
			if got := contentOf(withdrawn.GetApproval()); got != c.requester {
				t.Errorf("who withdrew the call sees %q", got)
			}
		})
	}
}

// TestProgramInAPrompt: only approvers see the program's digest and its path on the host,
// because the program may be a file of the workspace.
func TestProgramInAPrompt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.run.Change(func(p *gatewaytest.Probe) {
		p.Found.Binding.Executable = tool.Executable{Path: "/srv/project/run.sh", SHA256: gatewaytest.Digest("a")}
		p.Found.Binding.Argv = []string{"./run.sh", "x"}
	})
	stream := must.Get(w.coder.gateway().CallTool(t.Context(), running()))(t)
	defer stream.Close()
	var asked *palyrav1.Approval
	for asked == nil && stream.Receive() {
		asked = stream.Msg().GetApprovalRequested().GetApproval()
	}
	req := &palyrav1.GetApprovalRequest{ApprovalId: asked.GetApprovalId()}
	if p := asked.GetPrompt(); p.GetExecutableDigest() != "" || p.GetExecutable() != "./run.sh" {
		t.Errorf("the requester sees %q %q", p.GetExecutable(), p.GetExecutableDigest())
	}
	if p := must.Get(w.eve.approvals().GetApproval(t.Context(), req))(t).GetApproval().GetPrompt(); p.GetExecutableDigest() != "" {
		t.Errorf("the auditor sees %q", p.GetExecutableDigest())
	}
	if m := must.Get(w.eve.approvals().GetApproval(t.Context(), req))(t).GetApproval(); len(m.GetPrompt().GetScopes()) > 0 || m.GetSubjectId() != "process.run" {
		t.Errorf("the auditor sees answers and a subject with the place of the program: %v %s", m.GetPrompt().GetScopes(), m.GetSubjectId())
	}
	if m := must.Get(w.bob.approvals().GetApproval(t.Context(), req))(t).GetApproval(); len(m.GetPrompt().GetScopes()) == 0 { // control
		t.Error("who may decide sees no answers")
	}
	if p := must.Get(w.bob.approvals().GetApproval(t.Context(), req))(t).GetApproval().GetPrompt(); p.GetExecutableDigest() != gatewaytest.Digest("a") || p.GetExecutable() != "/srv/project/run.sh" {
		t.Errorf("who may decide sees %q %q", p.GetExecutable(), p.GetExecutableDigest())
	}
}
