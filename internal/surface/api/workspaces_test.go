package api_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/access"
	"palyra/internal/core/config"
	"palyra/internal/core/reason"
	"palyra/internal/exec/workspace/overlay"
)

// workspacesFake keeps change sets in memory and undoes them like the daemon.
type workspacesFake struct {
	mu    sync.Mutex
	sets  []overlay.Detail
	notes []string
}

func newWorkspacesFake() *workspacesFake {
	d := overlay.Detail{
		Summary: overlay.Summary{
			ID: "set-1", Workspace: "default", At: time.Unix(1_700_000_000, 0), CallID: "call-1", Principal: "agent:coder", Root: "sha256:ab",
			Added: 3, Protected: []string{"Makefile"}, Classes: []string{"runner"}, State: overlay.RecordCommitted,
		},
		Diff: "diff --git a/Makefile b/Makefile\n--- a/Makefile\n+++ b/Makefile\n@@ -1 +1 @@\n-old\n+new\n",
	}
	for i := range 3 {
		d.Changes = append(d.Changes, overlay.Change{
			Path: fmt.Sprintf("f\x1b%d", i), Is: overlay.State{Type: overlay.File, Mode: 0o755, Size: 7, SHA256: "sha256:cd"}, Classes: []overlay.Class{overlay.ClassName},
		})
	}
	return &workspacesFake{sets: []overlay.Detail{d}}
}

func (f *workspacesFake) Declared() []config.Workspace {
	return []config.Workspace{{Name: "default", Path: "/srv/default", Mode: "copy_on_write"}}
}

func (f *workspacesFake) ChangeSets(workspace string) ([]overlay.Summary, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if workspace != "default" {
		return nil, reason.Errorf(reason.UnknownWorkspace, "workspace %q was not declared", workspace)
	}
	var all []overlay.Summary
	for _, d := range f.sets {
		all = append([]overlay.Summary{d.Summary}, all...)
	}
	return all, nil
}

func (f *workspacesFake) ChangeSet(workspace, id string) (overlay.Detail, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range f.sets {
		if d.ID == id && d.Workspace == workspace {
			return d, nil
		}
	}
	return overlay.Detail{}, reason.Errorf(reason.NotFound, "no change set %q", id)
}

func (f *workspacesFake) Undo(_ context.Context, by access.Caller, workspace, id, note string) (overlay.Summary, error) {
	d, err := f.ChangeSet(workspace, id)
	if err != nil {
		return overlay.Summary{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.sets {
		if f.sets[i].Undoes == id {
			return f.sets[i].Summary, nil
		}
		if f.sets[i].ID == id {
			f.sets[i].State = overlay.RecordUndone
		}
	}
	d.ID, d.Undoes, d.Principal, d.State = "undo-"+id, id, by.Principal.String(), overlay.RecordCommitted
	f.sets, f.notes = append(f.sets, d), append(f.notes, note)
	return d.Summary, nil
}

func TestChangeSets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	api := palyrav1connect.NewWorkspaceServiceClient(w.alice.http, w.url)
	ctx := t.Context()
	list, err := api.ListWorkspaces(ctx, &palyrav1.ListWorkspacesRequest{})
	if err != nil || list.GetWorkspaces()[0].GetName() != "default" {
		t.Fatal(list, err)
	}
	sets, err := api.ListChangeSets(ctx, &palyrav1.ListChangeSetsRequest{Workspace: "default"})
	if err != nil || len(sets.GetChangeSets()) != 1 || !sets.GetChangeSets()[0].GetUndoable() {
		t.Fatal(sets, err)
	}
	req := &palyrav1.GetChangeSetRequest{Workspace: "default", ChangeSetId: "set-1", PageSize: 2}
	first, err := api.GetChangeSet(ctx, req)
	if err != nil || len(first.GetChanges()) != 2 || first.GetDiff() == "" || first.GetNextPageToken() == "" {
		t.Fatal(first, err)
	}
	want := `{"path":"\"f\\x1b0\"","kind":"added","is":{"type":"file","mode":493,"size":"7","sha256":"sha256:cd"},"classes":["name"]}`
	wanted := &palyrav1.WorkspaceChange{}
	if err := protojson.Unmarshal([]byte(want), wanted); err != nil || wanted.String() != first.GetChanges()[0].String() {
		t.Errorf("got %v, want %v (%v)", first.GetChanges()[0], wanted, err)
	}
	req.PageToken = first.GetNextPageToken()
	second, err := api.GetChangeSet(ctx, req)
	if err != nil || len(second.GetChanges()) != 1 || second.GetDiff() != "" || second.GetNextPageToken() != "" {
		t.Error(second, err)
	}
	req.PageToken = "-1"
	if _, err := api.GetChangeSet(ctx, req); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("a made-up token: %v", err)
	}
	if _, err := api.ListChangeSets(ctx, &palyrav1.ListChangeSetsRequest{Workspace: "other"}); err == nil {
		t.Error("an undeclared workspace has change sets")
	}
}

// TestChangeSetWithoutItsContent: a change set has no content for a reader whose reads of the
// files policy forbids.
func TestChangeSetWithoutItsContent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world) { w.policies = noReading })
	req := &palyrav1.GetChangeSetRequest{Workspace: "default", ChangeSetId: "set-1"}
	for name, c := range map[string]struct {
		by         *client
		restricted int32
	}{
		"who may not read":     {w.dan, 3},
		"the control, by rule": {w.alice, 0},
	} {
		got, err := palyrav1connect.NewWorkspaceServiceClient(c.by.http, w.url).GetChangeSet(t.Context(), req)
		if err != nil || len(got.GetChanges()) != 3 || got.GetRestrictedFiles() != c.restricted {
			t.Fatalf("%s: %v, %v", name, got, err)
		}
		is := got.GetChanges()[0].GetIs()
		if (got.GetChangeSet().GetRoot() != "") != (c.restricted == 0) {
			t.Errorf("%d files restricted, and the digest of all changes is %q", c.restricted, got.GetChangeSet().GetRoot())
		}
		if shown := strings.Contains(got.GetDiff(), "+new"); shown != (c.restricted == 0) || (is.GetSha256() != "") != shown || (is.GetSize() != 0) != shown || is.GetMode() == 0 {
			t.Errorf("%s: got diff %q and %v", name, got.GetDiff(), is)
		}
	}
}

// TestChangeSetOfALinkByNow: a change set has no content if its files were replaced by links to
// a readable file, because fs.read of their names would then read that file.
func TestChangeSetOfALinkByNow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world) { w.read.PathOfInput, w.read.Found.Facts.Path = false, "README.md" })
	req := &palyrav1.GetChangeSetRequest{Workspace: "default", ChangeSetId: "set-1"}
	got, err := palyrav1connect.NewWorkspaceServiceClient(w.alice.http, w.url).GetChangeSet(t.Context(), req)
	if err != nil || got.GetRestrictedFiles() != 3 || got.GetDiff() != "" || got.GetChanges()[0].GetIs().GetSha256() != "" {
		t.Errorf("got %v, %v", got, err)
	}
}

// TestUndoPermissions covers the roles of the default policies.
func TestUndoPermissions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	undo := &palyrav1.UndoChangeSetRequest{Workspace: "default", ChangeSetId: "set-1", Reason: "wrong"}
	for _, test := range []struct {
		who        *client
		read, undo bool
	}{{w.eve, true, false}, {w.coder, false, false}, {w.bob, true, true}, {w.dan, true, true}, {w.alice, true, true}} {
		api := palyrav1connect.NewWorkspaceServiceClient(test.who.http, w.url)
		if _, err := api.ListChangeSets(ctx, &palyrav1.ListChangeSetsRequest{Workspace: "default"}); (err == nil) != test.read {
			t.Errorf("%s reads: %v", test.who.device, err)
		}
		done, err := api.UndoChangeSet(ctx, undo)
		if (err == nil) != test.undo {
			t.Errorf("%s undoes: %v", test.who.device, err)
		}
		if err == nil && done.GetChangeSet().GetUndoes() != "set-1" {
			t.Errorf("undoing returned %v", done)
		}
	}
	// Three requests undid the change set, with one effect.
	if len(w.workspaces.notes) != 1 || w.workspaces.notes[0] != "wrong" {
		t.Errorf("notes: %q", w.workspaces.notes)
	}
}
