package clitest

import (
	"slices"

	palyrav1 "palyra/gen/palyra/v1"
)

// ChangeSetID is the id of the change set that can be undone.
const ChangeSetID = "01CHANGESET000000000000000"

func someChangeSets() []*palyrav1.ChangeSet {
	return []*palyrav1.ChangeSet{
		{
			ChangeSetId: ChangeSetID, Workspace: "demo", CommittedAt: now, State: palyrav1.ChangeSetState_CHANGE_SET_STATE_COMMITTED,
			ProposalId: "01PR0P0SAL0000000000000000", Principal: "agent:claude", Root: "sha256:aa", Added: 1, Modified: 1, Bytes: 12,
			Protected: []string{"Makefile"}, Classes: []string{"runner"}, Undoable: true,
		},
	}
}

func someWorkspaces() []*palyrav1.WorkspaceStatus {
	return []*palyrav1.WorkspaceStatus{
		{Name: "demo", Path: "/srv/demo", Mode: "copy_on_write"}, {Name: "docs", Path: "/srv/docs", ReadOnly: true, Mode: "copy_on_write"},
	}
}

func serveWorkspaces(f *Gateway) {
	on(f, func(*palyrav1.ListWorkspacesRequest) (*palyrav1.ListWorkspacesResponse, error) {
		return &palyrav1.ListWorkspacesResponse{Workspaces: f.Workspaces}, f.WorkspacesFail
	})
	on(f, func(req *palyrav1.ListChangeSetsRequest) (*palyrav1.ListChangeSetsResponse, error) {
		return &palyrav1.ListChangeSetsResponse{ChangeSets: slices.DeleteFunc(slices.Clone(f.changeSets), func(c *palyrav1.ChangeSet) bool {
			return c.GetWorkspace() != req.GetWorkspace()
		})}, nil
	})
	// A page has one change.
	on(f, func(req *palyrav1.GetChangeSetRequest) (*palyrav1.GetChangeSetResponse, error) {
		c, err := f.changeSet(req.GetWorkspace(), req.GetChangeSetId())
		if req.GetPageToken() == "" {
			return &palyrav1.GetChangeSetResponse{
				ChangeSet: c, NextPageToken: "1", Diff: "# protected: Makefile (runner)\n--- a/Makefile\n+++ b/Makefile\n@@ -1 +1 @@\n-all:\n+all: evil\x1b[2J\n",
				Changes: []*palyrav1.WorkspaceChange{{
					Path: "Makefile", Kind: "modified", Classes: []string{"runner"},
					Was: &palyrav1.FileState{Type: "file", Mode: 0o644, Size: 5, Sha256: "sha256:bb"}, Is: &palyrav1.FileState{Type: "file", Mode: 0o644, Size: 10, Sha256: "sha256:cc"},
				}},
			}, err
		}
		return &palyrav1.GetChangeSetResponse{ChangeSet: c, Changes: []*palyrav1.WorkspaceChange{
			{Path: "main.o", Kind: "added", Is: &palyrav1.FileState{Type: "file", Mode: 0o644, Size: 2, Sha256: "sha256:dd"}},
		}}, err
	})
	on(f, func(req *palyrav1.UndoChangeSetRequest) (*palyrav1.UndoChangeSetResponse, error) {
		c, err := f.changeSet(req.GetWorkspace(), req.GetChangeSetId())
		if err != nil {
			return nil, err
		}
		c.State, c.Undoable = palyrav1.ChangeSetState_CHANGE_SET_STATE_UNDONE, false
		return &palyrav1.UndoChangeSetResponse{ChangeSet: &palyrav1.ChangeSet{
			ChangeSetId: "01UND0NE000000000000000000", Workspace: "demo", CommittedAt: now, State: palyrav1.ChangeSetState_CHANGE_SET_STATE_COMMITTED,
			ProposalId: c.GetProposalId(), Principal: "user:ada", Undoes: c.GetChangeSetId(), Root: "sha256:ee", Modified: 1, Deleted: 1, Undoable: true,
		}}, nil
	})
}

// changeSet returns a change set. The caller holds Mu.
func (f *Gateway) changeSet(workspace, id string) (*palyrav1.ChangeSet, error) {
	for _, c := range f.changeSets {
		if c.GetWorkspace() == workspace && c.GetChangeSetId() == id {
			return c, nil
		}
	}
	return nil, notFound("no change set %q of workspace %q is kept", id, workspace)
}
