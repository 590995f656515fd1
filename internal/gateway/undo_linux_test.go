//go:build palyrainit

package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/config"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/needs"
	"palyra/internal/core/reason"
	"palyra/internal/identity"
	"palyra/internal/surface/api"
)

// TestUndoThroughTheAPI: the committed changes of a program can be undone once, and the undo is
// journaled. A later change of the same file is a conflict.
func TestUndoThroughTheAPI(t *testing.T) {
	t.Parallel()
	g := startGoverned(t, nil)
	before := g.tree()
	g.want(g.call(map[string]any{"argv": []string{"mv", "source.txt", "sub/kept.txt"}}), "succeeded", "", "committed")
	api := palyrav1connect.NewWorkspaceServiceClient(g.client(), g.url())
	declared, err := api.ListWorkspaces(t.Context(), &palyrav1.ListWorkspacesRequest{})
	if err != nil || len(declared.GetWorkspaces()) != 1 {
		t.Fatal(declared, err)
	}
	name := declared.GetWorkspaces()[0].GetName()
	list := func() []*palyrav1.ChangeSet {
		t.Helper()
		reply := must.Get(api.ListChangeSets(t.Context(), &palyrav1.ListChangeSetsRequest{Workspace: name}))(t)
		return reply.GetChangeSets()
	}
	set := list()[0]
	shown, err := api.GetChangeSet(t.Context(), &palyrav1.GetChangeSetRequest{Workspace: name, ChangeSetId: set.GetChangeSetId()})
	if err != nil || len(shown.GetChanges()) != 2 || !strings.Contains(shown.GetDiff(), "deleted file mode 100644") {
		t.Errorf("shown %v (%v)", shown, err)
	}
	undo := &palyrav1.UndoChangeSetRequest{Workspace: name, ChangeSetId: set.GetChangeSetId(), Reason: "wrong file"}

	g.write("source.txt", "somebody else\n")
	if _, err := api.UndoChangeSet(t.Context(), undo); err == nil || !strings.Contains(err.Error(), "source.txt") {
		t.Errorf("over somebody's file: %v", err)
	}
	must.Do(t, os.Remove(filepath.Join(g.dir, "source.txt")))

	first, err := api.UndoChangeSet(t.Context(), undo)
	if err != nil || first.GetChangeSet().GetUndoes() != set.GetChangeSetId() {
		t.Fatal(first, err)
	}
	if now := g.tree(); now != before {
		t.Errorf("the workspace is not what it was:\n%s", now)
	}
	again, err := api.UndoChangeSet(t.Context(), undo)
	if err != nil || again.GetChangeSet().GetChangeSetId() != first.GetChangeSet().GetChangeSetId() || len(list()) != 2 {
		t.Errorf("a second undo: %v (%v)", again, err)
	}
	events, err := palyrav1connect.NewJournalServiceClient(g.client(), g.url()).ListEvents(t.Context(), &palyrav1.ListEventsRequest{Filter: &palyrav1.EventFilter{Code: string(event.Undone)}})
	if err != nil || len(events.GetEvents()) != 1 {
		t.Fatalf("%d events (%v)", len(events.GetEvents()), err)
	}
	payload := events.GetEvents()[0].String()
	for _, want := range []string{set.GetRoot(), set.GetProposalId(), "wrong file", "source.txt"} {
		if !strings.Contains(payload, want) {
			t.Errorf("the event lacks %s: %s", want, payload)
		}
	}
}

// undoing is a gateway of four people with one workspace, in which the changes of one program
// were committed.
type undoing struct {
	*team
	*governed
	set *palyrav1.ChangeSet
}

func startUndoing(t *testing.T, argv ...string) undoing {
	t.Helper()
	return startUndoingUnder(t, "", argv...)
}

// startUndoingUnder is startUndoing with additional policies.
func startUndoingUnder(t *testing.T, policies string, argv ...string) undoing {
	t.Helper()
	needs.Sandbox(t)
	cfg := policyConfigAt(t)
	cfg.ProcessRunner.Enabled, cfg.AllowSensitiveTools = true, true
	cfg.Approvals.Cooldown = 0
	cfg.Workspaces = []config.Workspace{workspaceAt(t)}
	// Changes of programs that local runs require no approval.
	must.Write(t, filepath.Join(cfg.Policy.Dir, "made.cedar"), "@id(\"made\") @reason(\"a test\") @waives(\"approval: a test\")\npermit(principal == User::\"local\", action == Action::\"workspace.commit\", resource);\n"+policies)
	d := newTeam(t, cfg)
	u := undoing{d, &governed{running: d.running, dir: cfg.Workspaces[0].Path}, nil}
	t.Cleanup(d.running.end)
	u.write("source.txt", "new\n")
	u.governed.want(u.call(map[string]any{"argv": argv}), "succeeded", "", "committed")
	u.set = u.newest()
	return u
}

func (u undoing) newest() *palyrav1.ChangeSet {
	t := u.team.t
	t.Helper()
	return must.Get(u.workspaces("local").ListChangeSets(t.Context(), &palyrav1.ListChangeSetsRequest{Workspace: "default"}))(t).GetChangeSets()[0]
}

func (u undoing) workspaces(name string) palyrav1connect.WorkspaceServiceClient {
	return palyrav1connect.NewWorkspaceServiceClient(dialAs(u.team.t, u.dirs[name]), u.team.url())
}

func (u undoing) undo(ctx context.Context, name string) error {
	_, err := u.workspaces(name).UndoChangeSet(ctx, &palyrav1.UndoChangeSetRequest{Workspace: "default", ChangeSetId: u.set.GetChangeSetId(), Reason: "why not"})
	return api.ReasonOf(err)
}

// asking starts an undo as a member, and returns the approval request and the outcome.
func (u undoing) asking(name string) (*palyrav1.Approval, <-chan error) {
	t := u.team.t
	t.Helper()
	local := u.as("local")
	seen := must.Get(local.approvals.WatchApprovals(t.Context(), &palyrav1.WatchApprovalsRequest{}))(t)
	defer func() { _ = seen.Close() }()
	done := make(chan error, 1)
	go func() { done <- u.undo(t.Context(), name) }()
	for seen.Receive() {
		if v := seen.Msg().GetApproval(); v.GetState() == palyrav1.ApprovalState_APPROVAL_STATE_PENDING && v.GetRequestedBy() == "user:"+name {
			return v, done
		}
	}
	t.Fatalf("nobody was asked: %v", seen.Err())
	return nil, nil
}

// TestUndoPassesTheGate: changes that required approval require it for their undo. Changes that
// policy forbids a member to commit cannot be undone by that member either.
func TestUndoPassesTheGate(t *testing.T) {
	t.Parallel()
	u := startUndoing(t, "install", "-D", "-m", "755", "source.txt", ".git/hooks/pre-commit")
	hook := filepath.Join(u.dir, ".git/hooks/pre-commit")
	gone := func() bool { _, err := os.Stat(hook); return os.IsNotExist(err) }
	for _, yes := range []bool{false, true} {
		question, done := u.asking("bob")
		if gone() || !strings.Contains(question.GetPrompt().GetDiff(), "pre-commit") {
			t.Errorf("asked %v", question)
		}
		must.Do(t, u.as("dan").vote(question, yes))
		if err := <-done; (err == nil) != yes || !yes && reason.Of(err) != reason.ApprovalDenied || gone() != yes {
			t.Errorf("with %v: %v, gone: %v", yes, err, gone())
		}
	}
	if n := len(u.as("bob").events(event.Undone)); n != 1 {
		t.Errorf("%d undos in the journal", n)
	}
}

// TestUndoBringsBackAProgram: an undo that restores a program requires approval, even if its
// removal did not. The approval request of an undo of an undo shows the diff of the restored
// files.
func TestUndoBringsBackAProgram(t *testing.T) {
	t.Parallel()
	u := startUndoing(t, "mv", "source.txt", "run")
	program := filepath.Join(u.dir, "run")
	must.Do(t, os.Chmod(program, 0o755)) // #nosec G302 -- a program
	u.governed.want(u.call(map[string]any{"argv": []string{"rm", "run"}}), "succeeded", "", "committed")
	u.set = u.newest()
	there := func() bool { _, err := os.Stat(program); return err == nil }
	question, done := u.asking("bob")
	if there() || !strings.Contains(question.GetPrompt().GetDiff(), "-new") {
		t.Errorf("asked %v", question.GetPrompt())
	}
	must.Do(t, u.as("dan").vote(question, true))
	must.Do(t, <-done)
	if !there() {
		t.Error("the program did not come back")
	}
	u.set = u.newest()
	question, done = u.asking("bob")
	if notes := strings.Join(question.GetPrompt().GetNotes(), " "); !strings.Contains(question.GetPrompt().GetDiff(), "-new") || !strings.Contains(notes, "which is restored") {
		t.Errorf("asked %v", question.GetPrompt())
	}
	must.Do(t, u.as("dan").vote(question, true))
	must.Do(t, <-done)
	if there() {
		t.Error("the program is still there")
	}
}

// TestUndoOfTheForbidden: a rule that forbids a member to commit also forbids the undo; other
// members can undo.
func TestUndoOfTheForbidden(t *testing.T) {
	t.Parallel()
	u := startUndoing(t, "mv", "source.txt", "moved.txt")
	must.Write(t, filepath.Join(u.team.cfg.Policy.Dir, "dan.cedar"), "@id(\"dan\") @reason(\"dan writes nothing\")\nforbid(principal == User::\"dan\", action == Action::\"workspace.commit\", resource);\n")
	w := u.as("bob").ask("local", func(ctx context.Context, p person) error {
		_, err := p.policy.ReloadPolicy(ctx, &palyrav1.ReloadPolicyRequest{})
		return err
	})
	must.Do(t, u.as("bob").vote(w.question, true))
	must.Do(t, <-w.done)
	before := u.tree()
	if err := u.undo(t.Context(), "dan"); reason.Of(err) != reason.CommitRefused || u.tree() != before {
		t.Errorf("dan: %v", err)
	}
	// Neither a token nor a tool call gives a permitted member another way to undo.
	tokens := palyrav1connect.NewTokenServiceClient(dialAs(t, u.dirs["bob"]), u.team.url())
	if _, err := tokens.CreateToken(t.Context(), &palyrav1.CreateTokenRequest{Name: "t", Scopes: []string{"workspace.undo"}}); reason.Of(api.ReasonOf(err)) != reason.InvalidInput {
		t.Errorf("a token that takes back: %v", err)
	}
	made := must.Get(tokens.CreateToken(t.Context(), &palyrav1.CreateTokenRequest{Name: "t", Scopes: []string{"tool.call"}}))(t)
	input := must.Get(json.Marshal(map[string]string{"workspace": "default", "change_set_id": u.set.GetChangeSetId()}))(t)
	own := must.Get(identity.ReadBundle(u.dirs["bob"]))(t)
	transport := &http.Transport{TLSClientConfig: identity.Bundle{Root: own.Root, ServerName: own.ServerName, Token: made.GetText()}.ClientTLS(), ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	for name, client := range map[string]*http.Client{
		"a token":  {Transport: bearer{transport, made.GetText()}},
		"a device": dialAs(t, u.dirs["bob"]), // the device's calls may come from a model
	} {
		stream := must.Get(palyrav1connect.NewGatewayServiceClient(client, u.team.url()).CallTool(t.Context(), &palyrav1.CallToolRequest{Tool: "workspace.undo", InputJson: input}))(t)
		for stream.Receive() {
			continue
		}
		if err := api.ReasonOf(stream.Err()); reason.Of(err) != reason.PermissionDenied || u.tree() != before {
			t.Errorf("by %s: %v", name, err)
		}
	}
	must.Do(t, u.undo(t.Context(), "bob")) // control
}

// TestUndoWhileFrozen: while the gateway is frozen, only an owner or admin can undo changes, with a
// second person if there is one. Changes that policy forbids them to commit stay.
func TestUndoWhileFrozen(t *testing.T) {
	t.Parallel()
	u := startUndoing(t, "mv", "source.txt", "moved.txt")
	before := u.tree()
	must.Get(u.as("local").status.Freeze(t.Context(), &palyrav1.FreezeRequest{Reason: "look"}))(t)
	if err := u.undo(t.Context(), "dan"); reason.Of(err) != reason.GatewayFrozen || u.tree() != before {
		t.Errorf("an operator: %v", err)
	}
	question, done := u.asking("cyd")
	if u.tree() != before || !strings.Contains(question.GetPrompt().GetSummary(), "frozen") {
		t.Errorf("asked %v", question.GetPrompt())
	}
	for _, name := range []string{"cyd", "dan"} {
		if u.as(name).vote(question, true) == nil {
			t.Errorf("the yes of %s was taken", name)
		}
	}
	must.Do(t, u.as("bob").vote(question, true))
	must.Do(t, <-done)
	if _, err := os.Stat(filepath.Join(u.dir, "source.txt")); err != nil {
		t.Error("it was not taken back")
	}
	if s := must.Get(u.as("bob").status.GetStatus(t.Context(), &palyrav1.GetStatusRequest{}))(t); s.GetFreeze() == nil {
		t.Error("the gateway is frozen no more")
	}
	must.Do(t, u.undo(t.Context(), "cyd")) // this changes nothing and requires no approval
	if n := len(u.as("bob").events(event.Undone)); n != 1 {
		t.Errorf("%d undos in the journal", n)
	}
}

// TestFrozenUndoShowsNoForbiddenFile: the approval request of an undo while the gateway is
// frozen shows the diff to approvers and to members that may read the files. The answer is
// bound to the files, whose digests are not displayed. Control: a requester that may read the
// files.
func TestFrozenUndoShowsNoForbiddenFile(t *testing.T) {
	t.Parallel()
	for policies, shown := range map[string]bool{
		"@id(\"cyd\") @reason(\"cyd reads nothing\")\nforbid(principal == User::\"cyd\", action == Action::\"tool.execute/fs.read\", resource);\n": false,
		"": true,
	} {
		u := startUndoingUnder(t, policies, "cp", "source.txt", "copy.txt")
		must.Get(u.as("local").status.Freeze(t.Context(), &palyrav1.FreezeRequest{Reason: "look"}))(t)
		question, done := u.asking("cyd")
		if !strings.Contains(question.GetPrompt().GetDiff(), "copy.txt") {
			t.Errorf("who may decide does not see the diff: %v", question.GetPrompt())
		}
		req := &palyrav1.GetApprovalRequest{ApprovalId: question.GetApprovalId()}
		seen := must.Get(u.as("cyd").approvals.GetApproval(t.Context(), req))(t).GetApproval()
		if p := seen.GetPrompt(); strings.Contains(p.GetDiff(), "copy.txt") != shown || (seen.GetCallDigest() != "") != shown || len(p.GetFiles()) > 0 != shown {
			t.Errorf("with %q the requester sees %v", policies, seen)
		}
		if text := string(question.GetPrompt().GetArgumentsJson()); strings.Contains(text, "sha256:") || !strings.Contains(text, u.set.GetChangeSetId()) {
			t.Errorf("the arguments are %s", text)
		}
		must.Do(t, u.as("bob").vote(question, true))
		must.Do(t, <-done)
	}
}
