//go:build palyrainit

package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/event"
	"palyra/internal/must"
)

// TestUndoThroughTheAPI takes back what a program committed, once, and journals
// it; what somebody changed since is a conflict.
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
