package clitest

import (
	"context"
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/reason"
)

// ChangeSetID is the id of the change set that can be undone.
const ChangeSetID = "01CHANGESET000000000000000"

type fakeWorkspaces struct{ f *Gateway }

func someChangeSets() []*palyrav1.ChangeSet {
	return []*palyrav1.ChangeSet{
		{
			ChangeSetId: ChangeSetID, Workspace: "demo", CommittedAt: timestamppb.New(Now), State: palyrav1.ChangeSetState_CHANGE_SET_STATE_COMMITTED,
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

func (s fakeWorkspaces) ListWorkspaces(context.Context, *palyrav1.ListWorkspacesRequest) (*palyrav1.ListWorkspacesResponse, error) {
	s.f.Mu.Lock()
	defer s.f.Mu.Unlock()
	s.f.WorkspacesAsked++
	return &palyrav1.ListWorkspacesResponse{Workspaces: s.f.Workspaces}, s.f.WorkspacesFail
}

func (s fakeWorkspaces) ListChangeSets(_ context.Context, req *palyrav1.ListChangeSetsRequest) (*palyrav1.ListChangeSetsResponse, error) {
	s.f.Mu.Lock()
	defer s.f.Mu.Unlock()
	reply := &palyrav1.ListChangeSetsResponse{}
	for _, c := range s.f.changeSets {
		if c.GetWorkspace() == req.GetWorkspace() {
			reply.ChangeSets = append(reply.ChangeSets, c)
		}
	}
	return reply, nil
}

func (s fakeWorkspaces) find(workspace, id string) (*palyrav1.ChangeSet, error) {
	s.f.Mu.Lock()
	defer s.f.Mu.Unlock()
	for _, c := range s.f.changeSets {
		if c.GetWorkspace() == workspace && c.GetChangeSetId() == id {
			return c, nil
		}
	}
	return nil, GatewayError(connect.CodeNotFound, reason.NotFound, fmt.Sprintf("no change set %q of workspace %q is kept", id, workspace), nil)
}

// GetChangeSet returns one change per page.
func (s fakeWorkspaces) GetChangeSet(_ context.Context, req *palyrav1.GetChangeSetRequest) (*palyrav1.GetChangeSetResponse, error) {
	c, err := s.find(req.GetWorkspace(), req.GetChangeSetId())
	if err != nil {
		return nil, err
	}
	if req.GetPageToken() == "" {
		return &palyrav1.GetChangeSetResponse{
			ChangeSet: c, NextPageToken: "1", Diff: "# protected: Makefile (runner)\n--- a/Makefile\n+++ b/Makefile\n@@ -1 +1 @@\n-all:\n+all: evil\x1b[2J\n",
			Changes: []*palyrav1.WorkspaceChange{{
				Path: "Makefile", Kind: "modified", Classes: []string{"runner"},
				Was: &palyrav1.FileState{Type: "file", Mode: 0o644, Size: 5, Sha256: "sha256:bb"}, Is: &palyrav1.FileState{Type: "file", Mode: 0o644, Size: 10, Sha256: "sha256:cc"},
			}},
		}, nil
	}
	return &palyrav1.GetChangeSetResponse{ChangeSet: c, Changes: []*palyrav1.WorkspaceChange{
		{Path: "main.o", Kind: "added", Is: &palyrav1.FileState{Type: "file", Mode: 0o644, Size: 2, Sha256: "sha256:dd"}},
	}}, nil
}

func (s fakeWorkspaces) UndoChangeSet(_ context.Context, req *palyrav1.UndoChangeSetRequest) (*palyrav1.UndoChangeSetResponse, error) {
	c, err := s.find(req.GetWorkspace(), req.GetChangeSetId())
	if err != nil {
		return nil, err
	}
	s.f.Mu.Lock()
	defer s.f.Mu.Unlock()
	s.f.Undone = append(s.f.Undone, req)
	c.State, c.Undoable = palyrav1.ChangeSetState_CHANGE_SET_STATE_UNDONE, false
	return &palyrav1.UndoChangeSetResponse{ChangeSet: &palyrav1.ChangeSet{
		ChangeSetId: "01UND0NE000000000000000000", Workspace: "demo", CommittedAt: timestamppb.New(Now), State: palyrav1.ChangeSetState_CHANGE_SET_STATE_COMMITTED,
		ProposalId: c.GetProposalId(), Principal: "user:ada", Undoes: c.GetChangeSetId(), Root: "sha256:ee", Modified: 1, Deleted: 1, Undoable: true,
	}}, nil
}
